"""The map of the package, in its docstring, names what there is."""

import re
from pathlib import Path

import django_ratelimit_rules

PACKAGE = Path(django_ratelimit_rules.__file__).parent
# Django's own words for what they hold.
PLAIN = {"apps", "migrations", "static", "templates", "templatetags"}


def test_the_map_names_every_module_and_package_and_no_other():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path.is_dir() and path.stem[0] != "_")}
    named = {name.rstrip("/") for name in re.findall(r"``([a-z_]+/?)``", django_ratelimit_rules.__doc__)}
    assert named == there - PLAIN - {"__init__"}
