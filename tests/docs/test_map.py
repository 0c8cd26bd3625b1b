"""The maps in the docstrings of the package and its rooms name each module and no other."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(import_module("django_ratelimit_rules").__file__).parent
# Names that Django prescribes.
PLAIN = {"apps", "migrations", "static", "templates", "templatetags", "locale"}
# Modules that Django finds by name, so that their folders need no map.
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
