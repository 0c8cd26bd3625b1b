"""Checks a dashboard's JSON against Grafana's own models.

Reports keys that the models do not read, and values with a type other than the model's.
"""

from __future__ import annotations

import enum
import json
import sys
import types
import typing
import warnings

from grafana_foundation_sdk.cog.plugins import register_default_plugins

with warnings.catch_warnings():
    # Keep this model, because the newer model of the warning is read only by the newest Grafana.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()


def newest_version() -> int:
    """Return the schema version that current Grafana writes."""
    return Dashboard().schema_version


def faults(board: dict) -> list[str]:
    """Return the faults of a dashboard."""
    model = Dashboard.from_json(board)
    read = json.loads(json.dumps(model, default=lambda value: value.to_json()))
    return [f"lost: {path}" for path in unknown_keys(board, read)] + of_model(model, "dashboard")


def unknown_keys(given: object, read: object, path: str = "") -> list[str]:
    """Return the paths of keys that Grafana's own models do not read."""
    if isinstance(given, dict):
        read = read if isinstance(read, dict) else {}
        return [found for key in given for found in unknown_keys(given[key], read.get(key), f"{path}.{key}")]
    if isinstance(given, list):
        pairs = zip(given, read, strict=True) if isinstance(read, list) and len(read) == len(given) else ()
        return [x for n, (one, other) in enumerate(pairs) for x in unknown_keys(one, other, f"{path}[{n}]")] or (
            [] if given == [] or pairs else [path]
        )
    return [] if given == read else [path]


def wrong_types(value: object, hint: object, path: str = "dashboard") -> list[str]:
    """Return the paths of values with a type other than that of Grafana's model."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None or typing.Any in options or object in options:
        return []
    if isinstance(value, list):
        inner = next((typing.get_args(option)[0] for option in options if typing.get_origin(option) is list), None)
        return [path] if inner is None else [x for v in value for x in wrong_types(v, inner, path + "[]")]
    for option in options:
        if typing.get_origin(option) is typing.Literal and value in typing.get_args(option):
            return []
        if isinstance(option, type) and issubclass(option, enum.Enum) and value in list(option):
            return []
        if isinstance(option, type) and isinstance(value, option):
            return [] if not hasattr(value, "to_json") else of_model(value, path)
        if typing.get_origin(option) is dict and isinstance(value, dict):
            return []
        if option is float and isinstance(value, int):
            return []
    # Grafana's variants (a panel's options, a data source's query) are separate models.
    return of_model(value, path) if hasattr(value, "to_json") else [f"{path}: {value!r} is no {hint}"]


def of_model(model: object, path: str) -> list[str]:
    module = vars(sys.modules[type(model).__module__])
    hints = typing.get_type_hints(type(model).__init__, module, {"cogvariants": module.get("cogvariants")})
    return [
        x for name, value in vars(model).items() for x in wrong_types(value, hints.get(name, object), f"{path}.{name}")
    ]
