"""Versions of rulesets: every change through the app is kept, with who, when and why, and can be taken back.

Changes happen inside :func:`changing`, which compares the admin tier before and after, lets the author's permissions
decide, and keeps what differs. What was changed behind its back is kept as well, as nobody's, before the next change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import router, transaction
from django.db.models import OuterRef, Subquery

from ..models import Ruleset, RulesetVersion, announced_once
from . import text as ruleset_text
from . import yaml_writer
from .text import Plain, PlainForms, Rulesets
from .tiers import TierRules

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
class Change:
    """One change of rulesets: their plain forms before and after it, and the latest version of each that has any.

    ``forms`` holds what was converted, so that a rule is converted once for each state that it is in.
    """

    before: dict[str, Plain]
    latest: dict[str, RulesetVersion]
    forms: PlainForms = field(default_factory=PlainForms)
    after: dict[str, Plain] = field(default_factory=dict)


@contextmanager
def changing(names: Iterable[str], author: Author) -> Iterator[None]:
    """Keep what the block changes of these rulesets, all or nothing; take it back when the author may not."""
    names = sorted(set(names))
    with transaction.atomic(using=router.db_for_write(Ruleset)), announced_once():
        change = begin(names)
        yield
        finish(names, change, author)


def begin(names: Iterable[str], forms: PlainForms | None = None) -> Change:
    """Return the change of these rulesets that begins now, after keeping what was changed behind our back.

    Needs a transaction. ``forms`` are those that the caller has made already.
    """
    names = list(names)
    forms = PlainForms() if forms is None else forms
    # Whoever changes one of them now waits for whoever does already, so that numbers follow one another.
    rows = list(ruleset_text.rows(names).select_for_update())
    versions = RulesetVersion.objects.using(router.db_for_write(Ruleset)).filter(ruleset__in=names)
    newest = versions.filter(ruleset=OuterRef("ruleset")).order_by("-number").values("number")[:1]
    latest = {version.ruleset: version for version in versions.filter(number=Subquery(newest))}
    change = Change({row.name: forms.of_row(row) for row in rows}, latest, forms)
    for row in rows:
        author = Author(action=ELSEWHERE if row.name in latest else FIRST)
        _keep(row.name, change.before[row.name], author, latest)
        _number(row, latest)
    return change


def finish(names: Iterable[str], change: Change, author: Author) -> None:
    """Keep what these rulesets say now. Raises what ``author.allow`` does, for the transaction to be taken back."""
    rows = {row.name: row for row in ruleset_text.rows(names)}
    change.after = {name: change.forms.of_row(row) for name, row in rows.items()}
    if author.allow:
        author.allow(change.before, change.after)
    for name in names:
        _keep(name, change.after.get(name), author, change.latest)
        if name in rows:
            _number(rows[name], change.latest)


def _keep(name: str, plain: Plain | None, author: Author, latest: dict[str, RulesetVersion]) -> None:
    """Make a version of a ruleset's plain form, unless the latest has the same."""
    before = latest.get(name)
    if plain is None and (before is None or _is_deletion(before)):
        return
    if before is None or before.unreadable or not ruleset_text.same(plain, before.content):
        latest[name] = RulesetVersion.objects.using(router.db_for_write(Ruleset)).create(
            ruleset=name,
            number=before.number + 1 if before else 1,
            user=author.user,
            action=author.action[:200],
            reason=author.reason,
            content=plain,
        )


def _is_deletion(version: RulesetVersion) -> bool:
    return version.content is None and not version.unreadable


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
    rulesets = tiers(version)
    with changing([version.ruleset], author):
        if _is_deletion(version):
            Ruleset.objects.using(router.db_for_write(Ruleset)).filter(name=version.ruleset).delete()
        ruleset_text.write(rulesets)


def tiers(version: RulesetVersion) -> dict[str, TierRules]:
    """Return the rules of a version, to be written. Raises InvalidRulesFile for what can no longer be read."""
    if version.unreadable:
        return ruleset_text.load(version.unreadable, str(version))
    return ruleset_text.read_plain(plain(version), str(version))


def plain(version: RulesetVersion | None) -> dict[str, Plain]:
    """Return what a version says, unchecked; nothing for a deleted ruleset, and for a text that cannot be read."""
    return {} if version is None or version.content is None else {version.ruleset: version.content}


def as_texts(versions: Iterable[RulesetVersion]) -> Iterator[str]:
    """Yield each version as YAML. A rule that several versions share is written once."""
    written: dict[str, str] = {}

    def text_of(rule: Plain) -> str:
        key = ruleset_text.canonical(rule)
        if key not in written:
            written[key] = yaml_writer.rules([rule])
        return written[key]

    for version in versions:
        if version.content is None:
            yield version.unreadable
        else:
            ruleset = ruleset_text.in_order(version.content)
            rules = "".join(map(text_of, ruleset.get("rules", ())))
            yield yaml_writer.with_rules(version.ruleset, ruleset, rules)
