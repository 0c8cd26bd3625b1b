"""Draft rules from the rates of another limiter, as YAML with comments about the differences of each rule.

The rates of another limiter go in (see :mod:`contrib.django_ratelimit_rates` and :mod:`contrib.rest_framework_rates`).
YAML comes out for ``ratelimit_plan`` and ``ratelimit_apply``. A rate that cannot be a rule becomes a comment with the
reason. Comments are in English, like all YAML.
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
    """One rule as the fields of an :class:`engine.Rule`, and its differences from the rate that it replaces.

    ``obstacle`` is the reason why it cannot be a rule, or "".
    """

    fields: dict[str, Any]
    differs: list[str]
    obstacle: str = ""


@dataclass(slots=True)
class Draft:
    """One ruleset. ``found`` describes the sources of its calls. ``rules`` are in the order of the old rates."""

    limiter: str
    found: list[str] = field(default_factory=list)
    rules: list[DraftRule] = field(default_factory=list)


def views() -> Iterator[tuple[str, View]]:
    """Yield the pattern and the view of each URL of the project. Imports the views."""
    yield from _views(get_resolver().url_patterns, "")


def _views(patterns: Iterable[Any], before: str) -> Iterator[tuple[str, View]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _views(pattern.url_patterns, route)
        else:
            yield "/" + re.sub(r"[\^$]|\\\\Z", "", route).lstrip("/"), pattern.callback


def name_of(text: str, taken: Collection[str] = ()) -> str:
    """Return a valid name of a limiter or rule that resembles ``text`` and is not in ``taken``."""
    name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()).strip("_")
    stem = (name if name[:1].isalpha() else f"rule_{name}".rstrip("_"))[: MAX_NAME - 4]
    number, free = 1, stem
    while free in taken:
        number += 1
        free = f"{stem}_{number}"
    return free


def write(drafts: Iterable[Draft], heading: Iterable[str]) -> str:
    """Return the YAML. All rulesets are in a dry run, so that applying them blocks no call."""
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
    """Return the rules that can be written, and the rules with an obstacle."""
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
