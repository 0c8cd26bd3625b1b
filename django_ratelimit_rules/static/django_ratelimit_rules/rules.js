/* The rules of the ruleset page: fields fetched when a rule is opened, copies, and the form for a new rule.
 *
 * Everything works without this file; it only saves reloading the page. Other scripts here ask ratelimit.rows(),
 * and are told of rules by ratelimit.onRow (a rule's line is there) and ratelimit.onFields (its fields are).
 */
"use strict";

window.ratelimit = (() => {
    const onRow = [], onFields = [];
    const group = () => document.getElementById("rules-group");
    const rows = () => [...group().querySelectorAll(".ratelimit-rule:not(.empty-form)")];
    const field = (row, name) => row.querySelector(`[name^="rules-"][name$="-${name}"]`);
    const nameOf = (row) => field(row, "name")?.value || row.dataset.name || "the new rule";
    /** Tell whoever watches the form that it says something else now: scripts that set values cause no event. */
    const changed = () => group().dispatchEvent(new Event("change", { bubbles: true }));
    const fieldsShown = (row) => onFields.forEach((callback) => callback(row));

    /** Make an element; attributes that begin with "on" are listeners. */
    function make(tag, attributes = {}, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) {
            if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
            else if (value !== false) element.setAttribute(name, value === true ? "" : value);
        }
        element.append(...children);
        return element;
    }

    /** Give the elements of a fragment the number that their rule has on this page. */
    function renumber(fragment, number) {
        for (const element of fragment.querySelectorAll("[id], [name], [for], [aria-describedby], [aria-labelledby]")) {
            for (const name of ["id", "name", "for", "aria-describedby", "aria-labelledby"]) {
                const value = element.getAttribute(name);
                if (value) element.setAttribute(name, value.replace(/rules-(\d+|__prefix__)/g, `rules-${number}`));
            }
        }
    }

    /** Fetch the fields of a rule that came without them. */
    async function open(row) {
        const details = row.querySelector(".ratelimit-fields");
        const link = details.querySelector(".ratelimit-unopened a");
        if (link && !details.dataset.loading) {
            details.dataset.loading = "yes";
            try {
                const response = await fetch(link.href.split("#")[0], { credentials: "same-origin" });
                if (!response.ok) throw new Error(response.statusText);
                const page = new DOMParser().parseFromString(await response.text(), "text/html");
                const found = page.querySelector(`.ratelimit-rule[data-name="${CSS.escape(row.dataset.name)}"]`);
                const fields = [...found.querySelectorAll(".ratelimit-fields > fieldset")];
                details.querySelector(".ratelimit-unopened").replaceWith(...fields);
                renumber(details, row.id.replace("rules-", ""));
                pickers();
                fieldsShown(row);
            } catch {
                link.textContent = "The fields could not be loaded. Open them on a new page";
            } finally {
                delete details.dataset.loading;
            }
        }
        details.open = true;
    }

    /** Let Django's calendars and clocks know about fields that came later. */
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
        // "toggle" does not bubble.
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
            // Django numbers what is left as it stands on the page; a saved rule must keep its number, however far a
            // new one was dragged. Its handler has not finished yet.
            queueMicrotask(() => {
                const saved = rows().filter((row) => row.matches(".has_original"));
                [...saved, ...rows().filter((row) => !row.matches(".has_original"))].forEach((row, number) => {
                    row.id = `rules-${number}`;
                    renumber(row, number);
                });
            });
        });
        // The empty form is for those without JavaScript; Django's "Add another" makes one when it is wanted.
        // jQuery calls in turn: by then Django's own script has made the link.
        window.addEventListener("load", () => window.django.jQuery(() => {
            const last = rows().at(-1);
            const untouched = last && !last.matches(".has_original") && !field(last, "name").value;
            if (untouched && rows().length > 1) last.querySelector(".inline-deletelink")?.click();
            group().dataset.ready = "yes";
        }));
    }

    document.addEventListener("DOMContentLoaded", start);
    return { onRow, onFields, rows, field, nameOf, make, group, changed };
})();
