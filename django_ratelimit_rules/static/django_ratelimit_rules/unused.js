/* Hide the fields that a rule's action or algorithm does not use, and send them empty. A field whose value came from the
 * server is not hidden before somebody changes the action: what is saved must show. */
"use strict";

(() => {
    const { field, onFields } = window.ratelimit;
    const OF_COUNTING = ["limit", "period", "characteristics", "algorithm", "count_distinct", "ban_for", "response",
        "warn_at"];
    const NEUTRAL = { algorithm: "fixed_window", warn_at: "80" };

    function unused(row) {
        if (field(row, "action").value === "skip") return OF_COUNTING;
        const found = [];
        if (field(row, "algorithm").value !== "fixed_window") found.push("count_distinct");
        if (field(row, "count_distinct").value.trim()) found.push("ban_for");
        return found;
    }

    const place = (row, name) => row.querySelector(`.fieldBox.field-${name}`)?.parentElement
        || row.querySelector(`.form-row.field-${name}`);

    function arrange(row, kept, changed) {
        const hidden = unused(row);
        for (const name of OF_COUNTING) {
            const input = field(row, name), neutral = NEUTRAL[name] || "", box = place(row, name);
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
        const watched = ["action", "algorithm", "count_distinct"].map((name) => field(row, name));
        if (watched.includes(null)) return;
        const kept = {};
        watched.forEach((input) => input.addEventListener("change", () => arrange(row, kept, true)));
        arrange(row, kept, false);
    });
})();
