"""Converts the rates of django-ratelimit in a project's views into draft rules.

The project's URLs go in. Decorated views are found also under other decorators, on a class or on a method. Calls of
``is_ratelimited`` in a view's body cannot be found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from django.utils.decorators import method_decorator
from django.views.generic import View
from django_ratelimit import ALL
from django_ratelimit.core import _split_rate
from django_ratelimit.decorators import ratelimit

from ..conf import settings
from ..engine.durations import format_duration
from ..identifiers.builtin import dotted_path
from ..legacy.drafts import (
    Draft,
    DraftRule,
    name_of,
    views,
)

HEADING = [
    "Drafts of rules, from the decorators of django-ratelimit. All are in a dry run, so they block no call.",
    "What differs for all of them: a window starts with a client's first call, there at times of the clock, others"
    " for each key. A refusal is a 429, there a 403. When the store fails, the project's failure mode answers,"
    " there it refuses unless RATELIMIT_FAIL_OPEN. HEAD counts as GET, there apart. Calls of is_ratelimited() in the"
    " bodies of views are not seen.",
]
KEYS = {"ip": "ip", "user": "user", "user_or_ip": "user"}
FAMILIES = {"header": "header.", "get": "query.", "post": "post."}


class Rate(NamedTuple):
    """The arguments of one decorator, and its place: the view's dotted path and its route."""

    group: str | None
    key: Any
    rate: Any
    method: Any
    block: bool
    place: tuple[str, str]


def _closure(function: Any) -> dict[str, Any]:
    """Return the variables in a function's closure, by name."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    return dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True)) if code else {}


def _code(function: Any) -> object:
    return getattr(function, "__code__", None)


# What the functions look like that django-ratelimit and Django make: their code is the same object each time.
_DECORATOR = _code(ratelimit(key="ip"))
_DECORATED = _code(ratelimit(key="ip")(lambda request: None))
_METHOD = _code(method_decorator(lambda function: function)(lambda self: None))
_AS_VIEW = _code(View.as_view())


def drafts() -> list[Draft]:
    """Return a draft for each group, which without one is the view."""
    by_group: dict[str, list[Rate]] = {}
    for route, callback in views():
        place = dotted_path(callback), route
        for rate in _rates(callback, place):
            by_group.setdefault(rate.group or place[0], []).append(rate)
    named: dict[str, Draft] = {}
    for group, found in by_group.items():
        limiter = name_of(group if found[0].group else group.rpartition(".")[2], named)
        named[limiter] = _draft(limiter, group, found)
    return list(named.values())


def _rates(view: Any, place: tuple[str, str], handler: str | None = None) -> Iterator[Rate]:
    """Yield the rates of a view, the outermost decorator first. ``handler`` is the name of the class's method."""
    while view is not None:
        closure = _closure(view)
        if _code(view) is _DECORATED:
            yield _rate(closure, place, handler)
            view = closure["fn"]
        elif _code(view) is _METHOD:
            # Kept in the order of their application: the last one is the outermost.
            for decorator in reversed(closure["decorators"]):
                if _code(decorator) is _DECORATOR:
                    yield _rate(_closure(decorator), place, handler)
            view = closure["method"]
        elif _code(view) is _AS_VIEW:
            yield from _rates(closure["cls"].dispatch, place)
            for name in closure["cls"].http_method_names:
                # Handlers inherited from `View` are never decorated, so it is safe to look at them.
                yield from _rates(getattr(closure["cls"], name, None), place, name)
            return
        else:
            view = view.func if isinstance(view, functools.partial) else getattr(view, "__wrapped__", None)


def _rate(closure: dict[str, Any], place: tuple[str, str], handler: str | None) -> Rate:
    method = handler if handler and closure["method"] == ALL else closure["method"]
    return Rate(
        closure["group"],
        closure["key"],
        closure["rate"],
        tuple(method) if isinstance(method, (list, tuple)) else method,
        closure["block"],
        place,
    )


def _draft(limiter: str, group: str, found: Sequence[Rate]) -> Draft:
    everywhere = dict.fromkeys(rate.place for rate in found)
    where = ", ".join(f"{view} ({route})" for view, route in everywhere)
    code = f"In code: @rate_limited({limiter!r}, legacy=…), with the old decorators as legacy."
    draft = Draft(limiter, [f"Group {group}: {where}" if found[0].group else where, code])
    by_terms: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    for rate in found:
        by_terms.setdefault((rate.key, rate.rate, rate.method, rate.block), set()).add(rate.place)
    for terms, places in by_terms.items():
        rule = _rule(terms, [rule.fields["name"] for rule in draft.rules])
        if places != set(everywhere):
            _narrow(rule, places, set(everywhere) - places)
        draft.rules.append(rule)
    return draft


def _narrow(rule: DraftRule, places: set[tuple[str, str]], others: set[tuple[str, str]]) -> None:
    """Have a rule apply to some of its limiter's views only: those of one group may have rates of their own."""
    views = {view for view, _ in places}
    if views.isdisjoint(view for view, _ in others):
        rule.fields["match"] = {**rule.fields.get("match", {}), "view": sorted(views)}
    else:
        routes = ", ".join(sorted(route for _, route in places))
        rule.obstacle = f"{rule.obstacle} it holds only at {routes}: match it by path or route.".strip()


def _rule(terms: tuple[Any, ...], taken: Sequence[str]) -> DraftRule:
    key, rate, method, block = terms
    fields: dict[str, Any] = {}
    differs: list[str] = []
    obstacles = [*_count_by(key, fields, differs), *_limit(rate, fields)]
    if method != ALL:
        methods = [each.upper() for each in ([method] if isinstance(method, str) else method)]
        fields["match"] = {"method": methods[0] if len(methods) == 1 else methods}
    if not block:
        fields["action"] = "log"
        differs.append("block=False: the view itself looked at request.limited; now request.rate_limits says it.")
    by = "_".join(fields["characteristics"]) or "all"
    name = name_of(f"{by}_per_{format_duration(fields['period'])}" if "period" in fields else f"by_{by}", taken)
    return DraftRule({"name": name, **fields}, differs or ["Nothing else differs."], " ".join(obstacles))


def _limit(rate: Any, fields: dict[str, Any]) -> Iterator[str]:
    """Fill in limit and period. Yield the reasons why that is impossible."""
    if callable(rate) or (isinstance(rate, str) and "." in rate):
        yield f"its rate is computed by {_named(rate)}: give the rule in code, with a function for its limit."
    elif rate is None:
        yield "it has no rate, so it limits no client."
    else:
        try:
            fields["limit"], fields["period"] = _split_rate(rate)
        except (AttributeError, ValueError, TypeError, KeyError):
            yield f"its rate {rate!r} cannot be read."


def _count_by(key: Any, fields: dict[str, Any], differs: list[str]) -> Iterator[str]:
    """Fill in the characteristics. Yield the reasons why a rule cannot count by them yet."""
    fields["characteristics"] = []
    family, _, rest = str(key).partition(":")
    if key is None:
        yield "it has no key, which django-ratelimit refuses when the view is called."
    elif callable(key) or (family not in FAMILIES and "." in key):
        name = name_of(_named(key).rpartition(".")[2])
        fields["characteristics"] = [name]
        yield f"it counts by the return value of {_named(key)}: register it as property {name} with property_provider."
    elif family in FAMILIES and rest:
        fields["characteristics"] = [FAMILIES[family] + rest]
        differs.append("A value over 100 bytes, or any value that a client wrote, is stored in Redis as a digest.")
    elif key in KEYS:
        fields["characteristics"] = [KEYS[key]]
        differs.extend(_about(key))
    else:
        yield f"its key {key!r} is unknown to django-ratelimit."


def _about(key: str) -> Iterator[str]:
    if key == "user":
        yield "Anonymous clients count by address, each apart. In django-ratelimit they all share one counter."
    if key != "user" and settings.of_others("RATELIMIT_IP_META_KEY"):
        yield "The address came by RATELIMIT_IP_META_KEY: set TRUSTED_PROXIES or PROXY_HOPS, and compare."
    mask = settings.of_others("RATELIMIT_IPV6_MASK", 64)
    mask4 = settings.of_others("RATELIMIT_IPV4_MASK", 32)
    if key != "user" and mask != settings.ipv6_bits:
        yield f"IPv6 addresses counted by /{mask}, now by /{settings.ipv6_bits} (IPV6_PREFIX)."
    if key != "user" and mask4 != 32:
        yield f"IPv4 addresses counted by /{mask4}, now each for itself."


def _named(function: str | Callable[..., Any]) -> str:
    return function if isinstance(function, str) else dotted_path(function)
