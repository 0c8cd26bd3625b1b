"""What the admin says about rules in one sentence each, and about rows that read as no rule.

Rows go in, safe HTML comes out; nothing that stands in the database can make these fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ... import engine
from ...engine.values import escape_surrogates
from ...exceptions import InvalidRule
from ...models import Rule, made_of, unknown_properties
from ...runtime.clock import clock


def rule_summary(fields: Mapping[str, Any]) -> SafeString:
    """Return what a row with these engine fields does now: its sentence, whether it is in force, what is wrong."""
    try:
        parsed = made_of(fields)
        text = engine.sentence(parsed)
    except InvalidRule as error:
        return _problem(f"Out of force, because it cannot be read. {error.field}: {error.reason}")
    except (TypeError, ValueError, LookupError, RecursionError) as error:
        # Such as a column of another type than Django wrote: the page must come up all the same.
        return _problem(f"Out of force, because it cannot be read: {error}")
    state = _state(parsed)
    said = format_html(
        '<span class="ratelimit-sentence">{}{}</span>',
        format_html('<span class="ratelimit-state">{}</span> ', state) if state else "",
        escape_surrogates(text),
    )
    problems = [f"{field}: {reason}" for field, reason in unknown_properties(parsed).items()]
    return format_html("{}{}", said, format_html_join("", "{}", ((_problem(problem),) for problem in problems)))


def rules_summary(rules: Iterable[Rule], more: int) -> SafeString:
    """Return the summaries of some rules, one a line, and how many there are besides."""
    lines = format_html_join("", "<li>{}</li>", ((rule_summary(rule.engine_fields()),) for rule in rules))
    rest = format_html('<li class="ratelimit-more">and {} more</li>', more) if more > 0 else ""
    return format_html('<ol class="ratelimit-rules">{}{}</ol>', lines, rest) if lines else SafeString("-")


def _state(rule: engine.Rule) -> str:
    if not rule.enabled:
        return "Disabled:"
    return "Expired:" if rule.has_expired(clock.moment()) else ""


def _problem(text: str) -> SafeString:
    return format_html('<span class="ratelimit-problem">⚠ {}</span>', escape_surrogates(text))
