"""The list of rulesets: its columns and its search, in a few queries for any number of rules.

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
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..engine.rules import NAME
from ..models import Rule, Ruleset
from .links import Links
from .ruleset_form.summaries import rules_summary

SUMMARY_RULES = 3


class RulesetList(ChangeList):
    """Rulesets, each with the number of its rules and the first rules for the summary."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return the rulesets, with their rules counted in a subquery.

        A join would count a rule once for each match of a filter by rules.
        """
        if "rule_count" not in self.root_queryset.query.annotations:
            rules = Rule.objects.filter(ruleset=OuterRef("pk")).order_by().values("ruleset")
            number = Subquery(rules.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
            self.root_queryset = self.root_queryset.annotate(rule_count=Coalesce(number, 0))
        # Number the rules by their keys only. A sliced prefetch sorts whole rows, which takes most of the page's time.
        place = Window(RowNumber(), partition_by="ruleset", order_by=("position", "pk"))
        shown = Rule.objects.order_by().annotate(place=place).filter(place__lte=SUMMARY_RULES).values("pk")
        first = Prefetch("rules", Rule.objects.filter(pk__in=shown), to_attr="first_rules")
        return super().get_queryset(request, exclude_parameters).prefetch_related(first)


def search(queryset: QuerySet[Any], search_term: str) -> QuerySet[Any]:
    """Return the rulesets that contain each word in their name, their description or the name of a rule."""
    for word in smart_split(search_term):
        if word.startswith(('"', "'")) and word[0] == word[-1]:
            word = unescape_string_literal(word)
        rule = Exists(Rule.objects.filter(ruleset=OuterRef("pk"), name__icontains=word))
        queryset = queryset.filter(Q(name__icontains=word) | Q(description__icontains=word) | rule)
    return queryset


@admin.display(description=gettext_lazy("mode"), ordering="mode")
def mode_in_short(ruleset: Ruleset) -> SafeString | str:
    """Return the mode. An empty mode enforces. Modes other than enforce are highlighted."""
    if ruleset.mode in ("", "enforce"):
        return _("enforce")
    label = {"dry_run": _("dry run"), "off": _("off")}.get(ruleset.mode, ruleset.mode)
    return format_html('<strong class="ratelimit-mode">{}</strong>', label)


@admin.display(description=gettext_lazy("rules"), ordering="rule_count")
def number_of_rules(ruleset: Any) -> int:
    """Return the number of rules, including disabled rules."""
    count: int = ruleset.rule_count
    return count


@admin.display(description=gettext_lazy("summary"))
def summary(ruleset: Any) -> SafeString:
    """Return the first rules, as sentences."""
    return rules_summary(ruleset.first_rules, ruleset.rule_count - len(ruleset.first_rules))


@admin.display(description=gettext_lazy("changed"), ordering="updated_at")
def changed(ruleset: Ruleset) -> SafeString:
    """Return the time since the last change."""
    when, ago = ruleset.updated_at.isoformat(timespec="seconds"), timesince(ruleset.updated_at, depth=1)
    return format_html('<time datetime="{}" title="{}">{}</time>', when, when, _("%(time)s ago") % {"time": ago})


def look(ruleset: Ruleset, links: Links) -> SafeString:
    """Return links to the pages that show the effect of a ruleset, because operators need them during an incident."""
    if not NAME.fullmatch(ruleset.name):
        # A name written by SQL may not be valid. The list must open all the same, because names are corrected there.
        return format_html("{}", _("not a valid name for a limiter"))
    return format_html(
        '<a href="{}">{}<span class="visually-hidden">: {}</span></a> '
        '<a href="{}">{}<span class="visually-hidden">: {}</span></a>',
        *(links.to("live", ruleset.name), _("Live"), ruleset.name),
        *(links.to("explain", limiter=ruleset.name), _("Explain"), ruleset.name),
    )
