/* A builder for the JSON of `match` and `response`. It writes the JSON, and follows changes that are typed there.
 * If it cannot show the JSON without a loss, it shows a message instead. The JSON can always be edited.
 */
"use strict";

(() => {
    const { field, make, changed, onFields, words } = window.ratelimit;
    const { NOT_ALL, operators, hasText, isList, Unsupported, parse, write } = window.ratelimit.conditions;
    const fresh = () => ({ operator: "eq", text: "" });
    const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);

    /** Add one builder to a text area. It shows `alternatives`. The value of the text area is saved. */
    function build(area, kind, everything) {
        let alternatives = [];
        const numbers = new Map();
        const note = make("p", { class: "ratelimit-note", role: "status" });
        const body = make("div", {});
        const box = make("div", { class: "ratelimit-builder", role: "group", "aria-label": words("conditions", { field: kind }) },
            body, note);

        function store() {
            try {
                area.value = write(alternatives);
                note.textContent = "";
            } catch (error) {
                if (!(error instanceof Unsupported)) throw error;
                note.textContent = words("not_written", { reason: error.message });
            }
        }

        /** Run `action`, which changes the alternatives, and draw them. Focus the row that `action` returns. */
        function change(action) {
            const row = action();
            store();
            changed();
            draw();
            (body.querySelector(`[data-row="${numbers.get(row)}"] :is(input, select)`) || body.querySelector("button")).focus();
        }

        /** Make the operator and the value of a row, or of a part of a row. Calls `touched` after every change. */
        function test(row, touched) {
            const touch = (changes) => {
                Object.assign(row, changes, { original: undefined });
                touched();
            };
            const value = make("input", { type: "text", "aria-label": words("value"), value: row.text, size: 30,
                oninput: () => touch({ text: value.value }) });
            const select = make("select", { "aria-label": words("operator"), onchange: () => {
                const inner = select.value === NOT_ALL;
                if (inner === Boolean(row.parts)) {
                    touch({ operator: select.value });
                    arrange();
                } else {
                    change(() => {
                        touch({ operator: select.value, parts: inner ? [fresh()] : undefined });
                        return row;
                    });
                }
            } }, ...Object.entries(operators().labels)
                .filter(([key]) => !operators().rare.includes(key) || key === row.operator)
                .map(([key, label]) => make("option", { value: key, selected: key === row.operator }, label)));
            const arrange = () => {
                value.hidden = !hasText(row.operator);
                value.placeholder = words(isList(row.operator) ? "values_here" : "value_here");
                const choices = document.getElementById(`ratelimit-${kind}-${row.property}`);
                if (choices) value.setAttribute("list", choices.id);
                else value.removeAttribute("list");
            };
            arrange();
            return { touch, arrange, elements: [select, value], below: row.parts ? [inside(row, touch)] : [] };
        }

        /** Make the parts of a row that must not all hold. */
        function inside(row, touch) {
            const label = row.property ? words("not_all_of", { property: row.property }) : words("not_all_of_it");
            return make("div", { class: "ratelimit-inside", role: "group", "aria-label": label },
                ...row.parts.map((part) => {
                    const { elements, below } = test(part, () => touch({}));
                    return line(part, "ratelimit-part", elements, words("remove_part"), below, () => {
                        row.parts.splice(row.parts.indexOf(part), 1);
                        if (!row.parts.length) row.parts.push(fresh());
                        touch({});
                    });
                }),
                button(words("and"), () => change(() => {
                    row.parts.push(fresh());
                    touch({});
                    return row.parts.at(-1);
                })));
        }

        function line(row, kindOfLine, elements, removal, below, remove) {
            numbers.set(row, numbers.size);
            return make("div", { "data-row": numbers.get(row) },
                make("div", { class: kindOfLine }, ...elements,
                    button("×", () => change(remove), { title: words("remove"), "aria-label": removal })),
                ...below);
        }

        function condition(row, conditions) {
            const { touch, arrange, elements, below } = test(row, store);
            const removal = row.property ? words("remove_condition_on", { property: row.property }) : words("remove_condition");
            const property = make("input", { type: "text", "aria-label": words("property"), value: row.property, size: 22,
                list: `ratelimit-${kind}`, placeholder: words("property_here"), oninput: () => {
                    touch({ property: property.value });
                    arrange();
                } });
            return line(row, "ratelimit-condition", [property, ...elements], removal, below,
                () => { conditions.splice(conditions.indexOf(row), 1); });
        }

        function draw() {
            numbers.clear();
            const add = (conditions) => {
                conditions.push({ property: "", ...fresh() });
                return conditions.at(-1);
            };
            body.replaceChildren(...alternatives.flatMap((conditions, number) => [
                ...(number ? [make("div", { class: "ratelimit-or" }, words("or"))] : []),
                make("div", { class: "ratelimit-alternative" },
                    ...(conditions.length ? conditions.map((row) => condition(row, conditions)) : [everything]),
                    button(words(conditions.length ? "and" : "when"), () => change(() => add(conditions))),
                    ...(alternatives.length > 1 ? [button(words("remove_alternative"),
                        () => change(() => { alternatives.splice(number, 1); }))] : [])),
            ]), button(words(alternatives.length ? "or_else" : "only_when"), () => change(() => {
                alternatives.push([]);
                return add(alternatives.at(-1));
            })));
            if (kind === "response" && alternatives.length === 1) {
                body.append(button(words("count_every_request"), () => change(() => { alternatives = []; })));
            }
        }

        function read() {
            try {
                alternatives = parse(area.value, kind === "match");
                note.textContent = "";
                draw();
            } catch (error) {
                if (!(error instanceof Unsupported)) throw error;
                note.textContent = words("edit_json", { reason: error.message });
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
            for (const { name, choices } of properties.filter((property) => property.choices.length)) {
                list(`ratelimit-${kind}-${name}`, choices.map((choice) => make("option", { value: choice }, choice)));
            }
        }
    }

    document.addEventListener("DOMContentLoaded", suggestions);
    onFields.push((row) => {
        for (const [kind, everything] of [["match", words("every_request")], ["response", words("every_response")]]) {
            const area = field(row, kind);
            if (!area || area.dataset.builder) continue;
            area.dataset.builder = "yes";
            build(area, kind, everything);
        }
    });
})();
