"""Keeps versions of rulesets: every change through the app, with author, time and reason. A change can be undone.

Changes happen inside :func:`changing`. It compares the admin tier before and after, checks the author's permissions,
and keeps each ruleset that differs. A change made without this app is kept before the next change, without an author.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import router, transaction
from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext_noop

from ..models import Ruleset, RulesetVersion, announced_once
from . import text as ruleset_text
from . import yaml_writer
from .text import Plain, PlainForms, Rulesets
from .tiers import TierRules

# Actions are stored in English. Pages translate these two.
FIRST = gettext_noop("as it was before versions were kept")
ELSEWHERE = gettext_noop("found changed, neither by the admin nor by ratelimit_apply")


@dataclass(frozen=True, slots=True)
class Author:
    """The user who changes rulesets, the action and the reason.

    ``allow`` takes the states before and after. It raises an exception if the user lacks the permission.
    """

    user: str = ""
    action: str = ""
    reason: str = ""
    allow: Callable[[Rulesets, Rulesets], None] | None = None


@dataclass(slots=True)
class Change:
    """One change of rulesets: their plain forms before and after it, and their latest versions.

    ``forms`` keeps converted rules, so that a rule is converted only once if it is the same before and after.
    """

    before: dict[str, Plain]
    latest: dict[str, RulesetVersion]
    forms: PlainForms = field(default_factory=PlainForms)
    after: dict[str, Plain] = field(default_factory=dict)


@contextmanager
def changing(names: Iterable[str], author: Author) -> Iterator[None]:
    """Keep versions of the rulesets that the block changes. Roll back if it raises, or the author lacks permission."""
    names = sorted(set(names))
    with transaction.atomic(using=router.db_for_write(Ruleset)), announced_once():
        change = begin(names)
        yield
        finish(names, change, author)


def begin(names: Iterable[str], forms: PlainForms | None = None) -> Change:
    """Begin a change of these rulesets. First keep versions of changes that were made without this app.

    Needs a transaction. ``forms`` are plain forms that the caller has already made.
    """
    names = list(names)
    forms = PlainForms() if forms is None else forms
    # Lock the rows, because concurrent changes of one ruleset would otherwise take the same number.
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
    """Keep versions of these rulesets as they are now.

    Raises the exception of ``author.allow``, which must roll back the transaction.
    """
    rows = {row.name: row for row in ruleset_text.rows(names)}
    change.after = {name: change.forms.of_row(row) for name, row in rows.items()}
    if author.allow:
        author.allow(change.before, change.after)
    for name in names:
        _keep(name, change.after.get(name), author, change.latest)
        if name in rows:
            _number(rows[name], change.latest)


def _keep(name: str, plain: Plain | None, author: Author, latest: dict[str, RulesetVersion]) -> None:
    """Make a version of a ruleset's plain form, unless the latest version is the same."""
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
    """Write the number of the latest version to the ruleset's row."""
    number = latest[row.name].number
    if row.version != number:
        Ruleset.objects.using(router.db_for_write(Ruleset)).filter(pk=row.pk).update(version=number)


def apply(rulesets: Mapping[str, TierRules], author: Author, *, prune: bool = False) -> list[str]:
    """Write these rulesets to the admin tier. With ``prune``, delete all others. Return the names of both."""
    database = router.db_for_write(Ruleset)
    with transaction.atomic(using=database):
        names = {*rulesets, *(ruleset_text.stored() if prune else ())}
        with changing(names, author):
            Ruleset.objects.using(database).filter(name__in=names - {*rulesets}).delete()
            ruleset_text.write(rulesets)
    return sorted(names)


def restore(version: RulesetVersion, author: Author) -> None:
    """Restore a version of a ruleset. Raises InvalidRulesFile if the version can no longer be read."""
    rulesets = tiers(version)
    with changing([version.ruleset], author):
        if _is_deletion(version):
            Ruleset.objects.using(router.db_for_write(Ruleset)).filter(name=version.ruleset).delete()
        ruleset_text.write(rulesets)


def tiers(version: RulesetVersion) -> dict[str, TierRules]:
    """Return the rules of a version, to be written. Raises InvalidRulesFile if they can no longer be read."""
    if version.unreadable:
        return ruleset_text.load(version.unreadable, str(version))
    return ruleset_text.read_plain(plain(version), str(version))


def plain(version: RulesetVersion | None) -> dict[str, Plain]:
    """Return the content of a version, unchecked. It is empty for a deleted ruleset and for unreadable YAML."""
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
