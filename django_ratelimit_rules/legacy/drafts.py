"""Draft rules from what another limiter was told, as YAML that says beside each rule what differs.

What a reader of another limiter's rates found goes in (see :mod:`contrib.django_ratelimit_rates` and
:mod:`contrib.rest_framework_rates`); a text comes out that ``ratelimit_plan`` and ``ratelimit_apply`` read. What cannot
be written as a rule stands in it as a comment, with the reason.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import get_resolver

from ..engine import Rule
from ..engine.durations import format_duration
from ..exceptions import InvalidRule
from ..rulesets import text as ruleset_text
from ..rulesets import yaml_writer

WIDTH = 120
MAX_NAME = 64
View = Callable[..., Any]


@dataclass(slots=True)
class DraftRule:
    """One rule: the fields of an :class:`engine.Rule`, what differs from before, and what is still in its way."""

    fields: dict[str, Any]
    differs: list[str]
    obstacle: str = ""


@dataclass(slots=True)
class Draft:
    """One ruleset: where its calls come from, in ``found``, and its rules in the order they were asked in."""

    limiter: str
    found: list[str] = field(default_factory=list)
    rules: list[DraftRule] = field(default_factory=list)


def views() -> Iterator[tuple[str, View]]:
    """Yield every view of the project's URLs with its pattern; imports the views."""
    yield from _views(get_resolver().url_patterns, "")


def _views(patterns: Iterable[Any], before: str) -> Iterator[tuple[str, View]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _views(pattern.url_patterns, route)
        else:
            yield "/" + re.sub(r"[\^$]|\\\\Z", "", route).lstrip("/"), pattern.callback


def name_of(text: str, taken: Collection[str] = ()) -> str:
    """Return a limiter's or rule's name that is like a text, and none of those taken."""
    name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()).strip("_")
    stem = (name if name[:1].isalpha() else f"rule_{name}".rstrip("_"))[: MAX_NAME - 4]
    number, free = 1, stem
    while free in taken:
        number += 1
        free = f"{stem}_{number}"
    return free


def write(drafts: Iterable[Draft], heading: Iterable[str]) -> str:
    """Return the text. All rulesets are drafts in a dry run: applying them refuses nobody."""
    opening = "".join(_comment(paragraph, "") for paragraph in heading)
    ordered = sorted(drafts, key=lambda draft: draft.limiter)
    return "\n".join([opening, *("".join(_ruleset(draft)) for draft in ordered)])


def _ruleset(draft: Draft) -> Iterator[str]:
    yield from (_comment(line, "") for line in draft.found)
    sound, others = _apart(draft.rules)
    written = [_comments(rule) + yaml_writer.rules([_plain(rule)]) for rule in sound]
    yield yaml_writer.with_rules(draft.limiter, {"mode": "dry_run"}, "".join(written))
    if others and not sound:
        yield "  # rules:\n"
    for rule in others:
        yield _comment(f"Not written: {rule.obstacle}", "    ")
        yield _comments(rule)
        spelled = {name: format_duration(value) if name == "period" else value for name, value in rule.fields.items()}
        yield from (f"    # {line[4:]}\n" for line in yaml_writer.rules([spelled]).splitlines())


def _apart(rules: Iterable[DraftRule]) -> tuple[list[DraftRule], list[DraftRule]]:
    """Return the rules that can be written, and those that something is in the way of."""
    sound: list[DraftRule] = []
    others: list[DraftRule] = []
    for rule in rules:
        if not rule.obstacle:
            try:
                ruleset_text.check(Rule(**rule.fields))
            except (InvalidRule, TypeError, ValueError) as error:
                rule.obstacle = str(error)
        (others if rule.obstacle else sound).append(rule)
    return sound, others


def _plain(rule: DraftRule) -> dict[str, Any]:
    return ruleset_text.rule_of(Rule(**rule.fields))


def _comments(rule: DraftRule) -> str:
    return "".join(_comment(note, "    ") for note in rule.differs)


def _comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(text, WIDTH - len(indent) - 2, break_long_words=False) or [""]
    return "".join(f"{indent}# {line}".rstrip() + "\n" for line in lines)
