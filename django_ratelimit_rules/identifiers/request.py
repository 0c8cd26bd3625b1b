"""The properties of one request. Each is computed when it is first used, and at most once.

A request goes in, an object that returns the canonical string of each property comes out. It knows no rules. The caller
chooses the properties to compute, so that a rule on ``ip`` never touches the session. ``registry`` has the names.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import repeat
from typing import Any, cast

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.core.exceptions import SynchronousOnlyOperation
from django.http import HttpRequest
from django.utils.functional import LazyObject, empty

from ..engine.calls import is_plain, texts_of
from ..engine.properties import apply_filters, base_of
from ..engine.values import ANONYMOUS, bounded, canonical
from ..exceptions import CallableFailed
from ..runtime import log_sampling
from ..runtime.steps import Steps
from ..runtime.threads import in_thread
from . import builtin
from .registry import AsyncProvider, Provider, provider_of
from .state import state_of

logger = logging.getLogger(__name__)

# The attributes of a user that ``builtin.USER_READERS`` use.
_USER_ATTRIBUTES = ("pk", "is_authenticated", "is_staff")


def build(
    request: HttpRequest, kwargs: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None
) -> RequestIdentifier:
    """Return the identifier of Django's request, or of a request that wraps it, like REST framework's.

    ``kwargs`` are the view's keyword arguments, by default the resolved URL's. ``extra`` are properties that code adds.
    They override the request's own. Raises TypeError or ValueError for extra values without a canonical string.
    """
    return RequestIdentifier(http_request(request), kwargs, extra)


def building(
    request: HttpRequest, kwargs: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None
) -> Steps[RequestIdentifier]:
    """Return the steps of :func:`build` for Django's own request.

    On an event loop, extra properties that may query the database, as a lazy user does, are read in a thread.
    """
    if extra is None or is_plain(extra):
        return RequestIdentifier(request, kwargs, extra)
    built: RequestIdentifier = yield RequestIdentifier, _build_in_thread, (request, kwargs, extra)
    return built


async def _build_in_thread(*arguments: Any) -> RequestIdentifier:
    return cast(RequestIdentifier, await in_thread(RequestIdentifier, *arguments))


def http_request(request: object) -> HttpRequest:
    """Return Django's own request. Raises TypeError for other objects, unless they wrap Django's request."""
    inner = request if isinstance(request, HttpRequest) else getattr(request, "_request", None)
    if not isinstance(inner, HttpRequest):
        raise TypeError(f"expected an HttpRequest, found {type(request).__name__}")
    return inner


class RequestIdentifier:
    """The properties of one request. The engine calls ``text(name)``."""

    __slots__ = ("_failures", "_texts", "kwargs", "request")

    def __init__(
        self, request: HttpRequest, kwargs: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        self.request = request
        self.kwargs = kwargs
        self._texts: dict[str, str | None] = {} if extra is None else texts_of(extra)
        self._failures: dict[str, CallableFailed] = {}

    def is_known(self, name: str) -> bool:
        """Return whether :meth:`text` knows a property, or the property before its filters, without computing it."""
        return name in self._texts or base_of(name) in self._texts

    def text(self, name: str) -> str | None:
        """Return the canonical string of a property. Returns None if the property is missing.

        Raises CallableFailed if the project's provider raised, or returned a value without a string, like a container.
        """
        if name in self._texts:
            return self._texts[name]
        text = apply_filters(name, self.text(base_of(name))) if "|" in name else self._compute(name)
        self._texts[name] = text
        return text

    async def load(self, names: Iterable[str]) -> None:
        """Load the user and the project's properties among these names, so that :meth:`text` works on an event loop.

        The names are taken one by one, because an iterator may choose the next name by the previous value.
        """
        for name in names:
            base = base_of(name)
            if self.is_known(name) or base in self._failures:
                continue
            try:
                if base in builtin.USER_READERS:
                    self._texts[base] = await _aread_user(base, self.request)
                else:
                    await _aprovide(base, self.request)
            except Exception as error:  # noqa: BLE001 -- a user model may raise anything
                self._failures[base] = _failed(base, error)

    def _compute(self, name: str) -> str | None:
        if name in self._failures:
            raise self._failures[name]
        try:
            reader = builtin.READERS.get(name)
            if reader is not None:
                return _text(name, reader(self.request))
            if name in builtin.USER_READERS:
                return _text(name, builtin.USER_READERS[name](_user(self.request)))
            if provider_of(name) is not None:
                return _provided(name, self.request)
            return bounded(builtin.read(name, self.request, self.kwargs))
        except SynchronousOnlyOperation:
            return _without_awaiting(name)
        except CallableFailed:
            raise
        except Exception as error:
            self._failures[name] = failure = _failed(name, error)
            raise failure from error


def _failed(name: str, error: Exception) -> CallableFailed:
    failure = CallableFailed.because(f"property {name!r}", error)
    failure.__cause__ = error
    return failure


def _provided(name: str, request: HttpRequest) -> str | None:
    """Return the string of a project's property. The provider is called once, even if it fails."""
    provided = state_of(request).provided
    if name not in provided:
        try:
            provided[name] = _text(name, _call(cast(Provider, provider_of(name)), request))
        except SynchronousOnlyOperation:
            raise
        except Exception as error:  # noqa: BLE001 -- a project's provider may raise anything
            provided[name] = _failed(name, error)
    text = provided[name]
    if isinstance(text, CallableFailed):
        raise text
    return text


async def _aprovide(name: str, request: HttpRequest) -> None:
    """Call a project's provider, unless another limiter of the request did. Sync providers run in a thread."""
    provided, provider = state_of(request).provided, provider_of(name)
    if name in provided or provider is None:
        return
    if not iscoroutinefunction(provider):
        with suppress(CallableFailed):
            await in_thread(_provided, name, request)
        return
    try:
        value = await cast(AsyncProvider, provider)(request)
        provided[name] = _text(name, value) if is_plain({name: value}) else await in_thread(_text, name, value)
    except Exception as error:  # noqa: BLE001 -- a project's provider may raise anything
        provided[name] = _failed(name, error)


def _text(name: str, value: object) -> str | None:
    return bounded(canonical(value, name))


def _call(provider: Provider, request: HttpRequest) -> object:
    if not iscoroutinefunction(provider):
        return provider(request)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return async_to_sync(cast(AsyncProvider, provider))(request)
    raise SynchronousOnlyOperation("an async provider cannot be awaited by a sync check on the event loop")


async def _aread_user(name: str, request: HttpRequest) -> str | None:
    """Return a property of the user. It is read in a thread if an attribute of the user may query the database."""
    user = await _auser(request)
    if _is_loaded(user):
        return _text(name, builtin.USER_READERS[name](user))
    return cast(str | None, await in_thread(lambda: _text(name, builtin.USER_READERS[name](user))))


async def _auser(request: HttpRequest) -> object:
    """Async version of :func:`_user`. It awaits ``auser``, if the request has it, instead of loading a lazy user."""
    user = _user(request)
    if not _is_lazy(user) or not hasattr(request, "auser"):
        return user
    awaited: object = await request.auser()
    state_of(request).user = request.auser, awaited
    return awaited


def _user(request: HttpRequest) -> object:
    """Return the user of a request, or the awaited user instead of a lazy one. Returns None if there is no user."""
    user, awaited = getattr(request, "user", None), state_of(request).user
    # A sign-in replaces the request's `auser`. The user that the old function returned is then outdated.
    is_awaited = awaited is not None and _is_lazy(user) and awaited[0] == getattr(request, "auser", None)
    return awaited[1] if awaited is not None and is_awaited else user


def _is_lazy(user: object) -> bool:
    """Return whether reading an attribute of a user would first load the session and the database row."""
    return isinstance(user, LazyObject) and user.__dict__.get("_wrapped", empty) is empty


def _is_loaded(user: object) -> bool:
    """Return whether the attributes of a user can be read without a query and without code of the project."""
    if isinstance(user, LazyObject):
        user = user.__dict__.get("_wrapped", empty)
    return user is not empty and not any(map(_is_computed, repeat(user), _USER_ATTRIBUTES))


def _is_computed(user: object, attribute: str) -> bool:
    value = inspect.getattr_static(user, attribute, None)
    if isinstance(value, property):
        return not (value.fget and value.fget.__module__.startswith("django."))
    # A descriptor, for example a deferred field.
    return hasattr(value, "__get__")


def _without_awaiting(name: str) -> str | None:
    """Return the string for a sync check on the event loop: an anonymous user, who is counted by address, or None."""
    if log_sampling.due(f"identifiers.{name}"):
        logger.warning("A sync check in async code cannot load the property %s. Use acheck_request instead", name)
    return ANONYMOUS if name == "user" else None
