"""The rate limit headers of an answer.

The results of one request go in, by limiter. Header names and values come out, or are written on a response.
``RATELIMIT_RULES_HEADERS`` chooses the format: draft-ietf-httpapi-ratelimit-headers-11, or the older ``X-RateLimit-*``.
Numbers are never localised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, NamedTuple

from django.http.response import HttpResponseBase, ResponseHeaders
from django.utils.translation import gettext, gettext_noop

from ..conf import settings
from ..engine import (
    Action,
    Evaluation,
    Mode,
    Outcome,
    Result,
)

Results = Mapping[str, Result]
# One evaluated limit, under the name that clients see, and its limiter.
Policy = tuple[str, Evaluation, str]

# Looked up once: this module runs for every answer.
LIMIT, ENFORCE, BLOCK = Action.LIMIT, Mode.ENFORCE, Outcome.BLOCK


class PersonalHeaders(ResponseHeaders):
    """The headers of a response. Headers about one client stay out of pickles.

    Otherwise a page in Django's cache would show the remaining calls of its first reader to all later readers.
    """

    personal: set[str]

    @classmethod
    def of(cls, headers: ResponseHeaders) -> PersonalHeaders:
        """Return personal headers that share the storage of others, because copying them takes as long as a check."""
        shared = cls.__new__(cls)
        shared.__dict__.update(headers.__dict__, personal=set())
        return shared

    def add_personal(self, headers: Mapping[str, str]) -> None:
        """Set headers made by this app. Django's check for forbidden characters is not needed for them."""
        for name, value in headers.items():
            self._store[name.lower()] = (name, value)
        self.personal.update(headers)

    def items(self) -> Any:
        """Return names and values as they are stored, because a Mapping's own view looks up every name again.

        Django iterates over them for each response that it sends.
        """
        return self._store.values()

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.items() if name not in self.personal}
        return ResponseHeaders, (kept,)


def write_headers(results: Results, response: HttpResponseBase) -> None:
    """Write the headers of a request's results on its response."""
    found = rate_limit_headers(results)
    if not found:
        return
    headers = response.headers
    # Not isinstance(): for a Mapping it asks the abstract base class, which is slow.
    if type(headers) is not PersonalHeaders:
        headers = response.headers = PersonalHeaders.of(headers)
    headers.add_personal(found)


def rate_limit_headers(results: Results) -> dict[str, str]:
    """Return the headers about a client's limits. Returns none if nothing counted, or only rules that never block.

    The most restrictive limit of all limiters is the one that blocked, else the one with the least share left.
    """
    chosen = FORMATS.get(settings.HEADERS)
    policies = policies_of(results) if chosen else None
    return chosen.write(policies) if chosen and policies else {}


def policies_of(results: Results) -> list[Policy]:
    """Return the evaluated limits of all limiters that enforce.

    The limiter's name comes before a rule's name that two limiters use, because names must be unique.
    """
    policies: list[Policy] = []
    for limiter, result in results.items():
        if result.mode is ENFORCE and not result.error:
            policies += [(one.rule, one, limiter) for one in result.evaluations if one.action is LIMIT]
    if len(results) == 1:
        return policies
    uses = Counter(name for name, _, _ in policies)
    return [(f"{limiter}:{name}" if uses[name] > 1 else name, one, limiter) for name, one, limiter in policies]


def _nearest(policies: list[Policy]) -> Policy:
    """Return the policy nearest to blocking: one that blocked, else the least share left. The first of equals wins."""
    nearest, least = policies[0], 2.0
    for policy in policies:
        evaluation = policy[1]
        share = evaluation.remaining / evaluation.limit if evaluation.limit else 0.0
        if evaluation.result is BLOCK:
            share -= 2
        if share < least:
            nearest, least = policy, share
    return nearest


def _draft(policies: list[Policy]) -> dict[str, str]:
    name, evaluation, _ = _nearest(policies)
    limits = [f'"{policy}";q={of.limit};w={of.period}' for policy, of, _ in policies]
    rest = f'"{name}";r={int(evaluation.remaining)};t={seconds(evaluation.reset_after)}'
    return {"RateLimit-Policy": ", ".join(limits), "RateLimit": rest}


def _legacy(policies: list[Policy]) -> dict[str, str]:
    evaluation = _nearest(policies)[1]
    return {
        "X-RateLimit-Limit": f"{evaluation.limit}",
        "X-RateLimit-Remaining": f"{int(evaluation.remaining)}",
        "X-RateLimit-Reset": f"{seconds(evaluation.reset_after)}",
    }


class Format(NamedTuple):
    """A format of the headers: the function that writes them, and their descriptions by name."""

    write: Callable[[list[Policy]], dict[str, str]]
    descriptions: Mapping[str, str]


DRAFT = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/"
# By the value of RATELIMIT_RULES_HEADERS.
FORMATS = {
    "draft": Format(
        _draft,
        {
            "RateLimit-Policy": gettext_noop(
                "The limits that this request met: name, quota q, window w in seconds (%(draft)s)."
            ),
            "RateLimit": gettext_noop(
                "The limit nearest to blocking: the remaining calls r, and the seconds t until it is full again."
            ),
        },
    ),
    "legacy": Format(
        _legacy,
        {
            "X-RateLimit-Limit": gettext_noop("The limit nearest to blocking."),
            "X-RateLimit-Remaining": gettext_noop("The remaining calls of this limit."),
            "X-RateLimit-Reset": gettext_noop("Seconds until it is full again."),
        },
    ),
}


def descriptions() -> dict[str, str]:
    """Return the headers of the configured format with their descriptions, in the active language."""
    chosen = FORMATS.get(settings.HEADERS)
    texts = chosen.descriptions if chosen else {}
    return {name: gettext(text) % {"draft": DRAFT} for name, text in texts.items()}


def seconds(duration: float) -> int:
    """Return whole seconds, rounded up, so that a client that waits them has waited long enough."""
    return max(0, ceil(duration))
