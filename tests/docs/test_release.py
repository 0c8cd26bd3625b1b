"""The data of a release agree: version, changelog, supported Pythons and Djangos."""

from __future__ import annotations

import re
import tomllib
from itertools import chain, product

import django_ratelimit_rules
from tests.docs.pages import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLASSIFIERS = PYPROJECT["project"]["classifiers"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def versions(of: str) -> set[str]:
    """Return the versions in the classifiers."""
    return set(re.findall(rf"{of} :: ([0-9]+\.[0-9]+)", "\n".join(CLASSIFIERS)))


def test_the_changelog_begins_with_the_version_and_its_date():
    heading = re.search(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert heading is not None
    assert re.fullmatch(rf"{re.escape(django_ratelimit_rules.__version__)} \(\d{{4}}-\d\d-\d\d\)", heading[1])


def test_the_matrix_agrees_with_the_classifiers():
    factors = [environment["product"] for environment in PYPROJECT["tool"]["tox"]["env_list"]]
    matrix = set(chain.from_iterable(product(*each) for each in factors))
    pythons = {f"py{version.replace('.', '')}" for version in versions("Python")}
    djangos = {f"django{version.replace('.', '')}" for version in versions("Framework :: Django")}
    # Django 6 needs Python 3.12.
    too_old = {("py311", "django60"), ("py311", "django61")}
    promised = {(python, django) for python in pythons for django in djangos} - too_old
    assert matrix == {(*both, end) for both in promised for end in ("lowest", "newest")}


def test_the_readme_names_the_pythons_and_djangos():
    pythons, djangos = (
        sorted(versions(of), key=lambda version: tuple(map(int, version.split("."))))
        for of in ("Python", "Framework :: Django")
    )
    said = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"Python {pythons[0]} to {pythons[-1]}, Django {', '.join(djangos[:-1])} and {djangos[-1]}," in said
