"""The maps of the package and of its larger parts, in their docstrings, name what there is."""

import re
from importlib import import_module
from pathlib import Path

import pytest

# Django's own words for what they hold.
PLAIN = {"apps", "migrations", "static", "templates", "templatetags"}


@pytest.mark.parametrize("part", ["", ".admin", ".counters", ".engine"])
def test_the_map_names_every_module_and_package_and_no_other(part):
    package = import_module(f"django_ratelimit_rules{part}")
    (folder,) = map(Path, package.__path__)
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path.is_dir() and path.stem[0] != "_")}
    named = {name.rstrip("/") for name in re.findall(r"``([a-z_]+/?)``", package.__doc__)}
    assert named == there - PLAIN - {"__init__"}
