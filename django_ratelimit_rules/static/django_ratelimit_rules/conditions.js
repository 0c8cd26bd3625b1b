/* Conditions between JSON and the rows of the builder, both ways. Knows nothing of the page.
 *
 * A row is {property, operator, text, original}; with the operator "not all" it has parts instead, rows without a
 * property. A row that nobody touched keeps the JSON it came from as its original, to the letter. What cannot be shown
 * without a loss is not: parse() throws what the builder says about it. Whether it is right is the server's to say.
 */
"use strict";

window.ratelimit.conditions = (() => {
    const OPERATORS = {
        "eq": "is", "not eq": "is not", "in": "is one of", "not in": "is none of",
        "prefix": "starts with", "not prefix": "does not start with",
        "suffix": "ends with", "not suffix": "does not end with",
        "glob": "is like (glob)", "not glob": "is not like (glob)",
        "regex": "matches (regex)", "not regex": "does not match (regex)",
        "cidr": "is within", "not cidr": "is not within",
        "gt": "is above", "gte": "is at least", "lt": "is below", "lte": "is at most",
        "not gt": "is not above", "not gte": "is not at least", "not lt": "is not below", "not lte": "is not at most",
        "present": "is there", "missing": "is missing", "not all": "is not all of",
    };
    const ALIASES = { oneOf: "in", re: "regex" };
    const LISTS = ["in", "prefix", "suffix", "cidr"];
    const INTEGER = /^(0|-?[1-9]\d{0,14})$/;
    // Numbers whose text is the same to the server, which compares texts.
    const PLAIN = /^-?(0|[1-9]\d*)(\.0|\.\d{0,14}[1-9])?$/;
    const isRaw = (value) => Boolean(JSON.isRawJSON?.(value));
    const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !isRaw(value);

    class Unsupported extends Error {}
    const fail = () => {
        throw new Unsupported("says more than the builder can show");
    };

    /* ── JSON → rows ── */

    /** Return alternatives, each a list of rows. Throws Unsupported. */
    function parse(text, empty) {
        const bare = text.trim();
        if (!bare) return empty ? [[]] : [];
        let value;
        try {
            value = exact(bare);
        } catch {
            throw new Unsupported("This is not valid JSON yet; the builder returns when it is.");
        }
        refuseLosses(bare, value);
        const alternatives = Array.isArray(value) ? value : [value];
        if (!alternatives.length || !alternatives.every(isObject)) throw new Unsupported("This is not a match.");
        return alternatives.map((each) => Object.entries(each).flatMap(([property, condition]) => {
            try {
                return parts(condition).map((part) => ({ property, ...part }));
            } catch (error) {
                throw error instanceof Unsupported ? new Unsupported(`The condition on ${property} ${error.message}.`) : error;
            }
        }));
    }

    /** Read JSON; a number that JavaScript would write otherwise than it stands is kept as it stands. */
    function exact(text) {
        return JSON.parse(text, (key, value, context) =>
            (JSON.rawJSON && typeof value === "number" && String(value) !== context.source ? JSON.rawJSON(context.source) : value));
    }

    /** Refuse names given twice; and numbers such as 1.0, where the browser is too old to keep them. */
    function refuseLosses(text, value) {
        const keys = (found) => (!isObject(found) && !Array.isArray(found) ? 0 : Object.values(found)
            .reduce((count, inner) => count + keys(inner), isObject(found) ? Object.keys(found).length : 0));
        const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, '""');
        const written = bare.match(/""\s*:/g) || [];
        const numbers = bare.match(/-?\d[\d.eE+-]*/g) || [];
        if (written.length !== keys(value)) throw new Unsupported("A property stands twice in one object.");
        if (!JSON.rawJSON && numbers.some((number) => String(Number(number)) !== number)) {
            throw new Unsupported("The builder would write a number here otherwise than it stands.");
        }
    }

    /** Return a part for each operator of a condition. */
    function parts(condition) {
        if (!isObject(condition)) return [part(condition)];
        const operators = Object.entries(condition);
        return operators.length === 1 ? [part(condition)] : operators.length
            ? operators.map(([operator, operand]) => part({ [operator]: operand })) : fail();
    }

    function part(condition) {
        return { ...words(condition), original: condition };
    }

    /** Return operator, and text or parts, of a condition with one operator. */
    function words(condition) {
        if (condition === null) return { operator: "missing", text: "" };
        if (Array.isArray(condition)) return { operator: "in", text: listed(condition) };
        if (!isObject(condition)) return { operator: "eq", text: scalar(condition) };
        const [[key, operand]] = Object.entries(condition);
        const operator = ALIASES[key] || key;
        if (operator === "exists" && typeof operand === "boolean") return { operator: operand ? "present" : "missing", text: "" };
        if (operator === "eq") return isObject(operand) || Array.isArray(operand) ? fail() : words(operand);
        if (operator === "not") return negated(parts(operand));
        if (!OPERATORS[operator] || operator.includes(" ") || ["present", "missing"].includes(operator)) return fail();
        return { operator, text: LISTS.includes(operator) ? listed(operand) : plain(operand) };
    }

    function negated(inner) {
        const [{ operator, text }] = inner;
        const opposite = { present: "missing", missing: "present" }[operator] || `not ${operator}`;
        return inner.length === 1 && OPERATORS[opposite] ? { operator: opposite, text }
            : { operator: "not all", text: "", parts: inner };
    }

    /** Return the text of a scalar; an input has one line, and no room for numbers such as 1e3. */
    function scalar(value) {
        if (typeof value === "boolean") return value ? "1" : "0";
        const text = isRaw(value) ? value.rawJSON : String(value);
        return (typeof value === "string" ? !/[\r\n]/.test(text) : PLAIN.test(text)) ? text : fail();
    }

    const plain = (value) => (typeof value === "string" || typeof value === "number" || isRaw(value) ? scalar(value) : fail());

    /** Return members between commas; as JSON where commas could not part them. */
    function listed(value) {
        if (isObject(value)) return fail();
        const members = Array.isArray(value) ? value : [value];
        const texts = members.map((one) => (one === null ? "" : Array.isArray(one) || isObject(one) ? fail() : scalar(one)));
        const parted = texts.length && texts.every((text) => text && text === text.trim() && !text.includes(","));
        return parted && !texts[0].startsWith("[") ? texts.join(", ") : JSON.stringify(members);
    }

    /* ── rows → JSON ── */

    const typed = (text) => (INTEGER.test(text) ? Number(text) : text);

    function members(text) {
        try {
            const list = text.trim().startsWith("[") ? exact(text) : null;
            if (Array.isArray(list)) return list;
        } catch {
            // Not yet, or no JSON.
        }
        return text.split(",").map((one) => one.trim()).filter(Boolean).map(typed);
    }

    function condition({ operator, text, parts: inner, original }) {
        if (original !== undefined) return original;
        if (operator === "not all") return { not: joined(inner.map(condition), "a condition inside") };
        if (operator === "present") return { exists: true };
        if (operator === "missing") return null;
        const [key, no] = operator.startsWith("not ") ? [operator.slice(4), true] : [operator, false];
        const list = members(text);
        let value = { [key]: text };
        if (key === "eq") value = typed(text);
        else if (key === "in") value = list;
        else if (LISTS.includes(key)) value = { [key]: list.length > 1 ? list.map(scalar) : list.map(scalar).join() };
        else if (/^[gl]te?$/.test(key)) value = { [key]: PLAIN.test(text.trim()) ? Number(text) : text };
        return no ? { not: value } : value;
    }

    const named = (value) => {
        if (value === null) return { exists: false };
        if (Array.isArray(value)) return { in: value };
        return isObject(value) ? value : { eq: value };
    };

    /** Return one condition that says what several do. Throws Unsupported where an object cannot. */
    function joined(conditions, name) {
        return conditions.reduce((before, now) => {
            const [one, other] = [named(before), named(now)];
            const twice = Object.keys(other).find((key) => Object.hasOwn(one, key));
            if (twice) throw new Unsupported(`${name} has two conditions of one kind (${twice}): join them in one.`);
            return { ...one, ...other };
        });
    }

    /** Return the object of one alternative; several conditions on one property stand in one. */
    function object(rows) {
        const found = new Map();
        for (const each of rows.filter(({ property }) => property.trim())) {
            const name = each.property.trim();
            found.set(name, [...(found.get(name) || []), condition(each)]);
        }
        return Object.fromEntries([...found].map(([name, conditions]) => [name, joined(conditions, name)]));
    }

    /** Return the JSON of alternatives, as the server writes it: on one line, indented where that is long. */
    function write(alternatives) {
        if (!alternatives.length) return "";
        const objects = alternatives.map(object);
        const long = JSON.stringify(objects.length > 1 ? objects : objects[0], null, 2);
        const line = long.replace(/([{[])\n\s*/g, "$1").replace(/\n\s*([}\]])/g, "$1").replace(/\n\s*/g, " ");
        return line.length > 100 ? long : line;
    }

    return { OPERATORS, LISTS, Unsupported, parse, write };
})();
