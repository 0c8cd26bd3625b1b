"""The limiter: one checkpoint of an application, which asks whether a call may pass.

A request or an identifier goes in, a :class:`engine.Result` comes out. A check reads from top to bottom in
:meth:`Limiter._check`; :meth:`Limiter._acheck` is the same with an ``await`` at each step that may wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest

from . import (
    engine,
    identifiers,
    rulesets,
    signals,
)
from .conf import settings
from .counters import (
    CHARGE,
    CHECK,
    PEEK,
    Verb,
    denial_cache,
)
from .counters.aliases import current
from .counters.denial_cache import Who
from .counters.memory import MemoryCounters
from .engine import Explanation, FailureMode, Hit, Mode, Plan, Result, Rule, Ruleset, Tally
from .engine.calls import (
    Identifier,
    cost_of,
    values,
    values_of_request,
)
from .engine.comparison import at_edge, decided_by_legacy, would_block
from .engine.matching import ValueOf
from .engine.results import Number
from .engine.rules import OFF, check_name
from .exceptions import CallableFailed, CountersUnavailable, RateLimitRulesError
from .identifiers.state import results_of
from .monitoring import decisions, recording
from .rulesets import limiter_names
from .runtime import background, reset, threads
from .runtime.clock import clock
from .signals import CheckEvent, ComparisonEvent, FailureEvent, NearLimitEvent

FAILURES = (CountersUnavailable, CallableFailed)


class LocalCounters(reset.Part):
    """The counters of this process that the failure mode ``local`` uses while Redis is away."""

    def __init__(self) -> None:
        self.counters = MemoryCounters()

    def forget(self) -> None:
        """Forget the counters, so that a test begins with none."""
        self.counters.clear()

    def after_fork(self) -> None:
        """Replace the lock of the counters, because a thread of the parent may have held it."""
        self.counters.unlock()

    def remembers(self) -> bool:
        """Return whether anything was counted."""
        return self.counters.size() > 0


local = reset.register("limiter", LocalCounters())
# Under other rules the very same call may be planned in another way.
signals.rules_loaded.connect(denial_cache.forget, dispatch_uid="django_ratelimit_rules.denials")


class RateLimited(RateLimitRulesError):
    """Say that a call was refused; ``result`` is the limiter's result."""

    def __init__(self, result: Result) -> None:
        self.result = result
        wait = "" if result.retry_after is None else f"; it may pass in {result.retry_after:.3f} s"
        super().__init__(f"limiter {result.limiter!r} blocked the call by rule {result.rule!r}{wait}")

    def __reduce__(self) -> tuple[Any, ...]:
        return RateLimited, (self.result,)


class Limiter:
    """A named checkpoint. ``Limiter(name)`` twice is the same checkpoint.

    ``rules`` are its code rules, the lowest of the three tiers; ``partition_by`` is a property that all of them count
    by, which spreads the counters over a Redis Cluster; ``properties`` name what callers put into identifiers, so that
    the admin knows them. An identifier maps properties to values; ``cost`` is a finite number >= 0;
    ``context`` goes to callable limits and periods. Wrong types raise TypeError or ValueError before Redis is touched;
    failures of Redis or of a callable never raise, the ruleset's failure mode answers.
    """

    def __init__(
        self,
        name: str,
        rules: Iterable[Rule | Mapping[str, Any]] | None = None,
        *,
        properties: Iterable[str] = (),
        partition_by: str | None = None,
    ) -> None:
        self.name = check_name(name, "limiter")
        limiter_names.asked.add(self.name)
        identifiers.declare(*properties)
        if rules is None and partition_by is not None:
            raise TypeError("partition_by goes with rules; other tiers state it with theirs")
        if rules is not None:
            for rule in rulesets.define(self.name, rules, partition_by).rules:
                identifiers.declare(*rule.properties)

    def __repr__(self) -> str:
        return f"Limiter({self.name!r})"

    def check(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Count, charge and decide."""
        who = denial_cache.who(self.name, identifier)
        again = self._refused_again(who, cost) if who else None
        return again or self._check(values(identifier), cost_of(cost), context, who=who)

    async def acheck(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """As :meth:`check`, with one non-blocking Redis call on the running event loop."""
        who = denial_cache.who(self.name, identifier)
        again = self._refused_again(who, cost) if who else None
        return again or await self._acheck(values(identifier), cost_of(cost), context, who=who)

    def _check(
        self,
        value_of: ValueOf,
        cost: Number,
        context: object,
        verb: Verb = CHECK,
        request: identifiers.RequestIdentifier | None = None,
        who: Who | None = None,
    ) -> Result:
        started = perf_counter()
        ruleset = self._ruleset()
        if ruleset.mode is OFF:
            return Result(self.name, mode=OFF)
        planned = None
        try:
            planned = engine.plan(ruleset, value_of, context)
            tallies = current().hit(planned.hits, cost, verb) if planned.hits.keys else ()
            result = engine.decide(planned, tallies, cost, settles=verb is not PEEK)
        except FAILURES as error:
            result = self._by_failure_mode(ruleset, error, planned, cost, verb)
        seconds = perf_counter() - started
        if settings.RECORD and verb is CHECK:
            recording.note(ruleset, planned, value_of, cost, request)
        if result.blocked and planned and not result.error and verb is CHECK:
            decisions.keep(ruleset, planned, result, value_of, request)
            if who:
                denial_cache.remember(current(), who, ruleset, planned)
        return self._finish(ruleset, planned, result, cost, seconds, verb)

    async def _acheck(
        self,
        value_of: ValueOf,
        cost: Number,
        context: object,
        verb: Verb = CHECK,
        request: identifiers.RequestIdentifier | None = None,
        who: Who | None = None,
    ) -> Result:
        started = perf_counter()
        ruleset = self._ruleset() if rulesets.needs_no_load(self.name) else await self._aruleset()
        if ruleset.mode is OFF:
            return Result(self.name, mode=OFF)
        planned = None
        try:
            planned = await _aplan(ruleset, value_of, context, request)
            tallies = await current().ahit(planned.hits, cost, verb) if planned.hits.keys else ()
            result = engine.decide(planned, tallies, cost, settles=verb is not PEEK)
        except FAILURES as error:
            result = self._by_failure_mode(ruleset, error, planned, cost, verb)
        seconds = perf_counter() - started
        if settings.RECORD and verb is CHECK:
            recording.note(ruleset, planned, value_of, cost, request)
        if result.blocked and planned and not result.error and verb is CHECK:
            await decisions.akeep(ruleset, planned, result, value_of, request)
            if who:
                denial_cache.remember(current(), who, ruleset, planned)
        return self._finish(ruleset, planned, result, cost, seconds, verb)

    def _refused_again(self, who: Who, cost: Number) -> Result | None:
        """Refuse a call as lately, without asking Redis; None when that is not certain."""
        started = monotonic()
        asked = denial_cache.again(who, cost, started)
        if asked is None:
            return None
        result = engine.decide(asked.plan, (asked.denial.tally_now(cost, started),), cost)
        seconds = monotonic() - started
        signals.checked.announce(Limiter, CheckEvent(self.name, result, asked.ruleset, asked.plan, seconds, True))
        return result

    def peek(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Return what :meth:`check` would answer now; write nothing, metrics included."""
        return self._check(values(identifier), cost_of(cost), context, PEEK)

    async def apeek(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """As :meth:`peek`, on the running event loop."""
        return await self._acheck(values(identifier), cost_of(cost), context, PEEK)

    def enforce(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """As :meth:`check`, raising RateLimited on block."""
        return _raise_if_blocked(self.check(identifier, cost, context))

    async def aenforce(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """As :meth:`enforce`, on the running event loop."""
        return _raise_if_blocked(await self.acheck(identifier, cost, context))

    def charge(self, identifier: Identifier, cost: Number = 1, context: object = None) -> None:
        """Record usage already spent: charge every matching rule up to a matching skip, past its limit too.

        Rules charged by outcome are left alone. Never blocks; when Redis fails the usage is lost, and logged.
        """
        ruleset = self._ruleset()
        hits = self._chargeable(ruleset, values(identifier), cost_of(cost), context)
        self._record(ruleset, hits, cost)

    async def acharge(self, identifier: Identifier, cost: Number = 1, context: object = None) -> None:
        """As :meth:`charge`, on the running event loop."""
        ruleset = await self._aruleset()
        hits = self._chargeable(ruleset, values(identifier), cost_of(cost), context)
        await self._arecord(ruleset, hits, cost)

    def settle(self, result: Result, answer: Mapping[str, Any]) -> None:
        """Charge the rules by outcome whose ``response`` matches the answer: ``{"status": 401}``.

        A result settles once, and says afterwards what its counters do; a blocked one has nothing to settle.
        """
        ruleset = self._ruleset()
        hits = _settled(result, answer)
        if ruleset.mode is not OFF:
            engine.charged(result, hits, self._record(ruleset, hits, result.cost))

    async def asettle(self, result: Result, answer: Mapping[str, Any]) -> None:
        """As :meth:`settle`, on the running event loop."""
        ruleset = await self._aruleset()
        hits = _settled(result, answer)
        if ruleset.mode is not OFF:
            engine.charged(result, hits, await self._arecord(ruleset, hits, result.cost))

    def reset(self, identifier: Identifier) -> int:
        """Forget the counters, bans included, of all rules that match, those behind a skip too; return how many.

        Raises CountersUnavailable: an operator must not believe in a reset that did not happen.
        """
        keys = engine.counter_keys(self._stated(), values(identifier))
        local.counters.reset(keys)
        return current().reset(keys)

    async def areset(self, identifier: Identifier) -> int:
        """As :meth:`reset`, on the running event loop."""
        keys = engine.counter_keys(await self._astated(), values(identifier))
        local.counters.reset(keys)
        return await current().areset(keys)

    def explain(self, identifier: Identifier, context: object = None) -> Explanation:
        """Return what :meth:`check` would answer now and why, with every rule of the ruleset. Writes nothing.

        Rules behind the end of the chain are explained too; a ``limit`` or ``period`` may be computed for them.
        """
        traced = engine.trace(self._ruleset(), values(identifier), context)
        try:
            return engine.explain(traced, current().hit(traced.hits, 1, PEEK) if traced.hits else ())
        except CountersUnavailable as error:
            return engine.explain(traced, None, str(error))

    @property
    def mode(self) -> Mode:
        """The ruleset's mode now; ``off`` while the app is switched off, and while there is no rule and no mode."""
        return self._mode_of(self._ruleset())

    async def amode(self) -> Mode:
        """As :attr:`mode`; the first load of a process waits in a thread."""
        return self._mode_of(await self._aruleset())

    def compare(
        self,
        identifier: Identifier,
        legacy_blocked: bool | Callable[[], bool],
        cost: Number = 1,
        context: object = None,
    ) -> Result:
        """Check beside a legacy limiter, and return the answer of the one that decides by the ruleset's mode.

        ``off``, and where nobody has defined a rule or a mode: the legacy one; nothing is counted. ``dry_run``: the
        legacy one; each agreement or divergence is counted and sampled into the log. ``enforce``: ours;
        ``legacy_blocked`` is not called if it is a function.
        """
        mode = self.mode
        if mode is Mode.ENFORCE:
            return self.check(identifier, cost, context)
        blocked = bool(legacy_blocked() if callable(legacy_blocked) else legacy_blocked)
        return self._beside(self.check(identifier, cost, context), blocked)

    async def acompare(
        self,
        identifier: Identifier,
        legacy_blocked: bool | Callable[[], bool] | Callable[[], Awaitable[bool]],
        cost: Number = 1,
        context: object = None,
    ) -> Result:
        """As :meth:`compare`, on the running event loop; ``legacy_blocked`` may be an async function."""
        mode = await self.amode()
        if mode is Mode.ENFORCE:
            return await self.acheck(identifier, cost, context)
        said = legacy_blocked() if callable(legacy_blocked) else legacy_blocked
        blocked = bool(await said if isinstance(said, Awaitable) else said)
        return self._beside(await self.acheck(identifier, cost, context), blocked)

    def check_request(
        self,
        request: HttpRequest,
        *,
        cost: Number = 1,
        context: object = None,
        identifier: Identifier | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Result:
        """Check a request; once, however often one request reaches this limiter.

        ``identifier`` holds facts that the request cannot tell and wins over those it can; ``kwargs`` are the view's
        keyword arguments. The result also stands in ``request.rate_limits`` under the limiter's name.
        """
        request = identifiers.http_request(request)
        results = results_of(request)
        if self.name not in results:
            built = identifiers.build(request, kwargs)
            value_of = values_of_request(built, identifier)
            given = request if context is None else context
            results[self.name] = self._check(value_of, cost_of(cost), given, request=built)
        return results[self.name]

    async def acheck_request(
        self,
        request: HttpRequest,
        *,
        cost: Number = 1,
        context: object = None,
        identifier: Identifier | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Result:
        """As :meth:`check_request`, on the running event loop."""
        request = identifiers.http_request(request)
        results = results_of(request)
        if self.name not in results:
            built = identifiers.build(request, kwargs)
            # The facts may hold a lazy user, say.
            value_of = await threads.call(values_of_request, built, identifier)
            given = request if context is None else context
            results[self.name] = await self._acheck(value_of, cost_of(cost), given, request=built)
        return results[self.name]

    def fail_request(self, request: HttpRequest, error: CallableFailed) -> Result:
        """Answer a request by the failure mode, because what to ask about it could not be computed."""
        return results_of(request).setdefault(self.name, self._not_asked(self._ruleset(), error))

    async def afail_request(self, request: HttpRequest, error: CallableFailed) -> Result:
        """As :meth:`fail_request`, on the running event loop."""
        return results_of(request).setdefault(self.name, self._not_asked(await self._aruleset(), error))

    def _not_asked(self, ruleset: Ruleset, error: CallableFailed) -> Result:
        if ruleset.mode is OFF:
            return Result(self.name, mode=OFF)
        result = self._by_failure_mode(ruleset, error, None, 1, CHECK)
        return self._finish(ruleset, None, result, 1, 0.0, CHECK)

    def _ruleset(self) -> Ruleset:
        return self._stated() if settings.ENABLED else _off(self.name)

    async def _aruleset(self) -> Ruleset:
        return await self._astated() if settings.ENABLED else _off(self.name)

    def _stated(self) -> Ruleset:
        """Return the rules whether or not the app is switched off: a reset before it is switched on has to work."""
        background.ensure()
        return rulesets.get(self.name)

    async def _astated(self) -> Ruleset:
        background.ensure()
        return await rulesets.aget(self.name)

    def _beside(self, result: Result, legacy_blocked: bool) -> Result:
        # The mode may have been switched to enforce while the legacy limiter was being asked; then ours decides.
        if result.mode is Mode.ENFORCE and self.mode is Mode.ENFORCE:
            return result
        compare(result, legacy_blocked)
        return decided_by_legacy(result, legacy_blocked)

    def _mode_of(self, ruleset: Ruleset) -> Mode:
        # Where nobody has said anything yet, a legacy limiter goes on: a view that was given one would have none.
        said = ruleset.rules or any(tier.rules or tier.mode for tier in rulesets.stated(self.name).values())
        return ruleset.mode if said else Mode.OFF

    def _chargeable(self, ruleset: Ruleset, value_of: ValueOf, cost: Number, context: object) -> tuple[Hit, ...]:
        if ruleset.mode is OFF:
            return ()
        try:
            planned = engine.plan(ruleset, value_of, context)
        except CallableFailed as error:
            self._report(ruleset, error)
            return ()
        return tuple(hit for hit in planned.hits if not hit.looked)

    def _record(self, ruleset: Ruleset, hits: tuple[Hit, ...], cost: Number) -> list[Tally]:
        """Charge hits; return what their counters say then, nothing when Redis failed."""
        if not hits:
            return []
        try:
            tallies = current().hit(hits, cost, CHARGE)
        except CountersUnavailable as error:
            tallies = self._record_locally(ruleset, hits, cost, error)
        self._warn(((hit, tally.used) for hit, tally in zip(hits, tallies, strict=False)), cost)
        return tallies

    async def _arecord(self, ruleset: Ruleset, hits: tuple[Hit, ...], cost: Number) -> list[Tally]:
        """As :meth:`_record`, on the running event loop."""
        if not hits:
            return []
        try:
            tallies = await current().ahit(hits, cost, CHARGE)
        except CountersUnavailable as error:
            tallies = self._record_locally(ruleset, hits, cost, error)
        self._warn(((hit, tally.used) for hit, tally in zip(hits, tallies, strict=False)), cost)
        return tallies

    def _record_locally(self, ruleset: Ruleset, hits: tuple[Hit, ...], cost: Number, error: Exception) -> list[Tally]:
        self._report(ruleset, error)
        return local.counters.hit(hits, cost, CHARGE) if ruleset.failure_mode is FailureMode.LOCAL else []

    def _by_failure_mode(
        self, ruleset: Ruleset, error: Exception, planned: Plan | None, cost: Number, verb: Verb
    ) -> Result:
        """Answer as the failure mode has it."""
        if verb is not PEEK:
            self._report(ruleset, error)
        if ruleset.failure_mode is FailureMode.LOCAL and planned is not None:
            tallies: list[Tally] = local.counters.hit(planned.hits, cost, verb)
            return engine.decide(planned, tallies, cost, error=True, settles=verb is not PEEK)
        pause = error.retry_after if isinstance(error, CountersUnavailable) else None
        return engine.failed(self.name, ruleset.mode, ruleset.failure_mode, cost, pause)

    def _report(self, ruleset: Ruleset, error: Exception) -> None:
        signals.failed.announce(Limiter, FailureEvent(self.name, error, ruleset.failure_mode))

    def _finish(
        self, ruleset: Ruleset, planned: Plan | None, result: Result, cost: Number, seconds: float, verb: Verb
    ) -> Result:
        if verb is CHECK:
            signals.checked.announce(Limiter, CheckEvent(self.name, result, ruleset, planned, seconds))
            if result.near and planned is not None and not result.blocked:
                self._warn(((planned.hits[at], result.evaluations[at].used) for at in result.near), cost)
        return result

    def _warn(self, counted: Iterable[tuple[Hit, Number]], cost: Number) -> None:
        """Say which counters a call has just taken near their limit."""
        for hit, used in counted:
            if used - cost < engine.near(hit.rule, hit.limit) <= used:
                event = NearLimitEvent(self.name, hit.rule, used, hit.limit, hit.key)
                signals.near_limit.announce(Limiter, event)


def compare(result: Result, legacy_blocked: bool) -> None:
    """Announce how a dry run's result agrees with the legacy limiter. A failed check is no comparison, nor is a result
    of another mode: an operator may have changed it meanwhile."""
    if result.mode is not Mode.DRY_RUN or result.error:
        return
    agreement = "match" if would_block(result) is legacy_blocked else "diverge"
    event = ComparisonEvent(result.limiter, result, legacy_blocked, agreement, at_edge(result, clock.now()))
    signals.compared.announce(Limiter, event)


def forget_local_counters() -> None:
    """Forget what the failure mode ``local`` counted in this process."""
    local.forget()


def _off(limiter: str) -> Ruleset:
    return Ruleset(limiter, mode=OFF)


async def _aplan(
    ruleset: Ruleset, value_of: ValueOf, context: object, request: identifiers.RequestIdentifier | None
) -> Plan:
    """Plan on the event loop: a request's lazy user is awaited, and planning starts again once it is there; where a
    computed limit looks up the database, all is planned in a thread."""
    plan = partial(engine.plan, ruleset, value_of, context)
    try:
        return await request.run(plan) if request else plan()
    except CallableFailed as error:
        if not threads.wants_thread(error):
            raise
    return await sync_to_async(plan)()


def _raise_if_blocked(result: Result) -> Result:
    if result.blocked:
        raise RateLimited(result)
    return result


def _settled(result: Result, answer: Mapping[str, Any]) -> tuple[Hit, ...]:
    """Return the hits that an answer charges, and take them from the result: it settles once."""
    value_of = values(answer)
    hits = engine.take_pending(result)
    return tuple(hit for hit in hits if hit.rule.response_matcher and hit.rule.response_matcher.holds(value_of))
