"""One ruleset over recorded traffic: batches go in, what each rule did and who was blocked come out.

Everything is counted in this process, on the traffic's own clock. Limits that code computes are numbers by now (see
:mod:`report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..engine import KeyWriter, Rule, Ruleset
from ..engine.matching import ValueOf
from ..engine.results import Number
from .chains import Chain, Chains
from .counting import Way, count, settle
from .course import Course
from .traffic import Batch, Reader

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


class Refusal(NamedTuple):
    """Who was refused, by which rule."""

    rule: str
    who: str


class Runner:
    """A ruleset at work. ``numbers`` are by rule, ``blocked`` by rule and client; clients beyond those noted are
    ``unnoted`` calls."""

    def __init__(self, ruleset: Ruleset, reader: Reader) -> None:
        self.ruleset = ruleset
        self.numbers = {rule.name: Numbers() for rule in ruleset.rules}
        self.blocked: dict[Refusal, Blocked] = {}
        self.course = Course()
        self.requests = self.exceeded = self.refused = self.unnoted = 0
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
            calls = zip(times, chains, costs, statuses, strict=True)
            for position, (now, chain, cost, status) in enumerate(calls):
                refusal = self._long_way(now, chain, cost, status)
                if refusal:
                    refusals[position] = refusal
        else:
            for position, (now, chain) in enumerate(zip(times, chains, strict=True)):
                for way in chain.ways:
                    if not way.take(now):
                        _undo(chain, way)
                        refusal = self._long_way(now, chain, 1, None)
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
            if chain.calls:
                for hit in chain.hits:
                    self.numbers[hit.rule.name].calls += chain.calls
                if chain.skip:
                    self.numbers[chain.skip.name].calls += chain.calls
                chain.calls = 0

    def _long_way(self, now: int, chain: Chain, cost: Number, status: str | None) -> Refusal | None:
        looks, blocked = count(chain.hits, chain.cells, cost, now)
        exceeded = False
        for look in looks:
            numbers = self.numbers[look.hit.rule.name]
            numbers.calls += 1
            if look.exceeded:
                numbers.exceeded += 1
                exceeded = True
        if exceeded:
            self.exceeded += 1
            self.course.note(now, blocked)
        if not blocked:
            if chain.skip:
                self.numbers[chain.skip.name].calls += 1
            if chain.looked and status is not None:
                over = {id(look.hit) for look in looks if look.exceeded}
                settle(
                    [pair for pair in chain.looked if id(pair[0]) not in over and self._charges(pair[0].rule, status)],
                    cost,
                    now,
                )
            return None
        self.refused += 1
        hit = looks[-1].hit
        self.numbers[hit.rule.name].blocked += 1
        refusal = Refusal(hit.rule.name, who(hit.rule, self.ruleset.keys, chain.value_of))
        self._note(refusal, now, looks[-1].retry)
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


def _undo(chain: Chain, refused: Way) -> None:
    for way in chain.ways:
        if way is refused:
            return
        way.undo()


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
    printable = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text[:MAX_WHO]
    )
    return printable + "…" if len(text) > MAX_WHO else printable
