/* A builder over the JSON of `match` and `response`, both ways: it writes the JSON, and follows what is typed there.
 *
 * A condition that nobody touched in the builder keeps its JSON to the letter. What the builder cannot show whole it
 * does not show at all, and says so; the JSON is always there. Whether it is right is the server's to say.
 */
"use strict";

(() => {
    const { field, make, changed, onFields } = window.ratelimit;
    const OPERATORS = {
        "eq": "is", "not eq": "is not", "in": "is one of", "not in": "is none of",
        "prefix": "starts with", "not prefix": "does not start with",
        "suffix": "ends with", "not suffix": "does not end with",
        "glob": "is like (glob)", "not glob": "is not like (glob)",
        "regex": "matches (regex)", "not regex": "does not match (regex)",
        "cidr": "is within", "not cidr": "is not within",
        "gt": "is above", "gte": "is at least", "lt": "is below", "lte": "is at most",
        "not gt": "is not above", "not gte": "is not at least", "not lt": "is not below", "not lte": "is not at most",
        "present": "is there", "missing": "is missing",
    };
    const ALIASES = { oneOf: "in", re: "regex" };
    const LISTS = ["in", "prefix", "suffix", "cidr"];
    const NUMBER = /^(0|-?[1-9]\d{0,14})$/;
    const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

    class Unsupported extends Error {}

    /* ── JSON → rows ── */

    /** Return alternatives, each a list of {property, operator, text, original}. Throws what the builder says. */
    function parse(text, empty) {
        const bare = text.trim();
        if (!bare) return empty ? [[]] : [];
        let value;
        try {
            value = JSON.parse(bare);
        } catch {
            throw new Unsupported("This is no JSON yet; the builder is back when it is.");
        }
        refuseLosses(bare, value);
        const alternatives = Array.isArray(value) ? value : [value];
        if (!alternatives.length || !alternatives.every(isObject)) throw new Unsupported("This is no match.");
        return alternatives.map((each) => Object.entries(each).flatMap(([name, condition]) => rowsOf(name, condition)));
    }

    /** Refuse what JavaScript reads otherwise than it is written: names given twice, numbers such as 1.0. */
    function refuseLosses(text, value) {
        const keys = (found) => (found === null || typeof found !== "object" ? 0 : Object.values(found)
            .reduce((count, inner) => count + keys(inner), isObject(found) ? Object.keys(found).length : 0));
        const strings = /"(?:[^"\\]|\\.)*"/g;
        const written = text.match(new RegExp(`${strings.source}\\s*:`, "g")) || [];
        const numbers = text.replace(strings, "").match(/-?\d[\d.eE+-]*/g) || [];
        if (written.length !== keys(value)) throw new Unsupported("A property stands twice in one object.");
        if (numbers.some((number) => String(Number(number)) !== number)) {
            throw new Unsupported("The builder would write a number here otherwise than it stands.");
        }
    }

    function rowsOf(property, condition) {
        if (!isObject(condition)) return [row(property, condition, condition)];
        const parts = Object.entries(condition);
        if (!parts.length) throw new Unsupported(`The condition on ${property} is empty.`);
        return parts.map(([operator, operand]) => row(property, { [operator]: operand },
            parts.length === 1 ? condition : { [operator]: operand }));
    }

    function row(property, condition, original) {
        const [operator, text] = words(property, condition);
        return { property, operator, text, original };
    }

    /** Return operator and text of a condition with one operator. */
    function words(property, condition) {
        if (condition === null) return ["missing", ""];
        if (Array.isArray(condition)) return ["in", listed(property, condition)];
        if (!isObject(condition)) return ["eq", scalar(condition)];
        const [[key, operand], ...more] = Object.entries(condition);
        const operator = ALIASES[key] || key;
        if (operator === "exists" && typeof operand === "boolean") return [operand ? "present" : "missing", ""];
        if (operator === "eq") return words(property, isObject(operand) || Array.isArray(operand) ? fail(property) : operand);
        if (operator === "not" && !more.length) {
            const [inner, text] = words(property, operand);
            const opposite = { present: "missing", missing: "present" }[inner] || `not ${inner}`;
            return OPERATORS[opposite] ? [opposite, text] : fail(property);
        }
        if (more.length || !OPERATORS[operator] || operator.includes(" ")) return fail(property);
        return [operator, LISTS.includes(operator) ? listed(property, operand) : plain(property, operand)];
    }

    const fail = (property) => {
        throw new Unsupported(`The condition on ${property} says more than the builder can show.`);
    };
    const scalar = (value) => (value === true ? "1" : value === false ? "0" : String(value));
    const plain = (property, value) => (["string", "number"].includes(typeof value) ? String(value) : fail(property));
    const listed = (property, value) => {
        const texts = (Array.isArray(value) ? value : [value]).map((one) => (one === null ? fail(property) : scalar(one)));
        return texts.every((text) => text && text === text.trim() && !text.includes(",")) ? texts.join(", ") : fail(property);
    };

    /* ── rows → JSON ── */

    const typed = (text) => (NUMBER.test(text) ? Number(text) : text);

    function condition({ operator, text, original }) {
        if (original !== undefined) return original;
        if (operator === "present") return { exists: true };
        if (operator === "missing") return null;
        const [key, no] = operator.startsWith("not ") ? [operator.slice(4), true] : [operator, false];
        const members = text.split(",").map((one) => one.trim()).filter(Boolean);
        let value = { [key]: text };
        if (key === "eq") value = typed(text);
        else if (key === "in") value = members.map(typed);
        else if (LISTS.includes(key)) value = { [key]: members.length > 1 ? members : text.trim() };
        else if (/^[gl]te?$/.test(key)) value = { [key]: /^-?\d+(\.\d*[1-9])?$/.test(text.trim()) ? Number(text) : text };
        return no ? { not: value } : value;
    }

    /** Return the object of one alternative; several conditions on one property stand in one object. */
    function together(conditions) {
        const found = {};
        for (const each of conditions.filter(({ property }) => property.trim())) {
            const name = each.property.trim(), said = condition(each);
            if (!(name in found)) {
                found[name] = said;
                continue;
            }
            const [before, now] = [found[name], said].map(named);
            const twice = Object.keys(now).find((key) => key in before);
            if (twice) throw new Unsupported(`${name} has two conditions of one kind (${twice}): join them in one.`);
            found[name] = { ...before, ...now };
        }
        return found;
    }

    const named = (value) => {
        if (value === null) return { exists: false };
        if (Array.isArray(value)) return { in: value };
        return isObject(value) ? value : { eq: value };
    };

    /** Return JSON as the server writes it: on one line, indented where that is long. */
    function dump(value) {
        const long = JSON.stringify(value, null, 2);
        const line = long.replace(/([{[])\n\s*/g, "$1").replace(/\n\s*([}\]])/g, "$1").replace(/\n\s*/g, " ");
        return line.length > 100 ? long : line;
    }

    /* ── the page ── */

    /** One builder: `alternatives` is what it shows; the text area what is saved. */
    function build(area, kind, everything) {
        let alternatives = [];
        const note = make("p", { class: "ratelimit-note", role: "status" });
        const body = make("div", {});
        const box = make("div", { class: "ratelimit-builder", role: "group", "aria-label": `Conditions of ${kind}` }, body, note);

        function write() {
            try {
                const objects = alternatives.map(together);
                area.value = objects.length ? dump(objects.length > 1 ? objects : objects[0]) : "";
                note.textContent = "";
            } catch (error) {
                if (!(error instanceof Unsupported)) throw error;
                note.textContent = `Not written to the JSON: ${error.message}`;
            }
        }

        function change(action, focus) {
            action();
            write();
            changed();
            draw();
            const inputs = body.querySelectorAll(".ratelimit-condition input");
            if (focus === "last") inputs[inputs.length - 2]?.focus();
            else box.querySelector("button")?.focus();
        }

        function conditionRow(each, conditions) {
            const touch = (changes) => {
                Object.assign(each, changes, { original: undefined });
                write();
            };
            const value = make("input", { type: "text", "aria-label": "Value", value: each.text, size: 30,
                oninput: () => touch({ text: value.value }) });
            const select = make("select", { "aria-label": "Operator", onchange: () => {
                touch({ operator: select.value });
                arrange();
            } }, ...Object.entries(OPERATORS)
                .filter(([key]) => !/^not [gl]t/.test(key) || key === each.operator)
                .map(([key, label]) => make("option", { value: key, selected: key === each.operator }, label)));
            const property = make("input", { type: "text", "aria-label": "Property", value: each.property, size: 22,
                list: `ratelimit-${kind}`, placeholder: "property", oninput: () => {
                    touch({ property: property.value });
                    arrange();
                } });
            const arrange = () => {
                value.hidden = ["present", "missing"].includes(each.operator);
                value.placeholder = LISTS.includes(each.operator.replace("not ", "")) ? "one, or several between commas" : "value";
                const choices = document.getElementById(`ratelimit-${kind}-${each.property}`);
                if (choices) value.setAttribute("list", choices.id);
                else value.removeAttribute("list");
            };
            arrange();
            return make("div", { class: "ratelimit-condition" }, property, select, value,
                make("button", { type: "button", title: "Remove", "aria-label": `Remove the condition on ${each.property || "nothing"}`,
                    onclick: () => change(() => conditions.splice(conditions.indexOf(each), 1)) }, "×"));
        }

        function draw() {
            const fresh = () => ({ property: "", operator: "eq", text: "" });
            body.replaceChildren(...alternatives.flatMap((conditions, number) => [
                ...(number ? [make("div", { class: "ratelimit-or" }, "or")] : []),
                make("div", { class: "ratelimit-alternative" },
                    ...(conditions.length ? conditions.map((each) => conditionRow(each, conditions)) : [everything]),
                    make("button", { type: "button", onclick: () => change(() => conditions.push(fresh()), number === alternatives.length - 1 ? "last" : "") },
                        conditions.length ? "And …" : "When …"),
                    ...(alternatives.length > 1 ? [make("button", { type: "button",
                        onclick: () => change(() => alternatives.splice(number, 1)) }, "Remove this alternative")] : [])),
            ]), make("button", { type: "button", onclick: () => change(() => alternatives.push([fresh()]), "last") },
                alternatives.length ? "Or …" : "Only when …"));
            if (kind === "response" && alternatives.length === 1) {
                body.append(make("button", { type: "button", onclick: () => change(() => { alternatives = []; }) }, "Count every request"));
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
