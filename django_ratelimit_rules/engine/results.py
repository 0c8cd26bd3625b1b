"""The decision of a check: tallies of the counters go in, and a :class:`Result` comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from .plans import Hit, Plan, new_tuple
from .rules import Action, FailureMode, Mode, Word

Number = int | float


class Outcome(Word):
    """The action that a caller should take."""

    ALLOW = "allow"
    BLOCK = "block"


ALLOW, BLOCK = Outcome.ALLOW, Outcome.BLOCK
new_draft = object.__new__


class Tally(NamedTuple):
    """The state of one counter after a hit.

    ``used`` and ``count`` are as in Evaluation. ``reset_ms`` is the time to the end of the window or ban, for a bucket
    until it is full, in milliseconds. ``retry_ms`` is the time until a call of this cost could pass, -1 if it never
    could.
    """

    used: Number
    count: Number  # type: ignore[assignment]  # the field's word, not tuple.count
    exceeded: bool
    banned: bool
    reset_ms: int
    retry_ms: int


class Evaluation(NamedTuple):
    """The outcome of one counted rule.

    ``action`` is the rule's configured action, ``result`` its effect on this call. ``count`` is the cost of all calls
    that reached the rule in its window, including blocked calls. ``used`` is the cost charged to allowed calls.
    ``remaining`` is ``limit - used``, never below 0. These are ints, unless a fractional cost was charged. ``period``
    is in whole seconds. ``reset_after`` is in seconds (float), to the end of the window or ban, for a bucket until it
    is full again.
    """

    rule: str
    action: Action
    result: Outcome
    count: Number  # type: ignore[assignment]  # the field's word, not tuple.count
    used: Number
    limit: int
    period: int
    remaining: Number
    exceeded: bool
    banned: bool
    reset_after: float


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The answer of a limiter. It is frozen for callers and observers, and only settling changes it.

    ``action`` is the action that the caller should take. ``matched``: a rule matched, a skip included. ``exceeded``: an
    evaluation exceeded, a log rule's included. ``error``: the check failed and the failure mode decided. ``rule`` is
    the name of the rule that ended the check, or else of the last rule evaluated, None if no rule was evaluated.

    ``most_restrictive`` is the limit evaluation nearest to blocking. It is None if no limit rule counted, and if none
    enforces. ``retry_after``: when blocked, the seconds (float) until a call of this ``cost`` could pass, None if it
    never could. ``pending`` are the hits that ``Limiter.settle`` may still charge once the response is known.
    ``decision`` is the id under which the admin explains a blocked call for an hour, None if no explanation was kept.
    ``near`` are the positions of evaluations that are within their limit but near it.
    """

    limiter: str
    action: Outcome = ALLOW
    matched: bool = False
    exceeded: bool = False
    skipped: bool = False
    error: bool = False
    rule: str | None = None
    evaluations: tuple[Evaluation, ...] = ()
    most_restrictive: Evaluation | None = None
    retry_after: float | None = None
    mode: Mode = Mode.ENFORCE
    cost: Number = 1
    pending: tuple[Hit, ...] = field(default=(), repr=False)
    decision: str | None = None
    near: tuple[int, ...] = field(default=(), repr=False)

    @property
    def blocked(self) -> bool:
        """Whether the caller should reject the call."""
        return self.action is BLOCK


class _Draft:
    """A result while it is made, with the slots of :class:`Result`. Its class becomes :class:`Result` at the end.

    Filling a frozen dataclass takes five times as long, on every check.
    """

    __slots__ = tuple(Result.__dataclass_fields__)


def decide(
    plan: Plan, tallies: Sequence[Tally], cost: Number = 1, *, error: bool = False, settles: bool = True
) -> Result:
    """Return the result of a plan from the tallies of its hits, which end with the first hit that blocks.

    ``error``: the tallies come from the failure mode ``local``. Without ``settles`` no hit is left pending.
    """
    limiter, mode, hits, skip, _ = plan
    blocked = any_exceeded = False
    most_restrictive = retry_after = None
    evaluations = []
    pending = []
    positions_near: tuple[int, ...] = ()
    share = 2.0
    terms = hits.terms
    for at, (used, count, exceeded, banned, reset_ms, retry_ms) in enumerate(tallies):
        rule, limit, period, enforced, looked, near = terms[at]
        remaining = limit - used if used < limit else 0
        if type(remaining) is float:
            remaining = round(remaining, 9)
        outcome = BLOCK if exceeded and enforced else ALLOW
        over = (remaining, exceeded, banned, reset_ms / 1000)
        # In the order of the fields.
        evaluation = new_tuple(Evaluation, (rule.name, rule.action, outcome, count, used, limit, period, *over))
        evaluations.append(evaluation)
        if exceeded:
            any_exceeded = True
        elif looked:
            pending.append(hits[at])
        elif used >= near:
            positions_near += (at,)
        if outcome is BLOCK:
            blocked = True
            most_restrictive = evaluation
            retry_after = None if retry_ms < 0 else retry_ms / 1000
        elif enforced and remaining / limit < share:
            share = remaining / limit
            most_restrictive = evaluation
    skipped = skip is not None and not blocked
    draft: Any = new_draft(_Draft)
    draft.limiter = limiter
    draft.action = BLOCK if blocked else ALLOW
    draft.matched = bool(hits.keys) or skip is not None
    draft.exceeded = any_exceeded
    draft.skipped = skipped
    draft.error = error
    draft.rule = skip.name if skipped else evaluations[-1].rule if evaluations else None  # type: ignore[union-attr]
    draft.evaluations = tuple(evaluations)
    draft.most_restrictive = most_restrictive
    draft.retry_after = retry_after
    draft.mode = mode
    draft.cost = cost
    draft.pending = tuple(pending) if pending and settles and not blocked else ()
    draft.decision = None
    draft.near = positions_near
    draft.__class__ = Result
    return cast(Result, draft)


def explained(result: Result, decision: str) -> None:
    """Set the id of a result's explanation, before other code gets the result."""
    object.__setattr__(result, "decision", decision)


def take_pending(result: Result) -> tuple[Hit, ...]:
    """Return the hits that wait for the response, and remove them, because a result settles once."""
    hits = result.pending
    object.__setattr__(result, "pending", ())
    return hits


def charged(result: Result, hits: Sequence[Hit], tallies: Sequence[Tally]) -> None:
    """Update a result that does not block to the tallies of its counters after the response was charged."""
    now = {hit.rule.name: tally for hit, tally in zip(hits, tallies, strict=False)}
    if not now:
        return
    evaluations = tuple(
        _now(evaluation, now[evaluation.rule]) if evaluation.rule in now else evaluation
        for evaluation in result.evaluations
    )
    object.__setattr__(result, "evaluations", evaluations)
    if result.most_restrictive is not None:
        limits = [evaluation for evaluation in evaluations if evaluation.action is Action.LIMIT]
        nearest = min(limits, key=lambda evaluation: evaluation.remaining / evaluation.limit)
        object.__setattr__(result, "most_restrictive", nearest)


def _now(evaluation: Evaluation, tally: Tally) -> Evaluation:
    return evaluation._replace(
        count=tally.count,
        used=tally.used,
        remaining=round(max(0, evaluation.limit - tally.used), 9),
        reset_after=tally.reset_ms / 1000,
    )


def failed(
    limiter: str, mode: Mode, failure_mode: FailureMode, cost: Number = 1, retry_after: float | None = None
) -> Result:
    """Return the result of a check that failed, according to the failure mode. ``local`` without counters allows."""
    blocks = failure_mode is FailureMode.CLOSED and mode is Mode.ENFORCE
    return Result(
        limiter,
        action=Outcome.BLOCK if blocks else Outcome.ALLOW,
        error=True,
        retry_after=retry_after if blocks else None,
        mode=mode,
        cost=cost,
    )
