"""All private names of other packages that the app uses exist in the installed versions. No other is used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis.asyncio.connection
import redis.connection
import redis.sentinel
from django.contrib.admin import ModelAdmin
from django.forms import ModelForm
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils.decorators import method_decorator
from django.views.generic import View
from django_ratelimit import core
from django_ratelimit.decorators import ratelimit
from ninja import NinjaAPI

import django_ratelimit_rules
from django_ratelimit_rules.models import Ruleset

PACKAGE = Path(django_ratelimit_rules.__file__).parent


class PrivateName(NamedTuple):
    """A private name with its existence check, its owner, and the module that uses it."""

    name: str
    exists: Callable[[], bool]
    owner: str
    module: str


def _closure(function: Any) -> set[str]:
    return set(function.__code__.co_freevars)


def _ninja_operations() -> bool:
    api = NinjaAPI(urls_namespace="private_names")
    api.get("/")(lambda request: None)
    views = [pattern.callback for pattern in api.urls[0] if pattern.callback.__module__ == "ninja.operation"]
    cells = [cell.cell_contents for view in views for cell in view.__closure__ or ()]
    operations = [operation for cell in cells for operation in getattr(cell, "operations", ())]
    return bool(operations) and all(hasattr(operation, "view_func") for operation in operations)


def _sentinel_internals() -> bool:
    sentinel = redis.sentinel.Sentinel([("localhost", 1)])
    manager = redis.sentinel.SentinelConnectionPool("service", sentinel).sentinel_manager
    options = manager.sentinels[0].connection_pool.connection_kwargs
    return {"host", "port"} <= set(options) and hasattr(manager, "sentinel_kwargs")


def _form_cache() -> bool:
    request = RequestFactory().post("/")
    _ = request.POST
    return {"_post", "_files"} <= set(vars(request))


REDIS, DJANGO, RATELIMIT = "redis-py", "Django", "django-ratelimit"
ASYNC = redis.asyncio.connection.Connection
RATES = "contrib/django_ratelimit_rates.py"
TABLE = [
    PrivateName(
        "_sock", lambda: hasattr(redis.connection.Connection(), "_sock"), REDIS, "counters/transport/blocking.py"
    ),
    PrivateName("_writer", lambda: hasattr(ASYNC(), "_writer"), REDIS, "counters/transport/pipelined.py"),
    PrivateName("_reader", lambda: hasattr(ASYNC(), "_reader"), REDIS, "counters/transport/pipelined.py"),
    PrivateName("sentinel_manager", _sentinel_internals, REDIS, "counters/transport/async_pool.py"),
    PrivateName("_store", lambda: hasattr(HttpResponse().headers, "_store"), DJANGO, "http/headers.py"),
    PrivateName("_post", _form_cache, DJANGO, "identifiers/bodies.py"),
    PrivateName("_files", _form_cache, DJANGO, "identifiers/bodies.py"),
    PrivateName("_create_formsets", lambda: hasattr(ModelAdmin, "_create_formsets"), DJANGO, "admin/pages/replay.py"),
    PrivateName("_post_clean", lambda: hasattr(ModelForm, "_post_clean"), DJANGO, "admin/ruleset_form/formset.py"),
    PrivateName("_split_rate", lambda: hasattr(core, "_split_rate"), RATELIMIT, RATES),
    PrivateName(
        "closure of ratelimit",
        lambda: (
            {"group", "key", "rate", "method", "block", "fn"} <= _closure(ratelimit(key="ip")(lambda request: None))
        ),
        RATELIMIT,
        RATES,
    ),
    PrivateName(
        "closure of method_decorator",
        lambda: {"decorators", "method"} <= _closure(method_decorator(lambda f: f)(lambda self: None)),
        DJANGO,
        RATES,
    ),
    PrivateName("closure of as_view", lambda: "cls" in _closure(View.as_view()), DJANGO, RATES),
    PrivateName("closure of a view", _ninja_operations, "Django Ninja", "identifiers/builtin.py"),
]
# Names with an underscore that their owners document.
DOCUMENTED = {"_asdict", "_replace", "_meta", "_state", "_default_manager"}
# REST framework's request holds Django's request by this name. It may be missing, if the request is Django's own.
OPTIONAL = {"_request"}


@pytest.mark.parametrize("private", TABLE, ids=lambda private: private.name)
def test_the_installed_versions_have_each_private_name(private):
    assert private.exists(), f"{private.owner} no longer has `{private.name}`: see {private.module}"
    assert (PACKAGE / private.module).is_file()


def _defined_by_us(tree: ast.AST) -> set[str]:
    """Return the names that our own code defines: functions, classes, variables, attributes of self, and slots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def _touched(tree: ast.AST) -> set[str]:
    """Return the private attributes that the code uses, by name or by functions like ``getattr``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                names.add(name)
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                names.add(name)
            case ast.ImportFrom(names=aliases, level=0):
                names.update(alias.name for alias in aliases)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_no_other_private_name_of_another_package_is_touched():
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts}
    ours = set().union(*map(_defined_by_us, trees.values()))
    listed = {private.name for private in TABLE} | DOCUMENTED | OPTIONAL
    others = {str(path.relative_to(PACKAGE)): _touched(tree) - ours - listed for path, tree in trees.items()}
    assert {path: names for path, names in others.items() if names} == {}


def test_the_documented_names_are_those_of_models_and_named_tuples():
    assert all(hasattr(Ruleset, name) or hasattr(PrivateName, name) or hasattr(Ruleset(), name) for name in DOCUMENTED)
