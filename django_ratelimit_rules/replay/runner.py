"""One ruleset over recorded traffic: batches go in, what each rule did and who was blocked come out.

Everything is counted in this process, on the traffic's own clock. Limits that code computes are numbers by now (see
:mod:`report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..engine import KeyWriter, Rule, Ruleset
from ..engine.matching import ValueOf
from ..engine.results import Number
from ..engine.values import escape_unprintable
from .fast_counters import (
    Way,
    count,
    refuse,
    settle,
)
from .plan_cache import Chain, Chains, Refusal
from .timeline import Course
from .traffic.batches import Batch, Reader

# Clients noted for each rule, and the spells noted for each of them.
MOST_CLIENTS, MOST_SPELLS = 50_000, 20
MAX_WHO = 120


@dataclass(slots=True)
class Numbers:
    """What one rule did. ``calls`` reached it; those of a skip rule were let through by it."""

    calls: int = 0
    exceeded: int = 0
    blocked: int = 0


@dataclass(slots=True)
class Spell:
    """A time for which a client was blocked: from its first refused call (milliseconds) until it could pass again,
    None when it never could; ``calls`` were refused in it."""

    since: int
    until: int | None
    calls: int = 1


@dataclass(slots=True)
class Blocked:
    """All spells of one client under one rule: ``calls`` refused in ``times`` spells of ``milliseconds`` together, the
    first of them in ``spells``. ``forever``: waiting does not help."""

    calls: int = 0
    times: int = 0
    milliseconds: int = 0
    forever: bool = False
    first: int = 0
    last: int = 0
    spells: list[Spell] = field(default_factory=list)
    _open: Spell | None = None

    def note(self, now: int, retry: float) -> None:
        """Note a refused call, and the milliseconds after which one could pass, -1 when none ever could."""
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
    """A ruleset at work. ``numbers`` are by rule, ``blocked`` by rule and client; clients beyond those noted are
    ``unnoted`` calls. ``answered`` is whether a request came with its answer's status."""

    def __init__(self, ruleset: Ruleset, reader: Reader) -> None:
        self.ruleset = ruleset
        self.numbers = {rule.name: Numbers() for rule in ruleset.rules}
        self.blocked: dict[Refusal, Blocked] = {}
        self.course = Course()
        self.requests = self.exceeded = self.refused = self.unnoted = 0
        self.answered = False
        self._chains = Chains(ruleset, reader)
        self._by_answer = any(rule.response is not None for rule in ruleset.rules)
        self._answers: dict[tuple[str, str | None], bool] = {}

    @property
    def untold(self) -> list[str]:
        """The properties that rules ask for and this traffic does not tell."""
        return self._chains.untold

    def run(self, batch: Batch) -> dict[int, Refusal]:
        """Count a batch; return who was blocked, by position in the batch."""
        times = batch.times
        self.requests += len(times)
        self.course.calls(times)
        chains = self._chains.of(batch.columns, len(times))
        refusals: dict[int, Refusal] = {}
        if (batch.costs and set(batch.costs) != {1}) or self._by_answer:
            costs: Sequence[Number] = batch.costs or [1] * len(times)
            statuses: Sequence[str | None] = batch.statuses or [None] * len(times)
            self.answered = self.answered or any(status is not None for status in statuses)
            calls = zip(times, chains, costs, statuses, strict=True)
            for position, (now, chain, cost, status) in enumerate(calls):
                refusal = self._long_way(now, chain, cost, status)
                if refusal:
                    refusals[position] = refusal
        else:
            for position, (now, chain) in enumerate(zip(times, chains, strict=True)):
                for way in chain.ways:
                    if not way.take(now):
                        refusal = self._not_taken(now, chain, way)
                        if refusal:
                            refusals[position] = refusal
                        break
                else:
                    chain.calls += 1
        if self._chains.crowded():
            self.add_up()
            self._chains.forget(times[-1])
        return refusals

    def add_up(self) -> None:
        """Bring ``numbers`` up to date with the calls that nothing happened to."""
        for chain in self._chains.values():
            left = chain.calls
            if chain.skip:
                self.numbers[chain.skip.name].calls += left
            for at in range(len(chain.hits) - 1, -1, -1):
                numbers = self.numbers[chain.hits[at].rule.name]
                left += chain.ended[at]
                numbers.calls += left
                numbers.exceeded += chain.ended[at] + chain.over[at]
                numbers.blocked += chain.ended[at]
            chain.calls = 0
            chain.ended, chain.over = [0] * len(chain.hits), [0] * len(chain.hits)

    def _not_taken(self, now: int, chain: Chain, stopped: Way) -> Refusal | None:
        """Go on where a counter did not take a call of cost 1; those before it did."""
        first = next(at for at, way in enumerate(chain.ways) if way is stopped)
        taken = list(range(first))
        over: list[int] = []
        for at in range(first, len(chain.ways)):
            if at > first and chain.ways[at].take(now):
                taken.append(at)
                continue
            hit, cell = chain.hits[at], chain.cells[at]
            if cell.unsure(now):
                _undo(chain, taken)
                return self._long_way(now, chain, 1, None)
            retry = refuse(hit, cell, now)
            if hit.enforced:
                _undo(chain, taken)
                self._note_over(now, chain, over, True)
                return self._refused(now, chain, at, retry)
            over.append(at)
        chain.calls += 1
        self._note_over(now, chain, over, False)
        return None

    def _long_way(self, now: int, chain: Chain, cost: Number, status: str | None) -> Refusal | None:
        looks, blocked = count(chain.hits, chain.cells, cost, now)
        over = [at for at, look in enumerate(looks) if look.exceeded]
        if blocked:
            at = over.pop()
            self._note_over(now, chain, over, True)
            return self._refused(now, chain, at, looks[at].retry)
        chain.calls += 1
        if over:
            self._note_over(now, chain, over, False)
        if chain.looked and status is not None:
            exceeded = {id(looks[at].hit) for at in over}
            pending = [pair for pair in chain.looked if id(pair[0]) not in exceeded]
            settle([pair for pair in pending if self._charges(pair[0].rule, status)], cost, now)
        return None

    def _note_over(self, now: int, chain: Chain, over: Iterable[int], blocked: bool) -> None:
        for at in over:
            chain.over[at] += 1
        self.exceeded += 1
        self.course.note(now, blocked)

    def _refused(self, now: int, chain: Chain, at: int, retry: float) -> Refusal:
        self.refused += 1
        chain.ended[at] += 1
        refusal = chain.refusals.get(at)
        if refusal is None:
            rule = chain.hits[at].rule
            refusal = chain.refusals[at] = Refusal(rule.name, who(rule, self.ruleset.keys, chain.value_of))
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
        known = self._answers.get((rule.name, status))
        if known is None:
            answer = {"status": status}
            matcher = rule.response_matcher
            known = self._answers[rule.name, status] = matcher is not None and matcher.holds(answer.get)
        return known


def _undo(chain: Chain, taken: Iterable[int]) -> None:
    for at in taken:
        chain.ways[at].undo()


def who(rule: Rule, keys: KeyWriter, value_of: ValueOf) -> str:
    """Return whom a counter of a rule counts, in plain words where its key has digests: the traffic is the reader's."""
    parts = []
    for name in rule.characteristics:
        text = value_of(name)
        part = keys.part(name, text, value_of)
        parts.append(shown(text) if text and part.startswith("#") else part)
    return ", ".join(parts) or "everyone"


def shown(text: str) -> str:
    """Return a text as it can be printed anywhere: whoever sent it does not write to the operator's terminal."""
    printable = escape_unprintable(text[:MAX_WHO])
    return printable + "…" if len(text) > MAX_WHO else printable
