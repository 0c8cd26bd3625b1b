/* Say when something on the ruleset page is not saved yet, and ask before it is left: the links beside the rules
 * (promote, history, explain) would lose it. */
"use strict";

(() => {
    let unsaved = false;

    function note() {
        if (unsaved) return;
        unsaved = true;
        document.querySelector(".ratelimit-submit")?.prepend(window.ratelimit.make("p",
            { class: "ratelimit-unsaved", role: "status" }, "Unsaved changes."));
    }

    // Other scripts arrange the fields while the page comes up; only then is a change somebody's.
    window.addEventListener("load", () => window.django.jQuery(() => {
        const form = document.getElementById("ruleset_form");
        if (!form?.querySelector("[name=_save]")) return;
        if (form.querySelector(".errornote")) note();
        form.addEventListener("input", note);
        form.addEventListener("change", note);
        form.addEventListener("submit", () => { unsaved = false; });
        // Back from a page that the form was sent to, such as a replay of it: what was typed is here again.
        window.addEventListener("pageshow", () => { unsaved = Boolean(form.querySelector(".ratelimit-unsaved")); });
        window.addEventListener("beforeunload", (event) => {
            if (unsaved) event.preventDefault();
        });
    }));
})();
