"""The properties of one request, each computed when first asked for and at most once.

A request goes in; a function from property names to canonical texts comes out. Knows nothing of rules: whoever asks
decides what is computed, so that a rule on ``ip`` never touches the session. The names are registered in ``registry``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.http import HttpRequest
from django.utils.functional import LazyObject, empty

from ..engine.explanation import NotAsked
from ..engine.properties import apply_filters, base_of
from ..engine.values import ANONYMOUS, bounded, canonical
from ..exceptions import CallableFailed
from ..runtime import log_sampling, threads
from . import builtin
from .registry import AsyncProvider, Provider, provider_of

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Where the request keeps what providers said, for all limiters that it meets.
_PROVIDED = "_rate_limit_properties"


def build(request: HttpRequest, kwargs: Mapping[str, Any] | None = None) -> RequestIdentifier:
    """Return the identifier of a request, Django's or one that wraps Django's, as REST framework's does.

    ``kwargs`` are the view's keyword arguments; without them those of the resolved URL.
    """
    return RequestIdentifier(http_request(request), kwargs)


def http_request(request: object) -> HttpRequest:
    """Return Django's own request. Raises TypeError for what is none and wraps none."""
    inner = request if isinstance(request, HttpRequest) else getattr(request, "_request", None)
    if not isinstance(inner, HttpRequest):
        raise TypeError(f"expected an HttpRequest, found {type(request).__name__}")
    return inner


class _NotLoaded(Exception):
    """Say that a property cannot be had without awaiting it."""

    def __init__(self, name: str) -> None:
        self.name = name


class RequestIdentifier:
    """The properties of one request. ``text(name)`` is what the engine asks."""

    __slots__ = ("_closed", "_failures", "_loading", "_texts", "_user", "kwargs", "request")

    def __init__(self, request: HttpRequest, kwargs: Mapping[str, Any] | None = None) -> None:
        self.request = request
        self.kwargs = kwargs
        self._texts: dict[str, str | None] = {}
        self._failures: dict[str, CallableFailed] = {}
        self._user: object = empty
        self._loading = False
        self._closed = False

    def close(self) -> None:
        """From now on tell only what is known: :meth:`text` raises NotAsked for what nobody has asked."""
        self._closed = True

    def text(self, name: str) -> str | None:
        """Return the canonical text of a property, None when it is missing.

        Raises CallableFailed when the project's provider raised, or returned what has no text: a container, say.
        """
        if name in self._texts:
            return self._texts[name]
        text = apply_filters(name, self.text(base_of(name))) if "|" in name else self._compute(name)
        self._texts[name] = text
        return text

    async def run(self, function: Callable[[], T]) -> T:
        """Return what a pure function makes of this identifier, loading what it asks for and nothing else.

        The function starts again after each property that had to be awaited.
        """
        while True:
            self._loading = True
            try:
                return function()
            except _NotLoaded as missing:
                name = missing.name
            finally:
                self._loading = False
            await self._load(name)

    def _compute(self, name: str) -> str | None:
        if self._closed:
            raise NotAsked(name)
        if name in self._failures:
            raise self._failures[name]
        try:
            reader = builtin.READERS.get(name)
            value = self._value(name) if reader is None else reader(self.request)
            return bounded(canonical(value, name))
        except SynchronousOnlyOperation:
            if self._loading and name in builtin.USER_READERS:
                raise _NotLoaded(name) from None
            return _without_awaiting(name)
        except _NotLoaded:
            raise
        except Exception as error:
            raise self._failed(name, error) from error

    def _failed(self, name: str, error: Exception) -> CallableFailed:
        self._failures[name] = CallableFailed.because(f"property {name!r}", error)
        return self._failures[name]

    def _value(self, name: str) -> object:
        if name in builtin.USER_READERS:
            user = getattr(self.request, "user", None) if self._user is empty else self._user
            if self._loading and _is_lazy(user):
                raise _NotLoaded(name)
            return builtin.USER_READERS[name](user)
        provider = provider_of(name)
        if provider is None:
            return builtin.read(name, self.request, self.kwargs)
        said = _said(self.request)
        if name not in said:
            if self._loading:
                raise _NotLoaded(name)
            said[name] = _call(provider, self.request)
        return said[name]

    async def _load(self, name: str) -> None:
        try:
            if name in builtin.USER_READERS:
                self._user = await _load_user(self.request)
                self._texts[name] = canonical(await threads.call(builtin.USER_READERS[name], self._user), name)
            elif name not in _said(self.request):
                _said(self.request)[name] = await _acall(provider_of(name), self.request)
        except Exception as error:  # noqa: BLE001 -- a project's provider or user model may raise anything
            self._failed(name, error).__cause__ = error


def _said(request: HttpRequest) -> dict[str, object]:
    said: dict[str, object] = request.__dict__.setdefault(_PROVIDED, {})
    return said


def _is_lazy(user: object) -> bool:
    """Whether a user is a promise that would read the session and the database when looked at."""
    return isinstance(user, LazyObject) and user.__dict__.get("_wrapped", empty) is empty


async def _load_user(request: HttpRequest) -> object:
    user = getattr(request, "user", None)
    return await request.auser() if _is_lazy(user) and hasattr(request, "auser") else user


async def _acall(provider: Provider | None, request: HttpRequest) -> object:
    """Call a provider from async code: a sync one in a thread, for it may block or need the database."""
    if provider is None:
        return None
    if iscoroutinefunction(provider):
        return await cast(AsyncProvider, provider)(request)
    return await sync_to_async(provider)(request)


def _call(provider: Provider, request: HttpRequest) -> object:
    if not iscoroutinefunction(provider):
        return provider(request)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return async_to_sync(cast(AsyncProvider, provider))(request)
    raise SynchronousOnlyOperation("an async provider cannot be awaited by a sync check on the event loop")


def _without_awaiting(name: str) -> str | None:
    """Answer a synchronous check on the event loop: a user reads as anonymous, who counts by address."""
    if log_sampling.due(f"identifiers.{name}"):
        logger.warning("property %s cannot be loaded by a synchronous check in async code; use acheck_request", name)
    return ANONYMOUS if name == "user" else None
