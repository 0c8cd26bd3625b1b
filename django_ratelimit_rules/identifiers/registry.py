"""The registry of properties: which names there are, what they mean, and who computes the project's own.

Knows no request: :mod:`identifiers` computes the built-in ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from django.http import HttpRequest

from ..engine.properties import FAMILIES, base_of, normalise
from ..engine.values import canonical
from ..exceptions import UnknownProperty

AsyncProvider = Callable[[HttpRequest], Awaitable[object]]
Provider = Callable[[HttpRequest], object] | AsyncProvider
AnyProvider = TypeVar("AnyProvider", bound=Provider)


@dataclass(frozen=True, slots=True)
class Property:
    """A property for people to choose: ``provider`` is the project's function, None for built-in and declared ones."""

    name: str
    description: str = ""
    choices: tuple[str, ...] = ()
    provider: Provider | None = None


_YES_NO = ("1", "0")
BUILT_IN = {
    known.name: known
    for known in (
        Property("ip", "Client address, behind trusted proxies"),
        Property("user", "Primary key of the signed-in user, or <anonymous>"),
        Property("method", "HTTP method; HEAD reads as GET", ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
        Property("path", "Path of the URL, without the query"),
        Property("route", "Name of the URL pattern, with its namespace"),
        Property("view", "Dotted path of the view function or class"),
        Property("host", "Host name the client asked for, without the port"),
        Property("is_authenticated", "Whether a user is signed in", _YES_NO),
        Property("is_staff", "Whether the user may enter the admin", _YES_NO),
        Property("bypass", "Whether the request carries the bypass header's secret", _YES_NO),
        Property("preflight", "Whether a browser asks for permission to send a cross-origin request", _YES_NO),
    )
}
_FAMILIES = {
    "header.": Property("header.*", "A request header: header.x-team"),
    "query.": Property("query.*", "A parameter of the URL: query.q"),
    "cookie.": Property("cookie.*", "A cookie: cookie.sessionid"),
    "post.": Property("post.*", "A field of a form body: post.email"),
    "json.": Property("json.*", "A value in a JSON body, nested by dots: json.user.email"),
    "kwarg.": Property("kwarg.*", "A keyword argument of the URL pattern: kwarg.pk"),
}


class Registry:
    """The properties that the project's code registered or declared, by name. They live as long as the process."""

    def __init__(self) -> None:
        self.properties: dict[str, Property] = {}

    @contextmanager
    def isolated(self, *, empty: bool = False) -> Iterator[None]:
        """Forget at the end of a block the properties that it registered. With ``empty`` the block begins with none."""
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
    """Register a function of the request, sync or async, as the property ``name``; it runs at most once a request.

    Raises ValueError for a name that is built in, or malformed.
    """
    if normalise(name) != name or "|" in name or name in BUILT_IN or name.startswith(FAMILIES):
        raise ValueError(f"{name!r} cannot be registered: it is built in, or not spelled as a property of its own")

    def register(function: AnyProvider) -> AnyProvider:
        texts = (canonical(choice, name) for choice in choices or ())
        registry.properties[name] = Property(
            name, description, tuple(text for text in texts if text is not None), function
        )
        return function

    return register


def declare(*names: str) -> None:
    """Make names known that code puts into identifiers itself. Raises ValueError for a malformed name."""
    for name in names:
        base = base_of(normalise(name))
        if base not in BUILT_IN and not base.startswith(FAMILIES):
            registry.properties.setdefault(base, Property(base))


def known_properties() -> dict[str, Property]:
    """Return all properties by name; a family such as ``header.*`` is one."""
    return {**BUILT_IN, **{family.name: family for family in _FAMILIES.values()}, **registry.properties}


def of_project() -> tuple[str, ...]:
    """Return the properties that the project registered or declared."""
    return tuple(registry.properties)


def find(name: str) -> Property:
    """Return the property that ``name``, filters aside, stands for.

    Raises UnknownProperty, naming the nearest known name; ValueError for a malformed one.
    """
    base = base_of(normalise(name))
    prefix, dot, rest = base.partition(".")
    if prefix + dot in _FAMILIES and rest not in ("", "*"):
        return Property(base, _FAMILIES[prefix + dot].description)
    known = known_properties()
    if base not in known or base.endswith(".*"):
        near = get_close_matches(base, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        raise UnknownProperty(f"no provider for property {base!r}: {hint} A project adds its own by property_provider")
    return known[base]


def provider_of(name: str) -> Provider | None:
    """Return the project's function for a property, None where there is none."""
    registered = registry.properties.get(name)
    return registered.provider if registered else None
