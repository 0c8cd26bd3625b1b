"""The description of a rule in one sentence, and the error of a row that is not a valid rule.

Rows go in, safe HTML comes out. No value in the database makes these functions raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ... import engine
from ...engine.values import escape_surrogates
from ...exceptions import InvalidRule
from ...models import Rule, made_of, unknown_properties
from ...runtime.clock import clock
from ...runtime.language import localized


def rule_summary(fields: Mapping[str, Any]) -> SafeString:
    """Return the sentence of a row with these engine fields, whether it is in force, and its problems."""
    try:
        parsed = made_of(fields)
        text = localized(engine.sentence(parsed))
    except InvalidRule as error:
        reason = {"field": error.field, "reason": localized(error.reason)}
        return _problem(_("Out of force, because it cannot be read. %(field)s: %(reason)s") % reason)
    except (TypeError, ValueError, LookupError, RecursionError) as error:
        # A column may have another type than Django wrote. The page must be shown anyway.
        return _problem(_("Out of force, because it cannot be read: %(reason)s") % {"reason": error})
    state = _state(parsed)
    sentence = format_html(
        '<span class="ratelimit-sentence">{}{}</span>',
        format_html('<span class="ratelimit-state">{}</span> ', state) if state else "",
        escape_surrogates(text),
    )
    problems = [f"{field}: {localized(reason)}" for field, reason in unknown_properties(parsed).items()]
    return format_html("{}{}", sentence, format_html_join("", "{}", ((_problem(problem),) for problem in problems)))


def rules_summary(rules: Iterable[Rule], more: int) -> SafeString:
    """Return the summaries of some rules, one per line, and the number of further rules."""
    lines = format_html_join("", "<li>{}</li>", ((rule_summary(rule.engine_fields()),) for rule in rules))
    number = {"number": number_format(more, use_l10n=True, force_grouping=True)}
    remaining = ngettext("and %(number)s more", "and %(number)s more", more) % number
    rest = format_html('<li class="ratelimit-more">{}</li>', remaining) if more > 0 else ""
    return format_html('<ol class="ratelimit-rules">{}{}</ol>', lines, rest) if lines else SafeString("-")


def _state(rule: engine.Rule) -> str:
    if not rule.enabled:
        return _("Disabled:")
    return _("Expired:") if rule.has_expired(clock.moment()) else ""


def _problem(text: str) -> SafeString:
    return format_html('<span class="ratelimit-problem">⚠ {}</span>', escape_surrogates(text))
