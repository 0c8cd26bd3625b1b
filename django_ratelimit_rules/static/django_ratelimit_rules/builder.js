/* A builder over the JSON of `match` and `response`: it writes the JSON, and follows what is typed there. What it cannot
 * show whole it does not show at all, and says so; the JSON is always there.
 */
"use strict";

(() => {
    const { field, make, changed, onFields } = window.ratelimit;
    const { NOT_ALL, operators, hasText, isList, Unsupported, parse, write } = window.ratelimit.conditions;
    const fresh = () => ({ operator: "eq", text: "" });
    const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);

    /** One builder: `alternatives` is what it shows; the text area what is saved. */
    function build(area, kind, everything) {
        let alternatives = [];
        const numbers = new Map();
        const note = make("p", { class: "ratelimit-note", role: "status" });
        const body = make("div", {});
        const box = make("div", { class: "ratelimit-builder", role: "group", "aria-label": `Conditions of ${kind}` }, body, note);

        function store() {
            try {
                area.value = write(alternatives);
                note.textContent = "";
            } catch (error) {
                if (!(error instanceof Unsupported)) throw error;
                note.textContent = `Not written to the JSON: ${error.message}`;
            }
        }

        /** Change what the builder shows, and draw it again. The focus goes to the row that `action` returns. */
        function change(action) {
            const row = action();
            store();
            changed();
            draw();
            (body.querySelector(`[data-row="${numbers.get(row)}"] :is(input, select)`) || body.querySelector("button")).focus();
        }

        /** Operator and value of a row, or of a part of one. `touched` is told of every change. */
        function test(each, touched) {
            const touch = (changes) => {
                Object.assign(each, changes, { original: undefined });
                touched();
            };
            const value = make("input", { type: "text", "aria-label": "Value", value: each.text, size: 30,
                oninput: () => touch({ text: value.value }) });
            const select = make("select", { "aria-label": "Operator", onchange: () => {
                const inner = select.value === NOT_ALL;
                if (inner === Boolean(each.parts)) {
                    touch({ operator: select.value });
                    arrange();
                } else {
                    change(() => {
                        touch({ operator: select.value, parts: inner ? [fresh()] : undefined });
                        return each;
                    });
                }
            } }, ...Object.entries(operators().labels)
                .filter(([key]) => !operators().rare.includes(key) || key === each.operator)
                .map(([key, label]) => make("option", { value: key, selected: key === each.operator }, label)));
            const arrange = () => {
                value.hidden = !hasText(each.operator);
                value.placeholder = isList(each.operator) ? "one, or several between commas" : "value";
                const choices = document.getElementById(`ratelimit-${kind}-${each.property}`);
                if (choices) value.setAttribute("list", choices.id);
                else value.removeAttribute("list");
            };
            arrange();
            return { touch, arrange, elements: [select, value], below: each.parts ? [inside(each, touch)] : [] };
        }

        /** The parts of a row that must not all hold. */
        function inside(each, touch) {
            const name = each.property || "it";
            return make("div", { class: "ratelimit-inside", role: "group", "aria-label": `What ${name} must not all be` },
                ...each.parts.map((part) => {
                    const { elements, below } = test(part, () => touch({}));
                    return line(part, "ratelimit-part", elements, "this part", below, () => {
                        each.parts.splice(each.parts.indexOf(part), 1);
                        if (!each.parts.length) each.parts.push(fresh());
                        touch({});
                    });
                }),
                button("And …", () => change(() => {
                    each.parts.push(fresh());
                    touch({});
                    return each.parts.at(-1);
                })));
        }

        function line(each, kindOfLine, elements, what, below, remove) {
            numbers.set(each, numbers.size);
            return make("div", { "data-row": numbers.get(each) },
                make("div", { class: kindOfLine }, ...elements,
                    button("×", () => change(remove), { title: "Remove", "aria-label": `Remove ${what}` })),
                ...below);
        }

        function condition(each, conditions) {
            const { touch, arrange, elements, below } = test(each, store);
            const property = make("input", { type: "text", "aria-label": "Property", value: each.property, size: 22,
                list: `ratelimit-${kind}`, placeholder: "property", oninput: () => {
                    touch({ property: property.value });
                    arrange();
                } });
            return line(each, "ratelimit-condition", [property, ...elements], `the condition on ${each.property || "nothing"}`, below,
                () => { conditions.splice(conditions.indexOf(each), 1); });
        }

        function draw() {
            numbers.clear();
            const add = (conditions) => {
                conditions.push({ property: "", ...fresh() });
                return conditions.at(-1);
            };
            body.replaceChildren(...alternatives.flatMap((conditions, number) => [
                ...(number ? [make("div", { class: "ratelimit-or" }, "or")] : []),
                make("div", { class: "ratelimit-alternative" },
                    ...(conditions.length ? conditions.map((each) => condition(each, conditions)) : [everything]),
                    button(conditions.length ? "And …" : "When …", () => change(() => add(conditions))),
                    ...(alternatives.length > 1 ? [button("Remove this alternative",
                        () => change(() => { alternatives.splice(number, 1); }))] : [])),
            ]), button(alternatives.length ? "Or …" : "Only when …", () => change(() => {
                alternatives.push([]);
                return add(alternatives.at(-1));
            })));
            if (kind === "response" && alternatives.length === 1) {
                body.append(button("Count every request", () => change(() => { alternatives = []; })));
            }
        }

        function read() {
            try {
                alternatives = parse(area.value, kind === "match");
                note.textContent = "";
                draw();
            } catch (error) {
                if (!(error instanceof Unsupported)) throw error;
                note.textContent = `${error.message} Edit the JSON above.`;
                body.replaceChildren();
            }
        }

        area.addEventListener("input", read);
        area.closest(".form-row").append(box);
        read();
    }

    function suggestions() {
        const vocabulary = document.getElementById("ratelimit-vocabulary");
        if (!vocabulary) return;
        const list = (id, options) => document.body.append(make("datalist", { id }, ...options));
        for (const [kind, properties] of Object.entries(JSON.parse(vocabulary.textContent))) {
            list(`ratelimit-${kind}`, properties.map(({ name, hint }) =>
                make("option", { value: name.replace(/\*$/, ""), label: hint || name }, name)));
            for (const { name, choices } of properties.filter((each) => each.choices.length)) {
                list(`ratelimit-${kind}-${name}`, choices.map((choice) => make("option", { value: choice }, choice)));
            }
        }
    }

    document.addEventListener("DOMContentLoaded", suggestions);
    onFields.push((row) => {
        for (const [kind, everything] of [["match", "Every request."], ["response", "Whatever the answer."]]) {
            const area = field(row, kind);
            if (!area || area.dataset.builder) continue;
            area.dataset.builder = "yes";
            build(area, kind, everything);
        }
    });
})();
