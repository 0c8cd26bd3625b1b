/* Shows a note while the ruleset page has unsaved changes, and asks before the page is left. Links on the page (promote,
 * history, explain) would lose the changes. */
"use strict";

(() => {
    let unsaved = false;

    function note() {
        if (unsaved) return;
        unsaved = true;
        const { make, words } = window.ratelimit;
        document.querySelector(".ratelimit-submit")?.prepend(
            make("p", { class: "ratelimit-unsaved", role: "status" }, words("unsaved")));
    }

    // Other scripts change fields while the page loads. Listen after that, so that only changes by the user count.
    window.addEventListener("load", () => window.django.jQuery(() => {
        const form = document.getElementById("ruleset_form");
        if (!form?.querySelector("[name=_save]")) return;
        if (form.querySelector(".errornote")) note();
        form.addEventListener("input", note);
        form.addEventListener("change", note);
        form.addEventListener("submit", () => { unsaved = false; });
        // The user may come back from a page that the form was sent to, such as a replay. The typed values are restored.
        window.addEventListener("pageshow", () => { unsaved = Boolean(form.querySelector(".ratelimit-unsaved")); });
        window.addEventListener("beforeunload", (event) => {
            if (unsaved) event.preventDefault();
        });
    }));
})();
