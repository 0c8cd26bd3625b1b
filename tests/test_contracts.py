"""The import contracts name a module that breaks one, and their lists contain all modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "django_ratelimit_rules"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
# For each contract: the allowed room, and children of the root that need no list.
ALLOWED = {
    "Only counters names redis": {"counters"},
    "Only monitoring.metrics names prometheus_client": set(),
    "Only contrib names an API framework, and only management imports contrib": {"contrib"},
}
UNLISTED = {"__init__", "migrations", "live", "versions"}


@pytest.mark.parametrize(
    ("module", "line", "named"),
    [
        ("newcomer.py", "from django_ratelimit_rules import admin", "django_ratelimit_rules.newcomer"),
        ("monitoring/decisions.py", "import redis", "django_ratelimit_rules.monitoring.decisions -> redis"),
        ("http/headers.py", "import prometheus_client", "django_ratelimit_rules.http.headers -> prometheus_client"),
    ],
)
def test_a_module_that_breaks_a_contract_is_named(tmp_path, module, line, named):
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__", "locale"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / PACKAGE.name / module).open("a") as file:
        file.write(f"\n{line}\n")
    linter = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([linter, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode != 0
    assert named in " ".join((ran.stdout + ran.stderr).split())


@pytest.mark.parametrize("name", ALLOWED)
def test_the_list_of_a_contract_has_every_module_of_the_root(name):
    (contract,) = (contract for contract in CONTRACTS if contract["name"] == name)
    listed = {module.removeprefix("django_ratelimit_rules.") for module in contract["source_modules"]}
    children = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    } - UNLISTED
    if "monitoring" not in listed:
        rooms = (PACKAGE / "monitoring").iterdir()
        inside = {path.stem for path in rooms if path.suffix == ".py" or (path / "__init__.py").exists()}
        children = (children - {"monitoring"}) | {f"monitoring.{child}" for child in inside - {"__init__", "metrics"}}
    assert listed == children - ALLOWED[name]
