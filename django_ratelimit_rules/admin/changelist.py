"""The list of rulesets: its columns and its search, in a few queries however long rulesets are.

Rulesets go in, safe HTML comes out.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count, Exists, IntegerField, OuterRef, Prefetch, Q, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import smart_split, unescape_string_literal
from django.utils.timesince import timesince

from ..engine.rules import NAME
from ..models import Rule, Ruleset
from .links import Links
from .ruleset_form.summaries import rules_summary

SUMMARY_RULES = 3


class RulesetList(ChangeList):
    """Rulesets, each with the number of its rules and the few rules that the list shows."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Count in a query of its own: beside a filter by rules, a join would count each rule as often as it fits."""
        if "rule_count" not in self.root_queryset.query.annotations:
            rules = Rule.objects.filter(ruleset=OuterRef("pk")).order_by().values("ruleset")
            number = Subquery(rules.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
            self.root_queryset = self.root_queryset.annotate(rule_count=Coalesce(number, 0))
        # Numbered by their keys alone: sorting whole rows, as a sliced prefetch does, takes most of the page's time.
        place = Window(RowNumber(), partition_by="ruleset", order_by=("position", "pk"))
        shown = Rule.objects.order_by().annotate(place=place).filter(place__lte=SUMMARY_RULES).values("pk")
        first = Prefetch("rules", Rule.objects.filter(pk__in=shown), to_attr="first_rules")
        return super().get_queryset(request, exclude_parameters).prefetch_related(first)


def search(queryset: QuerySet[Any], search_term: str) -> QuerySet[Any]:
    """Return the rulesets that name each word, themselves or in the name of a rule."""
    for word in smart_split(search_term):
        if word.startswith(('"', "'")) and word[0] == word[-1]:
            word = unescape_string_literal(word)
        rule = Exists(Rule.objects.filter(ruleset=OuterRef("pk"), name__icontains=word))
        queryset = queryset.filter(Q(name__icontains=word) | Q(description__icontains=word) | rule)
    return queryset


@admin.display(description="mode", ordering="mode")
def mode_in_short(ruleset: Ruleset) -> SafeString | str:
    """The mode without its explanation. An empty mode enforces. Other modes are highlighted."""
    if ruleset.mode in ("", "enforce"):
        return "enforce"
    return format_html('<strong class="ratelimit-mode">{}</strong>', ruleset.mode.replace("_", " "))


@admin.display(description="rules", ordering="rule_count")
def number_of_rules(ruleset: Any) -> int:
    """How many rules there are, disabled ones included."""
    count: int = ruleset.rule_count
    return count


@admin.display(description="summary")
def summary(ruleset: Any) -> SafeString:
    """The first rules, as sentences."""
    return rules_summary(ruleset.first_rules, ruleset.rule_count - len(ruleset.first_rules))


@admin.display(description="changed", ordering="updated_at")
def changed(ruleset: Ruleset) -> SafeString:
    """How long ago something was changed."""
    when, ago = ruleset.updated_at.isoformat(timespec="seconds"), timesince(ruleset.updated_at, depth=1)
    return format_html('<time datetime="{}" title="{}">{} ago</time>', when, when, ago)


def look(ruleset: Ruleset, links: Links) -> SafeString:
    """Return links to the pages that show what a ruleset does, because operators look for them during an incident."""
    if not NAME.fullmatch(ruleset.name):
        # The list must open in spite of a name that was written past the admin, so that it can be corrected there.
        return format_html("{}", "no limiter's name")
    return format_html(
        '<a href="{}">Live<span class="visually-hidden">: {}</span></a> '
        '<a href="{}">Explain<span class="visually-hidden">: {}</span></a>',
        *(links.to("live", ruleset.name), ruleset.name),
        *(links.to("explain", limiter=ruleset.name), ruleset.name),
    )
