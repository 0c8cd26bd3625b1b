"""The limits that a site tells its clients about: from the rules in force, as Markdown or OpenAPI.

Limiters go in, a text comes out. Told is what a client meets: limits that block, with their numbers. Not told are skip
rules, log rules, rulesets that do not enforce, what people noted about a rule, and the values of conditions: of those
only methods and "signed in" are spelled out, others read "for some requests", and the rule's name, which may tell for
whom it was made, is left out too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from .. import rulesets
from ..conf import settings
from ..engine import (
    Action,
    Mode,
    Rule,
)
from ..engine.durations import spell_duration, spell_rate
from ..engine.properties import base_of, split
from ..identifiers import registry
from ..rulesets import limiter_names

DRAFT = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/"
HEADERS: dict[str, dict[str, str]] = {
    "draft": {
        "RateLimit-Policy": f"The limits that this request met: name, quota q, window w in seconds ({DRAFT}).",
        "RateLimit": "The limit nearest to blocking: what remains r, and seconds t until it is full again.",
    },
    "legacy": {
        "X-RateLimit-Limit": "The limit nearest to blocking.",
        "X-RateLimit-Remaining": "What remains of it.",
        "X-RateLimit-Reset": "Seconds until it is full again.",
    },
}
SOME = "for some requests"
RETRY_AFTER = "Seconds to wait; absent when waiting would not help."


@dataclass(frozen=True, slots=True)
class PublicLimit:
    """One limit, in words and numbers; a limit or period of None depends on the caller, a rule of None is not named."""

    limiter: str
    rule: str | None
    limit: int | None
    period: int | None
    per: tuple[str, ...]
    algorithm: str
    terms: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """``30 per minute per client address; for POST requests``."""
        if self.limit == 0:
            return "; ".join(("nothing passes", *self.terms))
        number = "a number that depends on the caller" if self.limit is None else f"{self.limit:,}"
        period = "a period that depends on the caller" if self.period is None else spell_rate(self.period)
        whom = " per " + ", ".join(self.per) if self.per else " for all clients together"
        return "; ".join((f"{number} per {period}{whom}", *self.terms))


def public_limits(limiters: Iterable[str] = ()) -> list[PublicLimit]:
    """Return the limits of these limiters, or of all, in alphabetical order and then that of their evaluation.

    Raises LookupError for a name that is no limiter's.
    """
    return [limit for name in limiter_names.chosen(limiters) for limit in _of_limiter(name)]


def _of_limiter(limiter: str) -> list[PublicLimit]:
    ruleset = rulesets.get(limiter)
    if ruleset.mode is not Mode.ENFORCE:
        return []
    found = []
    for rule in ruleset.rules:
        if rule.action is Action.SKIP and rule.matcher.always:
            # Nobody meets what stands behind it.
            break
        if rule.action is Action.LIMIT:
            found.append(_told(limiter, rule))
    # Whom a rule lets nothing through for is nobody else's business.
    return [limit for limit in found if limit.limit != 0 or SOME not in limit.terms]


def _told(limiter: str, rule: Rule) -> PublicLimit:
    terms = tuple(_terms(rule))
    return PublicLimit(
        limiter,
        None if SOME in terms else rule.name,
        limit=rule.limit if isinstance(rule.limit, int) else None,
        period=rule.period if isinstance(rule.period, int) else None,
        per=tuple(map(_characteristic, rule.characteristics)),
        algorithm=rule.algorithm.value,
        terms=terms,
    )


def _characteristic(name: str) -> str:
    base = base_of(name)
    public = registry.facts_of(base).public
    return public.format(split(base)[1]) if public else base.replace("_", " ")


def _terms(rule: Rule) -> Iterable[str]:
    """Yield what else a client should know: when the limit applies, and what exceeding it brings."""
    if not rule.matcher.always:
        yield _condition(rule.match)
    if rule.count_distinct:
        yield f"counts different values of {_characteristic(rule.count_distinct)}"
    if rule.response is not None:
        yield "counts failed sign-ins only" if rule.response == {"login": "failed"} else "counts certain answers only"
    if rule.ban_for:
        yield f"whoever goes over it is refused for {spell_duration(rule.ban_for)}"
    if rule.algorithm.public_note:
        yield rule.algorithm.public_note


def _condition(match: Any) -> str:
    if not isinstance(match, Mapping) or not set(match) <= {"method", "is_authenticated"}:
        return SOME
    said = []
    if "method" in match:
        methods = match["method"] if isinstance(match["method"], (list, tuple)) else [match["method"]]
        if not all(isinstance(method, str) for method in methods):
            return SOME
        said.append(f"for {', '.join(methods)} requests")
    if "is_authenticated" in match:
        if match["is_authenticated"] not in (True, False):
            return SOME
        said.append("signed in" if match["is_authenticated"] else "not signed in")
    return ", ".join(said)


def as_markdown(limits: Iterable[PublicLimit]) -> str:
    """Return a section to put into a site's documentation."""
    rows = [f"| `{limit.limiter}` | {f'`{limit.rule}`' if limit.rule else ''} | {limit.sentence} |" for limit in limits]
    headers = {
        **HEADERS.get(settings.HEADERS, {}),
        "Retry-After": f"On refusals: {RETRY_AFTER[0].lower()}{RETRY_AFTER[1:]}",
    }
    lines = [
        "## Rate limits",
        "",
        *(["| what | name | limit |", "|---|---|---|", *rows] if rows else ["There are no rate limits."]),
        "",
        "A request over a limit is answered with status 429. Headers:",
        "",
        *(f"- `{name}`: {text}" for name, text in headers.items()),
    ]
    return "\n".join(lines) + "\n"


def as_openapi(limits: Iterable[PublicLimit]) -> str:
    """Return a fragment of an OpenAPI 3.1 document in YAML: headers, the answers 429 and 503, and ``x-rate-limits``."""
    names = HEADERS.get(settings.HEADERS, {})
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in names.items()}
    headers["Retry-After"] = {"description": RETRY_AFTER, "schema": {"type": "integer", "minimum": 1}}
    problem = {
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "violated-policies": {"type": "array", "items": {"type": "string"}},
        },
    }
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/RateLimitProblem"}}}
    sent = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    fragment = {
        "openapi": "3.1.0",
        "info": {"title": "Rate limits", "version": "1"},
        "components": {
            "headers": headers,
            "schemas": {"RateLimitProblem": problem},
            "responses": {
                "TooManyRequests": {"description": "Over a rate limit.", "headers": sent, "content": content},
                "RateLimitUnavailable": {
                    "description": "Limits cannot be checked at the moment, and the limiter refuses meanwhile.",
                    "headers": {"Retry-After": sent["Retry-After"]},
                    "content": content,
                },
            },
        },
        "x-rate-limits": [_as_plain(limit) for limit in limits],
    }
    return yaml.dump(fragment, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes out what stands in two places, instead of naming it once: not every reader of OpenAPI knows aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Use none."""
        return True


def _as_plain(limit: PublicLimit) -> dict[str, Any]:
    said = {
        "limiter": limit.limiter,
        "name": limit.rule,
        "limit": limit.limit,
        "period": limit.period,
        "per": list(limit.per),
        "algorithm": limit.algorithm,
        "description": limit.sentence,
    }
    return {name: value for name, value in said.items() if value is not None}
