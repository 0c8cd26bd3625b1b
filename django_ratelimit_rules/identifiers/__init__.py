"""What rules may ask about a request: names of properties, and their values.

- ``registry`` knows the names, ``builtin`` reads the built-in properties, with ``bodies`` and ``client_ip``.
- ``request`` computes the properties of one request, each at most once.
- ``state`` is what the app keeps on a request; ``current`` is the request that this thread or task answers.

Knows nothing of rules and counters. This page re-exports what projects and other rooms call.
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
