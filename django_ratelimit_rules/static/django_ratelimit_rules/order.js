/* The order of the rules: by dragging (SortableJS), by two buttons a rule, or by typing a position.
 *
 * Only the position inputs are written; the numbers that there are change places, so that few rules are saved.
 */
"use strict";

(() => {
    const { rows, field, nameOf, make, group, changed, onRow } = window.ratelimit;
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
        const text = `${nameOf(row)} is now rule ${all.indexOf(row) + 1} of ${all.length}, once you save.`;
        group().querySelector(".ratelimit-announced").textContent = text;
        all.forEach((each, place) => {
            each.querySelector(".ratelimit-up").disabled = place === 0;
            each.querySelector(".ratelimit-down").disabled = place === all.length - 1;
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
        // Moving an element takes the focus from it; at an end, the button that was pressed is disabled.
        const pressed = row.querySelector(by < 0 ? ".ratelimit-up" : ".ratelimit-down");
        (pressed.disabled ? row.querySelector(by < 0 ? ".ratelimit-down" : ".ratelimit-up") : pressed).focus();
    }

    /** Put the rows where their positions say: a page with an error comes back in the old order. */
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
        const button = (direction, sign, by) => make("button", {
            type: "button",
            class: `ratelimit-${direction}`,
            title: `Move ${direction}`,
            "aria-label": `Move ${row.dataset.name || "the new rule"} ${direction}`,
            onclick: () => move(row, by),
        }, sign);
        row.querySelector(".ratelimit-head").prepend(make("span", { class: "ratelimit-move" },
            make("span", { class: "ratelimit-handle", title: "Drag to move", "aria-hidden": "true" }, "⠿"),
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
            // Pointer events rather than the browser's own drag and drop, which touch screens do not have.
            forceFallback: true,
            onEnd: (event) => moved(event.item),
        });
    });
})();
