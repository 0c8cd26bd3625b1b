/* Characteristics as a list to pick from, in order. The text field stays, is what is saved, and may be typed into. */
"use strict";

(() => {
    const { field, make, changed, onFields } = window.ratelimit;

    /** Return the names in the text, null where it is JSON (for names that commas cannot part). */
    function read(text) {
        if (/^\s*[[{"]/.test(text)) return null;
        return text.split(",").map((name) => name.trim()).filter(Boolean);
    }

    function pickList(row) {
        const input = field(row, "characteristics");
        if (!input || input.dataset.picks) return;
        input.dataset.picks = "yes";
        const list = make("ol", { class: "ratelimit-picks", "aria-label": "Characteristics, in order" });
        const typed = make("input", {
            type: "text", list: "ratelimit-match", "aria-label": "Property to count by", placeholder: "property",
            onkeydown: (event) => {
                if (event.key !== "Enter") return;
                // Enter would save the page.
                event.preventDefault();
                add();
            },
        });
        const write = (names, focus) => {
            input.value = names.join(", ");
            changed();
            show();
            (list.querySelectorAll("li")[focus]?.querySelector("button:not([disabled])") || typed).focus();
        };
        const add = () => {
            const names = read(input.value), name = typed.value.trim();
            if (names && name && !names.includes(name)) write([...names, name], -1);
            typed.value = "";
        };
        const item = (name, place, names) => {
            const swap = (other) => () => {
                const reordered = [...names];
                [reordered[place], reordered[other]] = [reordered[other], reordered[place]];
                write(reordered, other);
            };
            const button = (label, sign, disabled, onclick) =>
                make("button", { type: "button", title: label, "aria-label": `${label}: ${name}`, disabled, onclick }, sign);
            return make("li", {}, make("code", {}, name),
                button("Earlier", "←", place === 0, swap(place - 1)),
                button("Later", "→", place === names.length - 1, swap(place + 1)),
                button("Remove", "×", false, () => write(names.filter((other) => other !== name), place)));
        };
        const show = () => {
            const names = read(input.value);
            box.hidden = names === null;
            list.replaceChildren(...(names || []).map(item));
        };
        const box = make("div", { class: "ratelimit-picker" }, list, typed,
            make("button", { type: "button", onclick: add }, "Add"));
        input.closest(".form-row").append(box);
        input.addEventListener("input", show);
        show();
    }

    onFields.push(pickList);
})();
