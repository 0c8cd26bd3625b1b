"""The rate limit headers of an answer.

The results of one request go in, by limiter; header names and values come out, or are written on a response. The
format is that of draft-ietf-httpapi-ratelimit-headers-11, or the older ``X-RateLimit-*``, as
``RATELIMIT_RULES_HEADERS`` has it. No number is ever localised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any

from django.http.response import HttpResponseBase, ResponseHeaders

from .conf import settings
from .engine import Action, Evaluation, Mode, Outcome, Result

Results = Mapping[str, Result]
# One evaluated limit, under the name that clients see.
Policy = tuple[str, Evaluation]

# Looked up once: this module runs for every answer.
LIMIT, ENFORCE, BLOCK = Action.LIMIT, Mode.ENFORCE, Outcome.BLOCK


class PersonalHeaders(ResponseHeaders):
    """The headers of a response, of which those that speak to one client stay out of pickles: a page that Django's
    cache keeps would otherwise tell everybody where its first reader stood."""

    personal: set[str]

    @classmethod
    def of(cls, headers: ResponseHeaders) -> PersonalHeaders:
        """Return headers as these. They share what they hold: writing each anew takes as long as a check in Python."""
        shared = cls.__new__(cls)
        shared.__dict__.update(headers.__dict__, personal=set())
        return shared

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.items() if name not in self.personal}
        return ResponseHeaders, (kept,)


def write_headers(results: Results, response: HttpResponseBase) -> None:
    """Write the headers that a request's results make on its response."""
    found = rate_limit_headers(results)
    if not found:
        return
    headers = response.headers
    if not isinstance(headers, PersonalHeaders):
        headers = response.headers = PersonalHeaders.of(headers)
    for name, value in found.items():
        headers[name] = value
    headers.personal.update(found)


def rate_limit_headers(results: Results) -> dict[str, str]:
    """Return the headers that tell a client where it stands; none when nothing counted, or only rules that never block.

    The most restrictive limit of all limiters is the one that blocked, else the one with the least share left.
    """
    spell = _FORMATS.get(settings.HEADERS)
    if spell is None:
        return {}
    policies = [policy for policies in policies_of(results).values() for policy in policies]
    return spell(policies, min(policies, key=_room)) if policies else {}


def policies_of(results: Results) -> dict[str, list[Policy]]:
    """Return the evaluated limits of each limiter that enforces. Where two limiters have a rule of one name, the
    limiter stands before it: names must tell policies apart."""
    limits = {
        limiter: [(evaluation.rule, evaluation) for evaluation in result.evaluations if evaluation.action is LIMIT]
        for limiter, result in results.items()
        if result.mode is ENFORCE and not result.error
    }
    if len(limits) < 2:
        return limits
    uses = Counter(name for policies in limits.values() for name, _ in policies)
    return {
        limiter: [(f"{limiter}:{name}" if uses[name] > 1 else name, evaluation) for name, evaluation in policies]
        for limiter, policies in limits.items()
    }


def _room(policy: Policy) -> tuple[bool, float]:
    """Order policies by how near they are to blocking; of equals, the first evaluated comes first."""
    _, evaluation = policy
    share = evaluation.remaining / evaluation.limit if evaluation.limit else 0.0
    return evaluation.result is not BLOCK, share


def _draft(policies: list[Policy], nearest: Policy) -> dict[str, str]:
    limits = [f'"{name}";q={evaluation.limit};w={evaluation.period}' for name, evaluation in policies]
    name, evaluation = nearest
    rest = f'"{name}";r={int(evaluation.remaining)};t={seconds(evaluation.reset_after)}'
    return {"RateLimit-Policy": ", ".join(limits), "RateLimit": rest}


def _legacy(_: list[Policy], nearest: Policy) -> dict[str, str]:
    evaluation = nearest[1]
    return {
        "X-RateLimit-Limit": f"{evaluation.limit}",
        "X-RateLimit-Remaining": f"{int(evaluation.remaining)}",
        "X-RateLimit-Reset": f"{seconds(evaluation.reset_after)}",
    }


_FORMATS = {"draft": _draft, "legacy": _legacy}


def seconds(duration: float) -> int:
    """Return whole seconds, rounded up: a client that waits them has waited long enough."""
    return max(0, ceil(duration))
