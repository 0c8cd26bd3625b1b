/* The rules of the ruleset page: fetches the fields of a rule that is opened, copies rules, and adds new ones.
 *
 * Without this file everything works, but the page is reloaded each time. Other scripts use the functions in
 * window.ratelimit. They add callbacks to onRow (called for the line of a rule) and onFields (for the fields of a rule).
 */
"use strict";

window.ratelimit = (() => {
    const onRow = [], onFields = [];
    let translations;
    const group = () => document.getElementById("rules-group");
    const rows = () => [...group().querySelectorAll(".ratelimit-rule:not(.empty-form)")];
    const field = (row, name) => row.querySelector(`[name^="rules-"][name$="-${name}"]`);
    /** Return the name of a rule, or an empty string for a new rule without a name. */
    const nameOf = (row) => field(row, "name")?.value || row.dataset.name || "";
    /** Dispatch a change event, because the browser sends none if a script sets a value. */
    const changed = () => group().dispatchEvent(new Event("change", { bubbles: true }));
    const fieldsShown = (row) => onFields.forEach((callback) => callback(row));

    /** Return a translation from the page's JSON, with its %(name)s placeholders filled in. Reads the JSON on the first
     * call, because scripts run before the page is complete. */
    function words(key, values = {}) {
        translations ||= JSON.parse(document.getElementById("ratelimit-words").textContent);
        return translations[key].replace(/%\((\w+)\)s/g, (_, name) => String(values[name]));
    }

    /** Make an element. Attributes that begin with "on" are listeners. */
    function make(tag, attributes = {}, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) {
            if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
            else if (value !== false) element.setAttribute(name, value === true ? "" : value);
        }
        element.append(...children);
        return element;
    }

    /** Replace the rule's number in all elements of a fragment by its number on this page. */
    function renumber(fragment, number) {
        for (const element of fragment.querySelectorAll("[id], [name], [for], [aria-describedby], [aria-labelledby]")) {
            for (const name of ["id", "name", "for", "aria-describedby", "aria-labelledby"]) {
                const value = element.getAttribute(name);
                if (value) element.setAttribute(name, value.replace(/rules-(\d+|__prefix__)/g, `rules-${number}`));
            }
        }
    }

    /** Fetch the fields of a rule if the page does not contain them, and open them. */
    async function open(row) {
        const details = row.querySelector(".ratelimit-fields");
        const link = details.querySelector(".ratelimit-unopened a");
        if (link && !details.dataset.loading) {
            details.dataset.loading = "yes";
            try {
                const response = await fetch(link.href.split("#")[0], { credentials: "same-origin" });
                if (!response.ok) throw new Error(response.statusText);
                const page = new DOMParser().parseFromString(await response.text(), "text/html");
                const rule = page.querySelector(`.ratelimit-rule[data-name="${CSS.escape(row.dataset.name)}"]`);
                const fields = [...rule.querySelectorAll(".ratelimit-fields > fieldset")];
                details.querySelector(".ratelimit-unopened").replaceWith(...fields);
                renumber(details, row.id.replace("rules-", ""));
                pickers();
                fieldsShown(row);
            } catch {
                link.textContent = words("not_loaded");
            } finally {
                delete details.dataset.loading;
            }
        }
        details.open = true;
    }

    /** Add Django's calendars and clocks to fields that were loaded later. */
    function pickers() {
        document.querySelectorAll(".datetimeshortcuts").forEach((element) => element.remove());
        window.DateTimeShortcuts?.init();
    }

    async function copy(row) {
        await open(row);
        if (!field(row, "name")) return;
        group().querySelector(".add-row a").click();
        const added = rows().at(-1);
        for (const source of row.querySelectorAll("[name^='rules-']")) {
            const name = source.name.replace(/^rules-\d+-/, "");
            const target = field(added, name);
            if (!target || ["id", "ruleset", "position", "DELETE"].includes(name)) continue;
            if (source.type === "checkbox") target.checked = source.checked;
            else target.value = source.value;
        }
        const taken = new Set(rows().filter((other) => other !== added).map(nameOf));
        const stem = `${nameOf(row).slice(0, 55)}_copy`;
        let name = stem;
        for (let number = 2; taken.has(name); number += 1) name = stem + number;
        field(added, "name").value = name;
        added.querySelectorAll("[name^='rules-']").forEach((element) => {
            element.dispatchEvent(new Event("input", { bubbles: true }));
            element.dispatchEvent(new Event("change", { bubbles: true }));
        });
        field(added, "name").focus();
    }

    function start() {
        if (!group()) return;
        rows().forEach((row) => onRow.forEach((callback) => callback(row)));
        rows().filter((row) => field(row, "name")).forEach(fieldsShown);
        // Listen in the capture phase, because "toggle" does not bubble.
        group().addEventListener("toggle", (event) => {
            if (event.target.matches(".ratelimit-fields") && event.target.open) open(event.target.closest(".ratelimit-rule"));
        }, true);
        group().addEventListener("click", (event) => {
            const link = event.target.closest(".ratelimit-copy");
            if (!link) return;
            event.preventDefault();
            copy(link.closest(".ratelimit-rule"));
        });
        document.addEventListener("formset:added", (event) => {
            if (event.detail.formsetName !== "rules") return;
            onRow.forEach((callback) => callback(event.target));
            fieldsShown(event.target);
        });
        document.addEventListener("formset:removed", () => {
            // Django numbers the remaining rules in their order on the page. Saved rules must keep the lowest numbers,
            // even if a new rule was dragged above them. Wait, because Django's handler has not finished yet.
            queueMicrotask(() => {
                const saved = rows().filter((row) => row.matches(".has_original"));
                [...saved, ...rows().filter((row) => !row.matches(".has_original"))].forEach((row, number) => {
                    row.id = `rules-${number}`;
                    renumber(row, number);
                });
            });
        });
        // Remove the empty form, which is only needed without JavaScript: Django's "Add another" adds one on request.
        // jQuery runs callbacks in order, so Django's own script has already made the links.
        window.addEventListener("load", () => window.django.jQuery(() => {
            const last = rows().at(-1);
            const untouched = last && !last.matches(".has_original") && !field(last, "name").value;
            if (untouched && rows().length > 1) last.querySelector(".inline-deletelink")?.click();
            group().dataset.ready = "yes";
        }));
    }

    document.addEventListener("DOMContentLoaded", start);
    return { onRow, onFields, rows, field, nameOf, make, group, changed, words };
})();
