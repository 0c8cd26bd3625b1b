"""The accounts of the demo. A password is the user's name: this site is for your own machine."""

ADMIN = "admin"
COLLEAGUES = ("ada", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lee")

# The others use the API alone.
WITH_PASSWORD = ("ada", "bob")
