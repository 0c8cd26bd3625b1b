"""Replays: a draft's rulesets and the live ones over the same recorded traffic, and how they differ.

Rulesets by limiter and a reader of traffic go in, a :class:`Replay` for each limiter comes out. Writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter

from django.utils.translation import gettext as _

from ..engine import Mode, Rule, Ruleset
from ..engine.properties import is_client_written
from ..exceptions import CallableFailed
from .plan_cache import Refusal
from .runner import Blocked, Numbers, Runner
from .traffic.batches import (
    Bad,
    Batch,
    Order,
    Reader,
    change_columns,
    in_order,
)


@dataclass(slots=True)
class Difference:
    """The calls on which draft and live rules differ, by rule and client.

    ``added`` are the calls that only the draft blocks, ``removed`` the calls that only the live rules block.
    """

    added: Counter[Refusal] = field(default_factory=Counter)
    removed: Counter[Refusal] = field(default_factory=Counter)

    def note(self, blocked: Mapping[int, Refusal], before: Mapping[int, Refusal]) -> None:
        """Compare the refusals of the draft with those of the live rules, by position in a batch."""
        self.added.update(blocked[at] for at in blocked.keys() - before.keys())
        self.removed.update(before[at] for at in before.keys() - blocked.keys())


@dataclass(slots=True)
class Replay:
    """The replay of one limiter's traffic. ``live`` is None if there are no live rules to compare with.

    ``left_out`` are the rules whose limit cannot be computed without a request. ``digested`` is True if the traffic
    holds values of clients as digests only.
    """

    limiter: str
    draft: Runner
    live: Runner | None
    difference: Difference
    left_out: list[str]
    digested: bool

    @property
    def rules(self) -> Iterable[tuple[Rule, Numbers, Numbers | None]]:
        """Yield each rule of the draft, its numbers, and those of the live rule of its name."""
        live = self.live.numbers if self.live else {}
        for rule in self.draft.ruleset.rules:
            yield rule, self.draft.numbers[rule.name], live.get(rule.name)

    @property
    def gone(self) -> Iterable[tuple[Rule, Numbers]]:
        """Yield the live rules that the draft lacks."""
        if self.live:
            for rule in self.live.ruleset.rules:
                if rule.name not in self.draft.numbers:
                    yield rule, self.live.numbers[rule.name]

    @property
    def untold(self) -> dict[str, list[str]]:
        """The properties that the traffic lacks, each with the draft's rules that use it.

        Properties of the response are included, with a name that says so.
        """
        rules = self.draft.ruleset.rules
        asking = {name: [rule.name for rule in rules if name in rule.properties] for name in self.draft.untold}
        for rule in rules:
            for name in rule.response_matcher.properties if rule.response_matcher else ():
                if name != "status" or not self.draft.answered:
                    asking.setdefault(_("the response's %(name)s") % {"name": name}, []).append(rule.name)
        return {name: names for name, names in asking.items() if names}

    @property
    def unreadable(self) -> dict[str, list[str]]:
        """The properties that the traffic has as digests only, each with the draft's rules with a condition on it."""
        rules = self.draft.ruleset.rules if self.digested else ()
        names = dict.fromkeys(name for rule in rules for name in rule.matcher.properties if is_client_written(name))
        return {name: [rule.name for rule in rules if name in rule.matcher.properties] for name in names}

    def heaviest(self, most: int) -> list[tuple[Refusal, Blocked]]:
        """Return the clients that were blocked most often, with their spells."""
        return sorted(self.draft.blocked.items(), key=lambda item: (-item[1].calls, item[0]))[:most]


@dataclass(slots=True)
class Report:
    """The replays of all limiters. ``others`` is the number of requests of limiters that were not replayed."""

    replays: list[Replay]
    order: Order
    bad: Bad
    others: int = 0


def replay(
    drafts: Mapping[str, Ruleset], lives: Mapping[str, Ruleset], reader: Reader, enforce: bool = False
) -> Report:
    """Run rulesets over traffic. ``lives`` are the live rulesets to compare with, by limiter.

    If there is one draft, requests without a limiter belong to it. With ``enforce``, drafts run as if their mode were
    enforce.
    """
    replays = {limiter: _prepared(draft, lives.get(limiter), reader, enforce) for limiter, draft in drafts.items()}
    order = Order()
    report = Report(list(replays.values()), order, reader.bad)
    only = next(iter(replays)) if len(replays) == 1 else None
    for batch in in_order(reader.batches(), order):
        for limiter, part in _by_limiter(batch, only):
            if limiter in replays:
                _run(replays[limiter], part)
            else:
                report.others += len(part.times)
    for each_replay in report.replays:
        each_replay.draft.add_up()
        if each_replay.live:
            each_replay.live.add_up()
    return report


def static(ruleset: Ruleset) -> tuple[Ruleset, list[str]]:
    """Return the ruleset with numbers as limits and periods, and the names of rules whose limit needs a request.

    A ruleset whose mode is off loses all rules, because it counts nothing.
    """
    rules, left_out = [], []
    for step in ruleset.steps if ruleset.mode is not Mode.OFF else ():
        rule = step.rule
        if not callable(rule.limit) and not callable(rule.period):
            rules.append(rule)
            continue
        try:
            terms = step.terms_of(None)
        except CallableFailed:
            left_out.append(rule.name)
        else:
            rules.append(rule.with_changes(limit=terms.limit, period=terms.period))
    return replace(ruleset, rules=tuple(rules)), left_out


def _prepared(draft: Ruleset, live: Ruleset | None, reader: Reader, enforce: bool) -> Replay:
    ruleset, left_out = static(replace(draft, mode=Mode.ENFORCE) if enforce else draft)
    other = Runner(static(live)[0], reader) if live is not None else None
    return Replay(draft.limiter, Runner(ruleset, reader), other, Difference(), left_out, reader.digested)


def _by_limiter(batch: Batch, only: str | None) -> Iterable[tuple[str | None, Batch]]:
    if batch.limiters is None or set(batch.limiters) <= {None, only}:
        yield only, batch
        return
    positions: dict[str | None, list[int]] = {}
    for position, limiter in enumerate(batch.limiters):
        positions.setdefault(limiter or only, []).append(position)
    for limiter, chosen in positions.items():
        pick = itemgetter(*chosen, chosen[-1])
        yield limiter, change_columns(batch, lambda column, pick=pick: pick(column)[:-1])  # type: ignore[misc]


def _run(running: Replay, batch: Batch) -> None:
    blocked = running.draft.run(batch)
    if running.live is not None:
        before = running.live.run(batch)
        running.difference.note(blocked, before)
