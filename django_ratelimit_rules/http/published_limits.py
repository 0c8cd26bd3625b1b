"""The limits that a site publishes for its clients: from the rules in force, as Markdown or OpenAPI.

Limiters go in. Text in the active language comes out. It has the limits that block, with their numbers. It leaves out
skip rules, log rules, rulesets that do not enforce, the notes of a rule, and the values of conditions. Only methods and
"signed in" are spelled out. Other conditions become "for some requests". The rule's name is then left out too, because
it may name the clients it was made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext as _

from .. import rulesets
from ..engine import (
    Action,
    Mode,
    Rule,
)
from ..engine.durations import spell_duration, spell_rate
from ..engine.properties import base_of, split
from ..identifiers import registry
from ..rulesets import limiter_names
from ..runtime.language import grouped, localized
from .headers import descriptions

SOME = gettext_noop("for some requests")


@dataclass(frozen=True, slots=True)
class PublicLimit:
    """One limit, in words and numbers.

    A limit or period of None depends on the caller. A rule of None is not named.
    """

    limiter: str
    rule: str | None
    limit: int | None
    period: int | None
    per: tuple[str, ...]
    algorithm: str
    terms: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """``30 per minute per client address; for POST requests``, in the active language."""
        if self.limit == 0:
            return "; ".join((_("nothing passes"), *self.terms))
        number = _("a number that depends on the caller") if self.limit is None else grouped(self.limit)
        period = _("a period that depends on the caller") if self.period is None else localized(spell_rate(self.period))
        values = {"number": number, "period": period, "clients": ", ".join(self.per)}
        if self.per:
            return "; ".join((_("%(number)s per %(period)s per %(clients)s") % values, *self.terms))
        return "; ".join((_("%(number)s per %(period)s for all clients together") % values, *self.terms))


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
            # No request reaches the rules after it.
            break
        if rule.action is Action.LIMIT:
            found.append(_published(limiter, rule))
    # A rule that blocks some clients for good is published to no one else.
    return [limit for limit in found if limit.limit != 0 or gettext(SOME) not in limit.terms]


def _published(limiter: str, rule: Rule) -> PublicLimit:
    terms = tuple(_terms(rule))
    return PublicLimit(
        limiter,
        None if gettext(SOME) in terms else rule.name,
        limit=rule.limit if isinstance(rule.limit, int) else None,
        period=rule.period if isinstance(rule.period, int) else None,
        per=tuple(map(_characteristic, rule.characteristics)),
        algorithm=rule.algorithm.value,
        terms=terms,
    )


def _characteristic(name: str) -> str:
    base = base_of(name)
    public = registry.facts_of(base).public
    return gettext(public).format(split(base)[1]) if public else base.replace("_", " ")


def _terms(rule: Rule) -> Iterable[str]:
    """Yield the other facts that clients need: when the limit applies, and the effect of exceeding it."""
    if not rule.matcher.always:
        yield _condition(rule.match)
    if rule.count_distinct:
        yield _("counts different values of %(property)s") % {"property": _characteristic(rule.count_distinct)}
    if rule.response is not None:
        failed = rule.response == {"login": "failed"}
        yield _("counts failed sign-ins only") if failed else _("counts certain responses only")
    if rule.ban_for:
        yield _("clients over the limit are blocked for %(time)s") % {"time": localized(spell_duration(rule.ban_for))}
    if rule.algorithm.public_note:
        yield localized(rule.algorithm.public_note)


def _condition(match: Any) -> str:
    if not isinstance(match, Mapping) or not set(match) <= {"method", "is_authenticated"}:
        return gettext(SOME)
    phrases = []
    if "method" in match:
        methods = match["method"] if isinstance(match["method"], (list, tuple)) else [match["method"]]
        if not all(isinstance(method, str) for method in methods):
            return gettext(SOME)
        phrases.append(_("for %(methods)s requests") % {"methods": ", ".join(methods)})
    if "is_authenticated" in match:
        if match["is_authenticated"] not in (True, False):
            return gettext(SOME)
        phrases.append(_("signed in") if match["is_authenticated"] else _("not signed in"))
    return ", ".join(phrases)


def as_markdown(limits: Iterable[PublicLimit]) -> str:
    """Return a section for a site's documentation."""
    rows = [f"| `{limit.limiter}` | {f'`{limit.rule}`' if limit.rule else ''} | {limit.sentence} |" for limit in limits]
    head = [f"| {_('limiter')} | {_('name')} | {_('limit')} |", "|---|---|---|"]
    lines = [
        f"## {_('Rate limits')}",
        "",
        *([*head, *rows] if rows else [_("There are no rate limits.")]),
        "",
        _("A request over a limit is answered with status 429. Headers:"),
        "",
        *(f"- `{name}`: {text}" for name, text in descriptions().items()),
        f"- `Retry-After`: {_('On blocked requests: the seconds to wait. Absent if waiting does not help.')}",
    ]
    return "\n".join(lines) + "\n"


def as_openapi(limits: Iterable[PublicLimit]) -> str:
    """Return a fragment of an OpenAPI 3.1 document in YAML: headers, responses 429 and 503, and ``x-rate-limits``."""
    headers: dict[str, Any] = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in descriptions().items()
    }
    wait = _("The seconds to wait. Absent if waiting does not help.")
    headers["Retry-After"] = {"description": wait, "schema": {"type": "integer", "minimum": 1}}
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
        "info": {"title": _("Rate limits"), "version": "1"},
        "components": {
            "headers": headers,
            "schemas": {"RateLimitProblem": problem},
            "responses": {
                "TooManyRequests": {"description": _("Over a rate limit."), "headers": sent, "content": content},
                "RateLimitUnavailable": {
                    "description": _(
                        "Limits cannot be checked at the moment. The limiter blocks all requests meanwhile."
                    ),
                    "headers": {"Retry-After": sent["Retry-After"]},
                    "content": content,
                },
            },
        },
        "x-rate-limits": [_as_plain(limit) for limit in limits],
    }
    return yaml.dump(fragment, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes a value in two places twice, because some readers of OpenAPI do not know aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that no alias is written."""
        return True


def _as_plain(limit: PublicLimit) -> dict[str, Any]:
    plain = {
        "limiter": limit.limiter,
        "name": limit.rule,
        "limit": limit.limit,
        "period": limit.period,
        "per": list(limit.per),
        "algorithm": limit.algorithm,
        "description": limit.sentence,
    }
    return {name: value for name, value in plain.items() if value is not None}
