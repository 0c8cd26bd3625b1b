"""The rate limit headers of an answer.

The results of one request go in, by limiter; header names and values come out, or are written on a response. The
format is that of draft-ietf-httpapi-ratelimit-headers-11, or the older ``X-RateLimit-*``, as
``RATELIMIT_RULES_HEADERS`` has it. No number is ever localised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

from django.http.response import HttpResponseBase, ResponseHeaders

from .conf import settings
from .engine import Action, Evaluation, Mode, Result

Results = Mapping[str, Result]


class Policy(NamedTuple):
    """One evaluated limit, under the name that clients see."""

    name: str
    evaluation: Evaluation


class PersonalHeaders(ResponseHeaders):
    """The headers of a response, of which those that speak to one client stay out of pickles: a page that Django's
    cache keeps would otherwise tell everybody where its first reader stood."""

    def __init__(self, data: ResponseHeaders) -> None:
        super().__init__(data)
        self.personal: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.items() if name.lower() not in self.personal}
        return ResponseHeaders, (kept,)


def write_headers(results: Results, response: HttpResponseBase) -> None:
    """Write the headers that a request's results make on its response."""
    found = rate_limit_headers(results)
    if not found:
        return
    if not isinstance(response.headers, PersonalHeaders):
        response.headers = PersonalHeaders(response.headers)
    for name, value in found.items():
        response.headers[name] = value
        response.headers.personal.add(name.lower())


def rate_limit_headers(results: Results) -> dict[str, str]:
    """Return the headers that tell a client where it stands; none when nothing counted, or only rules that never block.

    The most restrictive limit of all limiters is the one that blocked, else the one with the least share left.
    """
    policies = [policy for policies in policies_of(results).values() for policy in policies]
    if not policies:
        return {}
    nearest = min(policies, key=_room)
    if settings.HEADERS == "draft":
        return _draft(policies, nearest)
    return _legacy(nearest.evaluation) if settings.HEADERS == "legacy" else {}


def policies_of(results: Results) -> dict[str, list[Policy]]:
    """Return the evaluated limits of each limiter that enforces. Where two limiters have a rule of one name, the
    limiter stands before it: names must tell policies apart."""
    limits = {
        limiter: [evaluation for evaluation in result.evaluations if evaluation.action is Action.LIMIT]
        for limiter, result in results.items()
        if result.mode is Mode.ENFORCE and not result.error
    }
    uses = Counter(evaluation.rule for of_limiter in limits.values() for evaluation in of_limiter)
    return {
        limiter: [Policy(f"{limiter}:{one.rule}" if uses[one.rule] > 1 else one.rule, one) for one in of_limiter]
        for limiter, of_limiter in limits.items()
    }


def _room(policy: Policy) -> tuple[bool, float]:
    """Order policies by how near they are to blocking; of equals, the first evaluated comes first."""
    _, evaluation = policy
    share = evaluation.remaining / evaluation.limit if evaluation.limit else 0.0
    return evaluation.result != "block", share


def _draft(policies: list[Policy], nearest: Policy) -> dict[str, str]:
    limits = ", ".join(f'"{name}";q={evaluation.limit};w={evaluation.period}' for name, evaluation in policies)
    name, evaluation = nearest
    rest = f'"{name}";r={int(evaluation.remaining)};t={seconds(evaluation.reset_after)}'
    return {"RateLimit-Policy": limits, "RateLimit": rest}


def _legacy(evaluation: Evaluation) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": f"{evaluation.limit}",
        "X-RateLimit-Remaining": f"{int(evaluation.remaining)}",
        "X-RateLimit-Reset": f"{seconds(evaluation.reset_after)}",
    }


def seconds(duration: float) -> int:
    """Return whole seconds, rounded up: a client that waits them has waited long enough."""
    return max(0, ceil(duration))
