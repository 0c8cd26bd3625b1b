/* Shows the characteristics as an ordered list. The text field remains: it can be edited, and its value is saved. */
"use strict";

(() => {
    const { field, make, changed, onFields, words } = window.ratelimit;

    /** Return the names in the text, or null if it is JSON, which is used for names with commas. */
    function read(text) {
        if (/^\s*[[{"]/.test(text)) return null;
        return text.split(",").map((name) => name.trim()).filter(Boolean);
    }

    function pickList(row) {
        const input = field(row, "characteristics");
        if (!input || input.dataset.picks) return;
        input.dataset.picks = "yes";
        const list = make("ol", { class: "ratelimit-picks", "aria-label": words("characteristics") });
        const typed = make("input", {
            type: "text", list: "ratelimit-match", "aria-label": words("count_by"), placeholder: words("property_here"),
            onkeydown: (event) => {
                if (event.key !== "Enter") return;
                // By default, Enter would submit the form and save the page.
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
            const button = (action, sign, disabled, onclick) => make("button", {
                ...{ type: "button", title: words(action), "aria-label": words(`${action}_property`, { property: name }) },
                ...{ disabled, onclick },
            }, sign);
            return make("li", {}, make("code", {}, name),
                button("earlier", "←", place === 0, swap(place - 1)),
                button("later", "→", place === names.length - 1, swap(place + 1)),
                button("remove", "×", false, () => write(names.filter((other) => other !== name), place)));
        };
        const show = () => {
            const names = read(input.value);
            box.hidden = names === null;
            list.replaceChildren(...(names || []).map(item));
        };
        const box = make("div", { class: "ratelimit-picker" }, list, typed,
            make("button", { type: "button", onclick: add }, words("add")));
        input.closest(".form-row").append(box);
        input.addEventListener("input", show);
        show();
    }

    onFields.push(pickList);
})();
