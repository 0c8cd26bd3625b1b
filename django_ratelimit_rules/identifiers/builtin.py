"""The built-in properties of a request, computed without touching the session.

A request goes in, a canonical string comes out, or None if the property is missing. No request raises an exception.
"""

from __future__ import annotations

import functools
import hmac
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.request import split_domain_port

from ..conf import settings
from ..engine.properties import PROPERTIES, split
from ..engine.values import ANONYMOUS, canonical
from .bodies import UNREADABLE, read_form, read_json
from .client_ip import client_ip
from .state import state_of

Kwargs = Mapping[str, Any] | None


# Readers by property name. They take a request, its user, or a request and the rest of a family's name.
READERS: dict[str, Callable[[HttpRequest], object]] = {}
USER_READERS: dict[str, Callable[[Any], object]] = {}
FAMILY_READERS: dict[str, Callable[[HttpRequest, str], object]] = {}
Reader = TypeVar("Reader", bound=Callable[..., object])


def reads(name: str) -> Callable[[Reader], Reader]:
    """Make a function the reader of a built-in property. The property's row decides the function's arguments."""

    def register(reader: Reader) -> Reader:
        row = PROPERTIES[name]
        readers: dict[str, Any] = FAMILY_READERS if row.is_family else USER_READERS if row.of_user else READERS
        readers[name] = reader
        return reader

    return register


def read(name: str, request: HttpRequest, kwargs: Kwargs) -> str | None:
    """Return the string of a property of a built-in family (``header.x-team``).

    Returns None for other names, and for a value that is a container.
    """
    family, rest = split(name)
    if family == "kwarg.*":
        return _scalar(_kwargs(request, kwargs).get(rest), name)
    return _scalar(FAMILY_READERS[family](request, rest), name) if family in FAMILY_READERS and rest else None


reads("ip")(client_ip)


@reads("user")
def user_key(user: Any) -> object:
    """Return a user's primary key. All users who are not signed in have the same value, ANONYMOUS."""
    return getattr(user, "pk", user) if is_authenticated(user) else ANONYMOUS


@reads("is_authenticated")
def is_authenticated(user: Any) -> bool:
    """Return whether a user is signed in. ``user`` is None without authentication."""
    return bool(getattr(user, "is_authenticated", False))


@reads("is_staff")
def is_staff(user: Any) -> bool:
    """Return whether a user is signed in and may enter the admin."""
    return is_authenticated(user) and bool(getattr(user, "is_staff", False))


def _scalar(value: object, name: str) -> str | None:
    try:
        return canonical(value, name)
    except TypeError:
        return None


@reads("method")
def _method(request: HttpRequest) -> str | None:
    method = (request.method or "").upper()
    return "GET" if method == "HEAD" else method or None


@reads("path")
def _path(request: HttpRequest) -> str | None:
    return request.path_info or None


@reads("host")
def _host(request: HttpRequest) -> str | None:
    try:
        host = request.get_host()
    except (SuspiciousOperation, KeyError):
        return None
    # Remove the port, because clients may choose any port for a name in ALLOWED_HOSTS.
    return split_domain_port(host)[0] or None


@reads("route")
def _route(request: HttpRequest) -> str | None:
    match = request.resolver_match
    if match is None:
        return None
    return match.view_name if match.url_name else match.route


@reads("view")
def _view(request: HttpRequest) -> str | None:
    return None if request.resolver_match is None else dotted_path(request.resolver_match.func, request.method)


def dotted_path(view: Any, method: str | None = None) -> str:
    """Return the dotted path where a view is defined, without decorators, partials and ``as_view()`` around it.

    If Ninja has several functions for one path, it is the function of ``method``.
    """
    while not (_class_of(view) or inspect.ismethod(view)):
        inner = view.func if isinstance(view, functools.partial) else getattr(view, "__wrapped__", None)
        inner = inner or _operation(view, method)
        if inner is None:
            break
        view = inner
    if inspect.ismethod(view):
        # A method of a ModelAdmin, for example. Name its object's class, because the function's module is the same for
        # all subclasses.
        return f"{dotted_path(type(view.__self__))}.{view.__name__}"
    view = _class_of(view) or view
    named = view if hasattr(view, "__name__") else type(view)
    return f"{named.__module__}.{named.__name__}"


def _class_of(view: Any) -> type | None:
    """Return the class of a view that ``as_view()`` made. Returns None for other views.

    REST framework keeps a viewset's class in ``cls``. Its ``__wrapped__`` is the ``dispatch`` that all viewsets share.
    """
    view_class = getattr(view, "view_class", None) or getattr(view, "cls", None)
    return view_class if isinstance(view_class, type) else None


def _operation(view: Any, method: str | None) -> Any:
    """Return the project's function of a Ninja view. Returns None for other views.

    Ninja's view is the same code for every path. Only its closure holds the function.
    """
    if getattr(view, "__module__", None) != "ninja.operation":
        return None
    cells = (cell.cell_contents for cell in getattr(view, "__closure__", None) or ())
    operations = [operation for cell in cells for operation in getattr(cell, "operations", ())]
    fitting = [operation for operation in operations if method in operation.methods] or operations
    return fitting[0].view_func if fitting else None


@reads("bypass")
def _bypass(request: HttpRequest) -> bool:
    header, secret = settings.BYPASS_HEADER, canonical(settings.BYPASS_VALUE, "bypass")
    if not header or not secret:
        return False
    sent = canonical(_header(request, header), "bypass") or ""
    return hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


@reads("preflight")
def _preflight(request: HttpRequest) -> bool:
    has_headers = "HTTP_ORIGIN" in request.META and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.META
    return has_headers and request.method == "OPTIONS"


@reads("header.*")
def _header(request: HttpRequest, name: str) -> object:
    key = name.upper().replace("-", "_")
    if key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        # WSGI servers set these two to an empty string if the client did not send them.
        return request.META.get(key) or None
    return request.META.get(f"HTTP_{key}")


@reads("query.*")
def _query(request: HttpRequest, name: str) -> object:
    try:
        return request.GET.get(name)
    except UNREADABLE:
        return None


@reads("cookie.*")
def _cookie(request: HttpRequest, name: str) -> object:
    return request.COOKIES.get(name)


@reads("post.*")
def _post(request: HttpRequest, name: str) -> object:
    form: Any = _body(request, read_form)
    return None if form is None else form.get(name)


@reads("json.*")
def _json(request: HttpRequest, name: str) -> object:
    value = _body(request, read_json)
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _body(request: HttpRequest, reader: Callable[[HttpRequest], object]) -> object:
    bodies = state_of(request).bodies
    if reader not in bodies:
        bodies[reader] = reader(request)
    return bodies[reader]


def _kwargs(request: HttpRequest, kwargs: Kwargs) -> Mapping[str, Any]:
    if kwargs is not None:
        return kwargs
    return {} if request.resolver_match is None else request.resolver_match.kwargs
