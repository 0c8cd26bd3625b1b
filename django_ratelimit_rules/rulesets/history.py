"""Versions of rulesets: every change through the app is kept, with who, when and why, and can be taken back.

Changes happen inside :func:`changing`, which compares the admin tier before and after, lets the author's permissions
decide, and keeps what differs. What was changed behind its back is kept as well, as nobody's, before the next change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import yaml
from django.db import router, transaction
from django.db.models import OuterRef, Subquery

from ..models import Ruleset, RulesetVersion
from . import text as ruleset_text
from .text import Plain, Rulesets
from .tiers import TierRules

# Many times faster where libyaml is there; both read what we wrote alike.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Where a rule starts in what rulestext writes: no other line does so, as texts stand on one line each.
_RULE = re.compile("^(?=    - )", re.MULTILINE)

FIRST = "as it was before versions were kept"
ELSEWHERE = "found changed, neither by the admin nor by ratelimit_apply"


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, what they do, and why. ``allow`` raises when they may not lead one state to the other."""

    user: str = ""
    action: str = ""
    reason: str = ""
    allow: Callable[[Rulesets, Rulesets], None] | None = None


@dataclass(slots=True)
class Begun:
    """What rulesets said before a change, and the latest version of each that has any."""

    said: dict[str, Plain]
    latest: dict[str, RulesetVersion]


@contextmanager
def changing(names: Iterable[str], author: Author) -> Iterator[None]:
    """Keep what the block changes of these rulesets, all or nothing; take it back when the author may not."""
    names = sorted(set(names))
    with transaction.atomic(using=router.db_for_write(Ruleset)):
        begun = begin(names)
        yield
        finish(names, begun, author)


def begin(names: Iterable[str]) -> Begun:
    """Return what these rulesets say; first keep what was changed behind our back. Needs a transaction."""
    names = list(names)
    # Whoever changes one of them now waits for whoever does already, so that numbers follow one another.
    rows = list(ruleset_text.rows(names).select_for_update())
    versions = RulesetVersion.objects.using(router.db_for_write(Ruleset)).filter(ruleset__in=names)
    newest = versions.filter(ruleset=OuterRef("ruleset")).order_by("-number").values("number")[:1]
    latest = {version.ruleset: version for version in versions.filter(number=Subquery(newest))}
    begun = Begun({row.name: ruleset_text.of_row(row) for row in rows}, latest)
    for row in rows:
        author = Author(action=ELSEWHERE if row.name in latest else FIRST)
        _keep(row.name, begun.said[row.name], author, latest)
        _number(row, latest)
    return begun


def finish(names: Iterable[str], begun: Begun, author: Author) -> None:
    """Keep what these rulesets say now. Raises what ``author.allow`` does, for the transaction to be taken back."""
    rows = {row.name: row for row in ruleset_text.rows(names)}
    after = {name: ruleset_text.of_row(row) for name, row in rows.items()}
    if author.allow:
        author.allow(begun.said, after)
    for name in names:
        _keep(name, after.get(name), author, begun.latest)
        if name in rows:
            _number(rows[name], begun.latest)


def _keep(name: str, said: Plain | None, author: Author, latest: dict[str, RulesetVersion]) -> None:
    """Make a version of what a ruleset says, unless the latest says the same."""
    text = "" if said is None else ruleset_text.dump({name: said})
    before = latest.get(name)
    if text != (before.text if before else ""):
        latest[name] = RulesetVersion.objects.using(router.db_for_write(Ruleset)).create(
            ruleset=name,
            number=before.number + 1 if before else 1,
            user=author.user,
            action=author.action[:200],
            reason=author.reason,
            text=text,
        )


def _number(row: Ruleset, latest: Mapping[str, RulesetVersion]) -> None:
    """Tell a ruleset's row the number of its latest version."""
    number = latest[row.name].number
    if row.version != number:
        Ruleset.objects.using(router.db_for_write(Ruleset)).filter(pk=row.pk).update(version=number)


def apply(rulesets: Mapping[str, TierRules], author: Author, *, prune: bool = False) -> list[str]:
    """Make the admin tier say this; with ``prune``, nothing else. Return the names of all rulesets spoken of."""
    database = router.db_for_write(Ruleset)
    with transaction.atomic(using=database):
        names = {*rulesets, *(ruleset_text.stored() if prune else ())}
        with changing(names, author):
            Ruleset.objects.using(database).filter(name__in=names - {*rulesets}).delete()
            ruleset_text.write(rulesets)
    return sorted(names)


def restore(version: RulesetVersion, author: Author) -> None:
    """Make a ruleset say what it said in a version. Raises InvalidRulesFile for what can no longer be read."""
    text = version.text or "{}"
    rulesets = ruleset_text.load(text, str(version))
    with changing([version.ruleset], author):
        if not version.text:
            Ruleset.objects.using(router.db_for_write(Ruleset)).filter(name=version.ruleset).delete()
        ruleset_text.write(rulesets)


def plain(version: RulesetVersion | None) -> dict[str, Plain]:
    """Return what a version says, unchecked; nothing for a deleted ruleset."""
    head, *rules = _RULE.split(version.text if version else "")
    said: dict[str, Plain] = yaml.load(head, _Loader) or {}
    for ruleset in said.values():
        if rules:
            ruleset["rules"] = [_rule(rule) for rule in rules]
    return said


@lru_cache(maxsize=5000)
def _rule(text: str) -> Plain:
    """Return one rule of a text; most rules say the same from version to version. Shared: not to be changed."""
    (rule,) = yaml.load(text, _Loader)
    return cast(Plain, rule)
