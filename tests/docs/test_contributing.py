"""The guide for contributors: its commands name existing files, and its layers are those of the contract."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec

import pytest

from tests.docs.pages import ROOT, take, text_of

PAGE = "CONTRIBUTING.md"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SET_UP, INSTALL = take(f"{PAGE}#set-up")[0].splitlines()
COMMANDS = [line.partition("  #")[0].strip() for line in take(f"{PAGE}#running-everything")[0].splitlines()]
# Tools that the commands of the guide run.
TOOLS = {"ruff", "mypy", "import-linter", "tox"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_files_modules_and_variables_that_exist(command):
    for path in re.findall(r"(?<![\w/])(?:tests|\.ci)/[\w/.]+", command):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"-m ([\w.]+)", command):
        assert find_spec(module), module
    for variable in re.findall(r"RATELIMIT_TEST_\w+", command):
        assert any(variable in file.read_text("utf-8") for file in [*(ROOT / "tests").glob("*.py")]), variable


def test_the_set_up_installs_an_extra_with_the_tools_of_the_commands():
    (extra,) = re.findall(r"\[(\w+)\]", INSTALL)
    needed = PYPROJECT["project"]["optional-dependencies"][extra]
    assert {re.split("[>=]", requirement)[0] for requirement in needed} >= TOOLS
    assert SET_UP == "python3 -m venv .venv"


def test_the_extras_that_comments_name_exist():
    named = re.findall(r"extra `(\w+)`", text_of(PAGE))
    assert named
    assert set(named) <= PYPROJECT["project"]["optional-dependencies"].keys()


def test_the_layers_are_those_of_the_contract():
    table = text_of(PAGE).partition("| layer,")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    contract = next(c for c in PYPROJECT["tool"]["importlinter"]["contracts"] if c["name"].startswith("Rooms import"))
    layers = [set(layer.split(" | ")) for layer in contract["layers"]]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == layers


@pytest.mark.parametrize("page", ["README.md", PAGE])
def test_the_product_files_that_a_table_names_exist(page):
    rows = [line for line in text_of(page).splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`(\w+(?:/\w+)*(?:\.py|\.lua|/))`", row)}
    assert len(named) > 8
    there = {name for name in named if (ROOT / "django_ratelimit_rules" / name).exists()}
    assert named - there == set()
