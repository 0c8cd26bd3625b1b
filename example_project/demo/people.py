"""The accounts of the demo. A password is the user's name: this site is for your own machine."""

ADMIN = "admin"
COLLEAGUES = ("ada", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lee")

# The others use the API alone.
WITH_PASSWORD = ("ada", "bob")

# What some of them may do in the admin: one works there, one may only look.
PERMISSIONS = {
    "ada": ("view_ruleset", "change_limits", "write_skip_rules", "switch_rulesets", "reset_counters"),
    "bob": ("view_ruleset",),
}
