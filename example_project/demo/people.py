"""The accounts of the demo. Each password is the username, because this site runs only on your own machine."""

ADMIN = "admin"
COLLEAGUES = ("ada", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lee")

# The other colleagues use only the API.
WITH_PASSWORD = ("ada", "bob")

# Permissions in the admin: Ada may edit, Bob may only look.
PERMISSIONS = {
    "ada": ("view_ruleset", "change_limits", "write_skip_rules", "switch_rulesets", "reset_counters"),
    "bob": ("view_ruleset",),
}
