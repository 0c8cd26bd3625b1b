"""Runs one ruleset over recorded traffic: batches go in, numbers of each rule and blocked clients come out.

All counting happens in this process, by the times of the traffic. :mod:`report` has computed all limits already, so
that they are plain numbers here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from ..engine import KeyWriter, Rule, Ruleset
from ..engine.matching import ValueOf
from ..engine.results import Number
from ..engine.values import escape_unprintable
from .fast_counters import (
    FastPath,
    count,
    refuse,
    settle,
)
from .plan_cache import CachedPlan, PlanCache, Refusal
from .timeline import Timeline
from .traffic.batches import Batch, Reader

# How many pairs of rule and client are kept, and how many spells of each.
MOST_CLIENTS, MOST_SPELLS = 50_000, 20
MAX_WHO = 120


@dataclass(slots=True)
class Numbers:
    """The numbers of one rule. ``calls`` reached the rule. A skip rule allowed all of its ``calls``."""

    calls: int = 0
    exceeded: int = 0
    blocked: int = 0


@dataclass(slots=True)
class Spell:
    """A time during which a client was blocked.

    ``since`` is its first refused call, in milliseconds since 1970. ``until`` is the time at which a call could pass
    again, None if it never could. ``calls`` is the number of refused calls.
    """

    since: int
    until: int | None
    calls: int = 1


@dataclass(slots=True)
class Blocked:
    """All spells of one client under one rule.

    ``calls`` were refused in ``times`` spells, which last ``milliseconds`` in total. ``spells`` are the first of them.
    ``forever`` is True if waiting does not help.
    """

    calls: int = 0
    times: int = 0
    milliseconds: int = 0
    forever: bool = False
    first: int = 0
    last: int = 0
    spells: list[Spell] = field(default_factory=list)
    _open: Spell | None = None

    def note(self, now: int, retry: float) -> None:
        """Add a refused call. ``retry`` is the milliseconds until a call could pass, -1 if none ever can."""
        until = None if retry < 0 else now + int(retry)
        self.calls += 1
        self.last = now
        spell = self._open
        if spell is not None and (spell.until is None or now < spell.until):
            spell.calls += 1
            if spell.until is not None and until is not None:
                self.milliseconds += max(0, until - spell.until)
                spell.until = max(until, spell.until)
            return
        self.times += 1
        self.first = self.first or now
        self._open = spell = Spell(now, until)
        self.forever = self.forever or until is None
        self.milliseconds += 0 if until is None else until - now
        if len(self.spells) < MOST_SPELLS:
            self.spells.append(spell)


class Runner:
    """Runs a ruleset. ``numbers`` are by rule, ``blocked`` by rule and client.

    ``unnoted`` is the number of refused calls whose client exceeds MOST_CLIENTS. ``answered`` is whether any request
    came with the status of its response.
    """

    def __init__(self, ruleset: Ruleset, reader: Reader) -> None:
        self.ruleset = ruleset
        self.numbers = {rule.name: Numbers() for rule in ruleset.rules}
        self.blocked: dict[Refusal, Blocked] = {}
        self.course = Timeline()
        self.requests = self.exceeded = self.refused = self.unnoted = 0
        self.answered = False
        self._plans = PlanCache(ruleset, reader)
        self._by_answer = any(rule.response is not None for rule in ruleset.rules)
        self._answers: dict[tuple[str, str | None], bool] = {}

    @property
    def untold(self) -> list[str]:
        """The properties that the rules use but this traffic lacks."""
        return self._plans.untold

    def run(self, batch: Batch) -> dict[int, Refusal]:
        """Count a batch. Return the refusals by position in the batch."""
        times = batch.times
        self.requests += len(times)
        self.course.calls(times)
        plans = self._plans.of(batch.columns, len(times))
        refusals: dict[int, Refusal] = {}
        if (batch.costs and set(batch.costs) != {1}) or self._by_answer:
            costs: Sequence[Number] = batch.costs or [1] * len(times)
            statuses: Sequence[str | None] = batch.statuses or [None] * len(times)
            self.answered = self.answered or any(status is not None for status in statuses)
            calls = zip(times, plans, costs, statuses, strict=True)
            for position, (now, cached, cost, status) in enumerate(calls):
                refusal = self._slow_path(now, cached, cost, status)
                if refusal:
                    refusals[position] = refusal
        else:
            for position, (now, cached) in enumerate(zip(times, plans, strict=True)):
                for fast_path in cached.fast_paths:
                    if not fast_path.take(now):
                        refusal = self._not_taken(now, cached, fast_path)
                        if refusal:
                            refusals[position] = refusal
                        break
                else:
                    cached.calls += 1
        if self._plans.crowded():
            self.add_up()
            self._plans.forget(times[-1])
        return refusals

    def add_up(self) -> None:
        """Add the calls that the cached plans counted to ``numbers``."""
        for cached in self._plans.values():
            left = cached.calls
            if cached.skip:
                self.numbers[cached.skip.name].calls += left
            for at in range(len(cached.hits) - 1, -1, -1):
                numbers = self.numbers[cached.hits[at].rule.name]
                left += cached.ended[at]
                numbers.calls += left
                numbers.exceeded += cached.ended[at] + cached.over[at]
                numbers.blocked += cached.ended[at]
            cached.calls = 0
            cached.ended, cached.over = [0] * len(cached.hits), [0] * len(cached.hits)

    def _not_taken(self, now: int, cached: CachedPlan, stopped: FastPath) -> Refusal | None:
        """Continue at the first counter that was too full for a call of cost 1. Earlier counters accepted the call."""
        first = next(at for at, fast_path in enumerate(cached.fast_paths) if fast_path is stopped)
        taken = list(range(first))
        over: list[int] = []
        for at in range(first, len(cached.fast_paths)):
            if at > first and cached.fast_paths[at].take(now):
                taken.append(at)
                continue
            hit, cell = cached.hits[at], cached.cells[at]
            if cell.unsure(now):
                _undo(cached, taken)
                return self._slow_path(now, cached, 1, None)
            retry = refuse(hit, cell, now)
            if hit.enforced:
                _undo(cached, taken)
                self._note_over(now, cached, over, True)
                return self._refused(now, cached, at, retry)
            over.append(at)
        cached.calls += 1
        self._note_over(now, cached, over, False)
        return None

    def _slow_path(self, now: int, cached: CachedPlan, cost: Number, status: str | None) -> Refusal | None:
        looks, blocked = count(cached.hits, cached.cells, cost, now)
        over = [at for at, look in enumerate(looks) if look.exceeded]
        if blocked:
            at = over.pop()
            self._note_over(now, cached, over, True)
            return self._refused(now, cached, at, looks[at].retry)
        cached.calls += 1
        if over:
            self._note_over(now, cached, over, False)
        if cached.looked and status is not None:
            exceeded = {id(looks[at].hit) for at in over}
            pending = [pair for pair in cached.looked if id(pair[0]) not in exceeded]
            settle([pair for pair in pending if self._charges(pair[0].rule, status)], cost, now)
        return None

    def _note_over(self, now: int, cached: CachedPlan, over: Iterable[int], blocked: bool) -> None:
        for at in over:
            cached.over[at] += 1
        self.exceeded += 1
        self.course.note(now, blocked)

    def _refused(self, now: int, cached: CachedPlan, at: int, retry: float) -> Refusal:
        self.refused += 1
        cached.ended[at] += 1
        refusal = cached.refusals.get(at)
        if refusal is None:
            rule = cached.hits[at].rule
            refusal = cached.refusals[at] = Refusal(rule.name, who(rule, self.ruleset.keys, cached.value_of))
        self._note(refusal, now, retry)
        return refusal

    def _note(self, refusal: Refusal, now: int, retry: float) -> None:
        blocked = self.blocked.get(refusal)
        if blocked is None:
            if len(self.blocked) >= MOST_CLIENTS:
                self.unnoted += 1
                return
            blocked = self.blocked[refusal] = Blocked()
        blocked.note(now, retry)

    def _charges(self, rule: Rule, status: str | None) -> bool:
        charges = self._answers.get((rule.name, status))
        if charges is None:
            answer = {"status": status}
            matcher = rule.response_matcher
            charges = self._answers[rule.name, status] = matcher is not None and matcher.holds(answer.get)
        return charges


def _undo(cached: CachedPlan, taken: Iterable[int]) -> None:
    for at in taken:
        cached.fast_paths[at].undo()


def who(rule: Rule, keys: KeyWriter, value_of: ValueOf) -> str:
    """Return the values by which a rule counts a client.

    Counter keys hold digests of some values. Here these are plain, because the traffic belongs to the reader.
    """
    parts = []
    for name in rule.characteristics:
        text = value_of(name)
        part = keys.part(name, text, value_of)
        parts.append(shown(text) if text and part.startswith("#") else part)
    return ", ".join(parts) or _("everyone")


def shown(text: str) -> str:
    """Return a string that is safe to print, so that no client can write control characters to a terminal."""
    printable = escape_unprintable(text[:MAX_WHO])
    return printable + "…" if len(text) > MAX_WHO else printable
