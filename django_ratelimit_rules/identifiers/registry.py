"""The registry of properties: their names and meanings, and the functions that compute properties of the project.

Uses no request, because :mod:`identifiers` computes the built-in properties.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from django.http import HttpRequest

from ..engine import messages
from ..engine.properties import PROPERTIES, Property, base_of, normalise, split
from ..engine.values import canonical
from ..exceptions import UnknownProperty

AsyncProvider = Callable[[HttpRequest], Awaitable[object]]
Provider = Callable[[HttpRequest], object] | AsyncProvider
AnyProvider = TypeVar("AnyProvider", bound=Provider)


class Registered(NamedTuple):
    """A property of the project and its function. Without a function, code puts the property into identifiers."""

    property: Property
    provider: Provider | None = None


class Registry:
    """The properties that the project's code registered or declared, by name. They are kept until the process ends."""

    def __init__(self) -> None:
        self.properties: dict[str, Registered] = {}

    @contextmanager
    def isolated(self, *, empty: bool = False) -> Iterator[None]:
        """Remove the properties that a block registered at its end. With ``empty`` the block starts without any."""
        before = self.properties
        self.properties = {} if empty else dict(before)
        try:
            yield
        finally:
            self.properties = before


registry = Registry()
isolated = registry.isolated


def property_provider(
    name: str, *, description: str = "", choices: Iterable[object] | None = None
) -> Callable[[AnyProvider], AnyProvider]:
    """Register a function of the request, sync or async, as the property ``name``. It runs at most once per request.

    Pages show ``description``, which may be a lazy translation. Raises ValueError if the name is built in or malformed.
    """
    if normalise(name) != name or "|" in name or split(name)[0] in PROPERTIES:
        raise ValueError(f"{name!r} cannot be registered: it is built in, or not spelled as a property of its own")

    def register(function: AnyProvider) -> AnyProvider:
        texts = (canonical(choice, name) for choice in choices or ())
        made = Property(name, description, tuple(text for text in texts if text is not None), public=_public(name))
        registry.properties[name] = Registered(made, function)
        return function

    return register


def declare(*names: str, public: str = "") -> None:
    """Declare names that code puts into identifiers itself. ``public`` is their name in published limits.

    Raises ValueError for a malformed name.
    """
    for name in names:
        base = base_of(normalise(name))
        if split(base)[0] not in PROPERTIES:
            known = registry.properties.get(base, Registered(Property(base)))
            made = replace(known.property, public=public or known.property.public)
            registry.properties[base] = known._replace(property=made)


def _public(name: str) -> str:
    return registry.properties[name].property.public if name in registry.properties else ""


def known_properties() -> dict[str, Property]:
    """Return all properties by name. A family such as ``header.*`` is one property."""
    return {**PROPERTIES, **{name: row.property for name, row in registry.properties.items()}}


def of_project() -> tuple[str, ...]:
    """Return the properties that the project registered or declared."""
    return tuple(registry.properties)


def find(name: str) -> Property:
    """Return the property of a name, without its filters.

    Raises UnknownProperty, which suggests the nearest known name, or ValueError for a malformed name.
    """
    base = base_of(normalise(name))
    row, rest = split(base)
    if rest not in ("", "*"):
        return replace(PROPERTIES[row], name=base)
    known = known_properties()
    if base not in known or base.endswith(".*"):
        near = get_close_matches(base, known, n=1)
        if near:
            message = messages._(
                "no provider for property '%(name)s': did you mean '%(near)s'? Projects add properties with "
                "property_provider",
                name=base,
                near=near[0],
            )
        else:
            message = messages._(
                "no provider for property '%(name)s': there are %(names)s. Projects add properties with "
                "property_provider",
                name=base,
                names=", ".join(known),
            )
        raise UnknownProperty(message)
    return known[base]


def provider_of(name: str) -> Provider | None:
    """Return the project's function for a property, or None if the project has none for it."""
    registered = registry.properties.get(name)
    return registered.provider if registered else None


def facts_of(name: str) -> Property:
    """Return the row of a property without its filters. The row of an unregistered property has only its name."""
    base = base_of(name)
    built_in = PROPERTIES.get(split(base)[0])
    return built_in or (registry.properties[base].property if base in registry.properties else Property(base))
