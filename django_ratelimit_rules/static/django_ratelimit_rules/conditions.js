/* Conditions between JSON and the rows of the builder, both ways. Knows nothing of the page.
 *
 * A row is {property, operator, text, original}; with the operator "not all" it has parts instead, rows without a
 * property. A row that nobody touched keeps the JSON it came from as its original, to the letter. What cannot be shown
 * without a loss is not: parse() throws what the builder says about it. Whether it is right is the server's to say.
 */
"use strict";

window.ratelimit.conditions = (() => {
    const NOT_ALL = "not all";
    let known;

    /** Return the operators of engine/matching.py, which the page has as JSON: `labels` by key of the builder, `kinds`
     * by name, `aliases`, and the keys that are `rare`. Read at first use, because scripts come before the page. */
    function operators() {
        if (known) return known;
        const rows = JSON.parse(document.getElementById("ratelimit-operators").textContent);
        const flags = rows.filter(({ operand }) => operand === "flag");
        const ordered = [...rows.filter((one) => !flags.includes(one)), ...flags];
        known = {
            labels: Object.fromEntries([...ordered.flatMap(({ name, labels: [label, negative] }) =>
                [[name, label], [`not ${name}`, negative]]), [NOT_ALL, "is not all of"]]),
            kinds: Object.fromEntries(rows.map(({ name, operand }) => [name, operand])),
            aliases: Object.fromEntries(rows.flatMap(({ name, aliases }) => aliases.map((alias) => [alias, name]))),
            rare: rows.filter((one) => one.rarely_negated).map(({ name }) => `not ${name}`),
        };
        return known;
    }

    const kindOf = (key) => operators().kinds[key.replace(/^not /, "")];
    /** Whether a row of this operator has a text. */
    const hasText = (key) => key !== NOT_ALL && kindOf(key) !== "flag";
    const isList = (key) => ["list", "some"].includes(kindOf(key));
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
        const trimmed = text.trim();
        if (!trimmed) return empty ? [[]] : [];
        let value;
        try {
            value = exact(trimmed);
        } catch {
            throw new Unsupported("This is not valid JSON yet; the builder returns when it is.");
        }
        refuseLosses(trimmed, value);
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
        if (condition === null) return { operator: "not exists", text: "" };
        if (Array.isArray(condition)) return { operator: "in", text: listed(condition) };
        if (!isObject(condition)) return { operator: "eq", text: scalar(condition) };
        const [[key, operand]] = Object.entries(condition);
        const { kinds, aliases } = operators();
        const operator = Object.hasOwn(aliases, key) ? aliases[key] : key;
        if (operator === "not") return negated(parts(operand));
        if (!Object.hasOwn(kinds, operator)) return fail();
        if (operator === "eq") return isObject(operand) || Array.isArray(operand) ? fail() : words(operand);
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
        if (operator === NOT_ALL) return { not: joined(inner.map(condition), "a condition inside") };
        if (operator === "not exists") return null;
        const [key, no] = operator.startsWith("not ") ? [operator.slice(4), true] : [operator, false];
        const kind = kindOf(key);
        if (kind === "flag") return { [key]: !no };
        const value = bare(key, operand(kind, text));
        return no ? { not: value } : value;
    }

    /** Return what a text says as an operand of some kind. */
    function operand(kind, text) {
        if (kind === "value") return typed(text);
        if (kind === "number") return PLAIN.test(text.trim()) ? Number(text) : text;
        if (kind === "list") return members(text);
        if (kind !== "some") return text;
        const list = members(text).map(scalar);
        return list.length > 1 ? list : list.join();
    }

    /** Return a condition; two operators need not be named. */
    const bare = (key, value) => (key === "eq" || key === "in" ? value : { [key]: value });

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

    return { NOT_ALL, operators, hasText, isList, Unsupported, parse, write };
})();
