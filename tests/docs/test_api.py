"""The promised names exist, the old paths lead to the new ones, and no page shows a name that is not promised."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, resolve_name

import pytest
from django.dispatch import Signal

import django_ratelimit_rules
from django_ratelimit_rules import signals
from tests.docs.pages import PAGES, ROOT, blocks, inline, text_of

PACKAGE = "django_ratelimit_rules"
PAGE = "docs/api.md"
_TABLE, _, _MOVED = text_of(PAGE).partition("## Moved paths")
PROMISED = re.findall(r"^\| `([\w.]+)` \|", _TABLE, re.MULTILINE)
MOVED = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|$", _MOVED, re.MULTILINE)
# Names that only the demo may use, because it replays a day in a minute.
DEMO_ONLY = {"monitoring.last_hour.by_clock", "monitoring.last_hour.gather", "rulesets.reload", "runtime.clock.clock"}
ROOMS = {module.name for module in iter_modules(django_ratelimit_rules.__path__)}
# In prose ``limiter.settle(…)`` calls a limiter, not the module of that name.
VARIABLES = {"limiter"}
# The contributors' guide describes internal names.
WRITTEN = (*(page for page in PAGES if page != "CONTRIBUTING.md"), "CHANGELOG.md")
# Classes that are only bases of promised classes.
BASES = {"testing.ForTests"}
EXAMPLE = [file for file in sorted((ROOT / "example_project").rglob("*.py")) if "__pycache__" not in file.parts]


@pytest.mark.parametrize("path", PROMISED)
def test_a_promised_name_can_be_imported(path):
    assert resolve_name(f"{PACKAGE}.{path}") is not None


def test_no_name_is_promised_twice():
    assert len(PROMISED) > 40
    assert len(PROMISED) == len(set(PROMISED))


@pytest.mark.parametrize("module", ["exceptions", "testing"])
def test_all_public_names_of_a_promised_module_are_in_the_table(module):
    names = vars(import_module(f"{PACKAGE}.{module}"))
    public = {
        f"{module}.{name}"
        for name, value in names.items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
        if value.__module__ == f"{PACKAGE}.{module}"
    }
    assert public - BASES <= set(PROMISED)


def test_the_table_lists_all_signals():
    sent = {f"signals.{name}" for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert sent == {path for path in PROMISED if path.startswith("signals.")}


@pytest.mark.parametrize(("old", "new"), MOVED)
def test_a_moved_path_warns_and_leads_to_the_new_one(old, new, monkeypatch):
    is_module = "." not in old
    module = f"{PACKAGE}.{old}" if is_module else f"{PACKAGE}.{old.rpartition('.')[0]}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.warns(DeprecationWarning, match=r"is deprecated and will be removed in 1\.2"):
        shim = import_module(module)
    there = resolve_name(f"{PACKAGE}.{new}")
    if is_module:
        promised = [path.rpartition(".")[2] for path in PROMISED if path.startswith(f"{new}.")]
        assert promised
        assert all(getattr(shim, name) is getattr(there, name) for name in promised)
    else:
        assert getattr(shim, old.rpartition(".")[2]) is there


def test_every_shim_is_in_the_table():
    shims = {
        ".".join(file.relative_to(ROOT / PACKAGE).with_suffix("").parts)
        for file in (ROOT / PACKAGE).rglob("*.py")
        if "DeprecationWarning" in file.read_text("utf-8")
    }
    assert shims == {old if "." not in old else old.rpartition(".")[0] for old, _ in MOVED}


def imported(source: str) -> Iterator[str]:
    """Yield the package's names that a source imports, and the attributes that it reads from imported modules."""
    tree = ast.parse(source)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith(PACKAGE))
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == PACKAGE:
            for name in node.names:
                path = f"{node.module}.{name.name}"
                yield path
                if inspect.ismodule(resolve_name(path)):
                    modules[name.asname or name.name] = path
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield f"{modules[node.value.id]}.{node.attr}"


def in_page(page: str) -> Iterator[str]:
    """Yield the package's dotted paths that a page names, in full or from a room on."""
    yield from re.findall(rf"\b{PACKAGE}(?:\.\w+)+", text_of(page))
    for token in inline(page, "code_inline"):
        path = re.match(r"(\w+)(?:\.\w+)+", token.content)
        if path and path[1] in ROOMS - VARIABLES and not token.content.endswith((".py", ".html", ".lua")):
            yield f"{PACKAGE}.{path[0]}"
    for block in blocks(page):
        if block.language == "python":
            yield from imported(block.text)


def unpromised(paths: Iterator[str]) -> set[str]:
    """Return the paths that are not promised, and not a module of promised names."""
    known = {*PROMISED, *(old for old, _ in MOVED), *(new for _, new in MOVED)}
    known |= {".".join(path.split(".")[:length]) for path in known for length in range(1, path.count(".") + 1)}
    return {path.removeprefix(f"{PACKAGE}.") for path in paths if path != PACKAGE} - known


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_names_promised_paths_only(page):
    assert unpromised(in_page(page)) == set()


@pytest.mark.parametrize("file", EXAMPLE, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_example_project_uses_promised_paths(file: Path):
    source = file.read_text("utf-8")
    dotted = re.findall(rf"\"({PACKAGE}(?:\.\w+)+)\"", source)
    assert unpromised(iter([*imported(source), *dotted])) - DEMO_ONLY == set()


def test_a_path_that_is_not_promised_is_found():
    source = f"from {PACKAGE} import rulesets\nfrom {PACKAGE}.engine.plans import Hits\nrulesets.forget()"
    assert unpromised(imported(source)) == {"rulesets.forget", "engine.plans.Hits"}
