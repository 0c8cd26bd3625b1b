/* Converts conditions from JSON to rows of the builder and back. Uses no element of the page but its JSON data.
 *
 * A row is {property, operator, text, original}. With the operator "not all" it has parts instead of text, which are
 * rows without a property. An unchanged row keeps its JSON as `original`, so that the same JSON is written again.
 * If JSON cannot be shown without a loss, parse() throws Unsupported with a message for the page. The server validates.
 */
"use strict";

window.ratelimit.conditions = (() => {
    const { words } = window.ratelimit;
    const NOT_ALL = "not all";
    let known;

    /** Return the operators of engine/matching.py from the JSON of the page: `labels` by key of the builder, `kinds` by
     * name, `aliases`, and the keys that are `rare`. Reads them on the first call, because scripts run before the page
     * is complete. */
    function operators() {
        if (known) return known;
        const rows = JSON.parse(document.getElementById("ratelimit-operators").textContent);
        const flags = rows.filter(({ operand }) => operand === "flag");
        const ordered = [...rows.filter((row) => !flags.includes(row)), ...flags];
        known = {
            labels: Object.fromEntries([...ordered.flatMap(({ name, labels: [label, negative] }) =>
                [[name, label], [`not ${name}`, negative]]), [NOT_ALL, words("is_not_all_of")]]),
            kinds: Object.fromEntries(rows.map(({ name, operand }) => [name, operand])),
            aliases: Object.fromEntries(rows.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name]))),
            rare: rows.filter((row) => row.rarely_negated).map(({ name }) => `not ${name}`),
        };
        return known;
    }

    const kindOf = (key) => operators().kinds[key.replace(/^not /, "")];
    /** Return whether a row of this operator has an input for text. */
    const hasText = (key) => key !== NOT_ALL && kindOf(key) !== "flag";
    const isList = (key) => ["list", "some"].includes(kindOf(key));
    const INTEGER = /^(0|-?[1-9]\d{0,14})$/;
    // Numbers that JavaScript writes as they are spelled here. The server compares strings, so 1.50 is not 1.5.
    const PLAIN = /^-?(0|[1-9]\d*)(\.0|\.\d{0,14}[1-9])?$/;
    const isRaw = (value) => Boolean(JSON.isRawJSON?.(value));
    const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !isRaw(value);

    /** JSON or a row that the builder cannot convert. `key` is the key of the message in the page's JSON. */
    class Unsupported extends Error {
        constructor(key, values) {
            super(words(key, values));
        }
    }
    const fail = () => {
        throw new Unsupported("too_much");
    };

    /* ── JSON → rows ── */

    /** Return alternatives, which are lists of rows. Throws Unsupported. */
    function parse(text, empty) {
        const trimmed = text.trim();
        if (!trimmed) return empty ? [[]] : [];
        let value;
        try {
            value = exact(trimmed);
        } catch {
            throw new Unsupported("invalid_json");
        }
        refuseLosses(trimmed, value);
        const alternatives = Array.isArray(value) ? value : [value];
        if (!alternatives.length || !alternatives.every(isObject)) throw new Unsupported("no_match");
        return alternatives.map((conditions) => Object.entries(conditions).flatMap(([property, condition]) => {
            try {
                return parts(condition).map((part) => ({ property, ...part }));
            } catch (error) {
                throw error instanceof Unsupported ? new Unsupported("too_much_on", { property }) : error;
            }
        }));
    }

    /** Parse JSON. Keep the spelling of a number that JavaScript would write differently. */
    function exact(text) {
        return JSON.parse(text, (key, value, context) =>
            (JSON.rawJSON && typeof value === "number" && String(value) !== context.source ? JSON.rawJSON(context.source) : value));
    }

    /** Reject repeated names. If the browser cannot keep the spelling of numbers, reject numbers such as 1.0. */
    function refuseLosses(text, value) {
        const keys = (node) => (!isObject(node) && !Array.isArray(node) ? 0 : Object.values(node)
            .reduce((count, inner) => count + keys(inner), isObject(node) ? Object.keys(node).length : 0));
        const bare = text.replace(/"(?:[^"\\]|\\.)*"/g, '""');
        const written = bare.match(/""\s*:/g) || [];
        const numbers = bare.match(/-?\d[\d.eE+-]*/g) || [];
        if (written.length !== keys(value)) throw new Unsupported("repeated_property");
        if (!JSON.rawJSON && numbers.some((number) => String(Number(number)) !== number)) {
            throw new Unsupported("respelled_number");
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
        return { ...shown(condition), original: condition };
    }

    /** Return the operator, and the text or the parts, of a condition with one operator. */
    function shown(condition) {
        if (condition === null) return { operator: "not exists", text: "" };
        if (Array.isArray(condition)) return { operator: "in", text: listed(condition) };
        if (!isObject(condition)) return { operator: "eq", text: scalar(condition) };
        const [[key, operand]] = Object.entries(condition);
        const { kinds, aliases } = operators();
        const operator = Object.hasOwn(aliases, key) ? aliases[key] : key;
        if (operator === "not") return negated(parts(operand));
        if (!Object.hasOwn(kinds, operator)) return fail();
        if (operator === "eq") return isObject(operand) || Array.isArray(operand) ? fail() : shown(operand);
        if (kinds[operator] === "flag") {
            return typeof operand === "boolean" ? { operator: operand ? operator : `not ${operator}`, text: "" } : fail();
        }
        return { operator, text: isList(operator) ? listed(operand) : plain(operand) };
    }

    function negated(inner) {
        const [{ operator, text }] = inner;
        const twice = operator.startsWith("not ") && kindOf(operator) === "flag";
        const opposite = twice ? operator.slice(4) : `not ${operator}`;
        return inner.length === 1 && Object.hasOwn(operators().labels, opposite) ? { operator: opposite, text }
            : { operator: NOT_ALL, text: "", parts: inner };
    }

    /** Return the text of a scalar. Throws Unsupported for line breaks and for numbers such as 1e3. */
    function scalar(value) {
        if (typeof value === "boolean") return value ? "1" : "0";
        const text = isRaw(value) ? value.rawJSON : String(value);
        return (typeof value === "string" ? !/[\r\n]/.test(text) : PLAIN.test(text)) ? text : fail();
    }

    const plain = (value) => (typeof value === "string" || typeof value === "number" || isRaw(value) ? scalar(value) : fail());

    /** Return members between commas, or as JSON if a member contains a comma. */
    function listed(value) {
        if (isObject(value)) return fail();
        const members = Array.isArray(value) ? value : [value];
        const texts = members.map((member) =>
            (member === null ? "" : Array.isArray(member) || isObject(member) ? fail() : scalar(member)));
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
            // The user is still typing, or the text is not JSON.
        }
        return text.split(",").map((member) => member.trim()).filter(Boolean).map(typed);
    }

    function condition({ operator, text, parts: inner, original }) {
        if (original !== undefined) return original;
        if (operator === NOT_ALL) return { not: joined(inner.map(condition)) };
        if (operator === "not exists") return null;
        const [key, no] = operator.startsWith("not ") ? [operator.slice(4), true] : [operator, false];
        const kind = kindOf(key);
        if (kind === "flag") return { [key]: !no };
        const value = bare(key, operand(kind, text));
        return no ? { not: value } : value;
    }

    /** Return the operand of a kind for the text of an input. */
    function operand(kind, text) {
        if (kind === "value") return typed(text);
        if (kind === "number") return PLAIN.test(text.trim()) ? Number(text) : text;
        if (kind === "list") return members(text);
        if (kind !== "some") return text;
        const list = members(text).map(scalar);
        return list.length > 1 ? list : list.join();
    }

    /** Return a condition. Leaves out the name of the operators eq and in. */
    const bare = (key, value) => (key === "eq" || key === "in" ? value : { [key]: value });

    const named = (value) => {
        if (value === null) return { exists: false };
        if (Array.isArray(value)) return { in: value };
        return isObject(value) ? value : { eq: value };
    };

    /** Return one condition for several. Throws Unsupported if two have the same operator. */
    function joined(conditions, property) {
        return conditions.reduce((before, now) => {
            const [first, second] = [named(before), named(now)];
            const operator = Object.keys(second).find((key) => Object.hasOwn(first, key));
            if (operator) throw new Unsupported(property ? "same_operator_on" : "same_operator", { property, operator });
            return { ...first, ...second };
        });
    }

    /** Return the object of one alternative. Joins several conditions on one property. */
    function object(rows) {
        const byProperty = new Map();
        for (const row of rows.filter(({ property }) => property.trim())) {
            const name = row.property.trim();
            byProperty.set(name, [...(byProperty.get(name) || []), condition(row)]);
        }
        return Object.fromEntries([...byProperty].map(([name, conditions]) => [name, joined(conditions, name)]));
    }

    /** Return the JSON of alternatives as the server writes it: on one line, or indented if the line is long. */
    function write(alternatives) {
        if (!alternatives.length) return "";
        const objects = alternatives.map(object);
        const long = JSON.stringify(objects.length > 1 ? objects : objects[0], null, 2);
        const line = long.replace(/([{[])\n\s*/g, "$1").replace(/\n\s*([}\]])/g, "$1").replace(/\n\s*/g, " ");
        return line.length > 100 ? long : line;
    }

    return { NOT_ALL, operators, hasText, isList, Unsupported, parse, write };
})();
