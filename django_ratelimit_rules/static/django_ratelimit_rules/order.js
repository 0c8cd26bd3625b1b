/* Changes the order of the rules: by dragging (SortableJS), by two buttons per rule, or by a typed position.
 *
 * Writes the position inputs only. Reuses the existing numbers, so that few rules have to be saved.
 */
"use strict";

(() => {
    const { rows, field, nameOf, make, group, changed, onRow, words } = window.ratelimit;
    const STEP = 10;
    const position = (row) => {
        const text = field(row, "position")?.value.trim();
        return text && Number.isInteger(Number(text)) ? Number(text) : Infinity;
    };

    /** Write positions that fit the order on the page. */
    function write() {
        const inputs = rows().map((row) => field(row, "position"));
        let last = Math.max(0, ...rows().map(position).filter(Number.isFinite));
        const numbers = rows().map(position).map((number) => (Number.isFinite(number) ? number : (last += STEP)));
        const distinct = new Set(numbers).size === numbers.length;
        numbers.sort((a, b) => a - b);
        inputs.forEach((input, place) => { input.value = distinct ? numbers[place] : (place + 1) * STEP; });
    }

    function announce(row) {
        const all = rows();
        const values = { rule: nameOf(row), place: all.indexOf(row) + 1, total: all.length };
        group().querySelector(".ratelimit-announced").textContent = words(values.rule ? "moved" : "moved_new", values);
        all.forEach((other, place) => {
            other.querySelector(".ratelimit-up").disabled = place === 0;
            other.querySelector(".ratelimit-down").disabled = place === all.length - 1;
        });
    }

    function moved(row) {
        write();
        announce(row);
        changed();
    }

    function move(row, by) {
        const all = rows();
        const other = all[all.indexOf(row) + by];
        if (!other) return;
        if (by < 0) other.before(row);
        else other.after(row);
        moved(row);
        // A moved element loses the focus. At an end of the list the pressed button is disabled, so focus the other one.
        const pressed = row.querySelector(by < 0 ? ".ratelimit-up" : ".ratelimit-down");
        (pressed.disabled ? row.querySelector(by < 0 ? ".ratelimit-down" : ".ratelimit-up") : pressed).focus();
    }

    /** Sort the rows by their positions, because a page with an error has the old order. */
    function sort() {
        const sorted = rows().map((row) => [row, position(row)]).sort(([, a], [, b]) => (a === b ? 0 : a - b));
        if (sorted.some(([row], place) => row !== rows()[place])) {
            const end = document.getElementById("rules-empty");
            sorted.forEach(([row]) => end.before(row));
        }
    }

    function addHandles(row) {
        const input = field(row, "position");
        if (!input) return;
        const rule = row.dataset.name;
        const button = (direction, sign, by) => make("button", {
            type: "button",
            class: `ratelimit-${direction}`,
            title: words(`move_${direction}`),
            "aria-label": rule ? words(`move_rule_${direction}`, { rule }) : words(`move_new_${direction}`),
            onclick: () => move(row, by),
        }, sign);
        row.querySelector(".ratelimit-head").prepend(make("span", { class: "ratelimit-move" },
            make("span", { class: "ratelimit-handle", title: words("drag"), "aria-hidden": "true" }, "⠿"),
            button("up", "↑", -1),
            button("down", "↓", 1),
        ));
        input.addEventListener("change", () => {
            sort();
            announce(row);
            input.focus();
        });
    }

    onRow.push(addHandles);
    document.addEventListener("DOMContentLoaded", () => {
        if (!group()?.querySelector(".ratelimit-handle")) return;
        sort();
        window.Sortable.create(group().querySelector("fieldset"), {
            draggable: ".ratelimit-rule:not(.empty-form)",
            handle: ".ratelimit-handle",
            animation: window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 120,
            // Use pointer events, because touch screens do not support the browser's own drag and drop.
            forceFallback: true,
            onEnd: (event) => moved(event.item),
        });
    });
})();
