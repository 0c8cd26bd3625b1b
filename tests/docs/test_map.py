"""The maps of the package and of its rooms, in their docstrings, name every module and no other."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(import_module("django_ratelimit_rules").__file__).parent
# Django's own words for what they hold.
PLAIN = {"apps", "migrations", "static", "templates", "templatetags", "locale"}
# Names that are looked up, so that their folders need no map.
UNMAPPED = {"management", "management.commands", "migrations", "contrib", "templatetags"}
ROOMS = {".".join(path.parent.relative_to(PACKAGE).parts) for path in PACKAGE.rglob("__init__.py")} - UNMAPPED


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_the_map_names_every_module_and_package_and_no_other(room):
    package = import_module(f"django_ratelimit_rules.{room}".rstrip("."))
    (folder,) = map(Path, package.__path__)
    there = {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())
    }
    named = {name.rstrip("/") for name in re.findall(r"``([a-z_]+/?)``", package.__doc__)}
    assert named == there - PLAIN - {"__init__"}
