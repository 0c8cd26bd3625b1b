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

from . import rulestext
from .models import Ruleset, RulesetVersion
from .rulestext import Plain, Rulesets
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


@contextmanager
def changing(names: Iterable[str], author: Author) -> Iterator[None]:
    """Keep what the block changes of these rulesets, all or nothing; take it back when the author may not."""
    names = sorted(set(names))
    with transaction.atomic(using=router.db_for_write(Ruleset)):
        before = begin(names)
        yield
        finish(names, before, author)


def begin(names: Iterable[str]) -> dict[str, Plain]:
    """Return what these rulesets say; first keep what was changed behind our back. Needs a transaction."""
    database = router.db_for_write(Ruleset)
    # Whoever changes one of them now waits for whoever does already, so that numbers follow one another.
    list(Ruleset.objects.using(database).select_for_update().filter(name__in=names).order_by("name"))
    before = rulestext.stored(names)
    for name, said in before.items():
        _keep(name, said, None)
    return before


def finish(names: Iterable[str], before: Rulesets, author: Author) -> None:
    """Keep what these rulesets say now. Raises what ``author.allow`` does, for the transaction to be taken back."""
    after = rulestext.stored(names)
    if author.allow:
        author.allow(before, after)
    for name in names:
        _keep(name, after.get(name), author)


def _keep(name: str, said: Plain | None, author: Author | None) -> None:
    database = router.db_for_write(Ruleset)
    versions = RulesetVersion.objects.using(database).filter(ruleset=name)
    latest = versions.order_by("-number").first()
    author = author or Author(action=ELSEWHERE if latest else FIRST)
    text = "" if said is None else rulestext.dump({name: said})
    number = latest.number if latest else 0
    if text != (latest.text if latest else ""):
        number += 1
        versions.create(
            ruleset=name, number=number, user=author.user, action=author.action[:200], reason=author.reason, text=text
        )
    Ruleset.objects.using(database).filter(name=name).exclude(version=number).update(version=number)


def apply(rulesets: Mapping[str, TierRules], author: Author, *, prune: bool = False) -> list[str]:
    """Make the admin tier say this; with ``prune``, nothing else. Return the names of all rulesets spoken of."""
    database = router.db_for_write(Ruleset)
    with transaction.atomic(using=database):
        names = {*rulesets, *(rulestext.stored() if prune else ())}
        with changing(names, author):
            Ruleset.objects.using(database).filter(name__in=names - {*rulesets}).delete()
            rulestext.write(rulesets)
    return sorted(names)


def restore(version: RulesetVersion, author: Author) -> None:
    """Make a ruleset say what it said in a version. Raises InvalidRulesFile for what can no longer be read."""
    text = version.text or "{}"
    rulesets = rulestext.load(text, str(version))
    with changing([version.ruleset], author):
        if not version.text:
            Ruleset.objects.using(router.db_for_write(Ruleset)).filter(name=version.ruleset).delete()
        rulestext.write(rulesets)


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
