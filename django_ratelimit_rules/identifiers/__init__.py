"""The properties of a request that rules can use: their names and their values.

- ``registry`` holds the names. ``builtin`` computes the built-in properties, with ``bodies`` and ``client_ip``.
- ``request`` computes the properties of one request, each at most once.
- ``state`` holds the app's data about one request. ``current`` is the request that this thread or task answers.

This room knows no rules and no counters. It re-exports the functions that projects and other rooms call.
"""

from ..engine.properties import Property
from .registry import declare, find, known_properties, property_provider
from .request import RequestIdentifier, build, building, http_request

__all__ = [
    "Property",
    "RequestIdentifier",
    "build",
    "building",
    "declare",
    "find",
    "http_request",
    "known_properties",
    "property_provider",
]
