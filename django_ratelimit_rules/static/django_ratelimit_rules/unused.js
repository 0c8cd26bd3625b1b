/* Hides the fields that a rule's action or algorithm does not use, and sends them empty. A field with a saved value is
 * visible until the user changes the action, because every saved value must be visible. */
"use strict";

(() => {
    const { field, onFields } = window.ratelimit;
    let known;

    /** Return the fields that not every rule uses, from the page's JSON. Reads it on the first call, because scripts run
     * before the page is complete. */
    function options() {
        known ||= JSON.parse(document.getElementById("ratelimit-options").textContent);
        return known;
    }

    const isUnused = (row, { actions, requirements }) => !actions.includes(field(row, "action").value)
        || Object.entries(requirements).some(([name, allowed]) => !allowed.includes(field(row, name).value.trim()));

    const place = (row, name) => row.querySelector(`.fieldBox.field-${name}`)?.parentElement
        || row.querySelector(`.form-row.field-${name}`);

    function arrange(row, kept, changed) {
        const hidden = options().filter((option) => isUnused(row, option)).map(({ name }) => name);
        for (const { name, neutral } of options()) {
            const input = field(row, name), box = place(row, name);
            const set = (value) => {
                input.value = value;
                input.dispatchEvent(new Event("input", { bubbles: true }));
            };
            if (hidden.includes(name)) {
                if (input.value !== neutral && changed) {
                    kept[name] = input.value;
                    set(neutral);
                }
                box.hidden = input.value === neutral && !box.querySelector(".errorlist");
            } else {
                box.hidden = false;
                if (name in kept && input.value === neutral) set(kept[name]);
                delete kept[name];
            }
        }
        row.querySelectorAll(".ratelimit-fields > fieldset").forEach((fieldset) => {
            fieldset.hidden = [...fieldset.querySelectorAll(".form-row")].every((line) => line.hidden);
        });
    }

    onFields.push((row) => {
        const others = options().flatMap(({ requirements }) => Object.keys(requirements));
        const watched = [...new Set(["action", ...others])].map((name) => field(row, name));
        if (watched.includes(null)) return;
        const kept = {};
        watched.forEach((input) => input.addEventListener("change", () => arrange(row, kept, true)));
        arrange(row, kept, false);
    });
})();
