"""The limiter: one checkpoint of an application, which asks whether a call may pass.

A request or an identifier goes in, a :class:`engine.Result` comes out. A check reads from top to bottom in
:meth:`Limiter._check`. It is written once: methods that return :data:`Steps` yield each call that may wait, and
blocking and async callers run the same steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic, perf_counter
from typing import Any

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
)
from .engine.comparison import at_edge, decided_by_legacy, would_block
from .engine.matching import ValueOf
from .engine.messages import message_of
from .engine.plans import new_tuple
from .engine.results import Number
from .engine.rules import OFF, check_name
from .exceptions import CallableFailed, CountersUnavailable, RateLimitRulesError
from .identifiers.state import results_of, state_of
from .monitoring import decisions, recording
from .rulesets import limiter_names
from .runtime import background, reset, threads
from .runtime.clock import clock
from .runtime.steps import Steps, arun, run
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
# Other rules may plan the same call in another way.
signals.rules_loaded.connect(denial_cache.forget, dispatch_uid="django_ratelimit_rules.denials")


class RateLimited(RateLimitRulesError):
    """A call was blocked. ``result`` is the limiter's result."""

    def __init__(self, result: Result) -> None:
        self.result = result
        wait = "" if result.retry_after is None else f"; it may pass in {result.retry_after:.3f} s"
        super().__init__(f"limiter {result.limiter!r} blocked the call by rule {result.rule!r}{wait}")

    def __reduce__(self) -> tuple[Any, ...]:
        return RateLimited, (self.result,)


class Limiter:
    """A named checkpoint. Calling ``Limiter(name)`` again returns the same checkpoint.

    ``rules`` are its code rules, the lowest of the three tiers. ``partition_by`` is a property that all of them count
    by. It spreads the counters over a Redis Cluster. ``properties`` are the names that callers put into identifiers, so
    that the admin knows them.

    An identifier maps properties to values. ``cost`` is a finite number >= 0. ``context`` is passed to callable limits
    and periods. Wrong types raise TypeError or ValueError before Redis is asked. Failures of Redis or of a callable
    never raise, because the ruleset's failure mode answers.
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
        return again if again is not None else run(self._ask(identifier, cost, context, who=who, blocking=True))

    async def acheck(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Async version of :meth:`check`, with one non-blocking Redis call on the running event loop."""
        who = denial_cache.who(self.name, identifier)
        again = self._refused_again(who, cost) if who else None
        return again if again is not None else await arun(self._ask(identifier, cost, context, who=who))

    def _ask(
        self,
        identifier: Identifier,
        cost: Number,
        context: object,
        verb: Verb = CHECK,
        *,
        who: Who | None = None,
        blocking: bool = False,
    ) -> Steps[Result]:
        """Return the steps that ask Redis. An identifier or a cost of a wrong type raises here, before the first."""
        value_of, cost = values(identifier), cost_of(cost)
        if settings.ENABLED:
            return self._check(value_of, cost, context, verb, who=who, blocking=blocking)
        return _returning(self._off())

    def _check(  # noqa: PLR0913 -- the one place where a check reads from top to bottom
        self,
        value_of: ValueOf,
        cost: Number,
        context: object,
        verb: Verb = CHECK,
        request: identifiers.RequestIdentifier | None = None,
        who: Who | None = None,
        *,
        blocking: bool = False,
    ) -> Steps[Result]:
        started = perf_counter()
        background.ensure()
        ruleset = rulesets.loaded(self.name) or (yield from self._ruleset())
        if ruleset.mode is OFF:
            return self._off()
        planned = None
        try:
            if ruleset.calls_project or (request is not None and ruleset.looks_up):
                planned = yield from _plan(ruleset, value_of, context, request)
            else:
                planned = engine.plan(ruleset, value_of, context)
            tallies: Sequence[Tally] = ()
            if planned.hits.keys:
                tallies = yield from current().counting(planned.hits, cost, verb, blocking=blocking)
            result = engine.decide(planned, tallies, cost, settles=verb is not PEEK)
        except FAILURES as error:
            result = self._by_failure_mode(ruleset, error, planned, cost, verb)
        seconds = perf_counter() - started
        if settings.RECORD and verb is CHECK:
            recording.note(ruleset, planned, value_of, cost, request)
        if result.blocked and planned and not result.error and verb is CHECK:
            yield from decisions.keep(ruleset, planned, result, value_of, request)
            if who:
                denial_cache.remember(current(), who, ruleset, planned)
        return self._finish(ruleset, planned, result, cost, seconds, verb)

    def _refused_again(self, who: Who, cost: Number) -> Result | None:
        """Block a call that was blocked a moment ago, without Redis. Returns None if that is not certain."""
        started = monotonic()
        asked = denial_cache.again(who, cost, started)
        if asked is None:
            return None
        result = engine.decide(asked.plan, (asked.denial.tally_now(cost, started),), cost)
        seconds = monotonic() - started
        signals.checked.announce(Limiter, CheckEvent(self.name, result, asked.ruleset, asked.plan, seconds, True))
        return result

    def peek(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Return the result that :meth:`check` would return now. Write nothing, metrics included."""
        return run(self._ask(identifier, cost, context, PEEK))

    async def apeek(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Async version of :meth:`peek`."""
        return await arun(self._ask(identifier, cost, context, PEEK))

    def enforce(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Check, and raise RateLimited on block."""
        return _raise_if_blocked(self.check(identifier, cost, context))

    async def aenforce(self, identifier: Identifier, cost: Number = 1, context: object = None) -> Result:
        """Async version of :meth:`enforce`."""
        return _raise_if_blocked(await self.acheck(identifier, cost, context))

    def charge(self, identifier: Identifier, cost: Number = 1, context: object = None) -> None:
        """Record usage already spent: charge every matching rule up to a matching skip, past its limit too.

        Rules by outcome are not charged. Never blocks. If Redis fails, the usage is lost and the failure logged.
        """
        run(self._charge(identifier, cost, context))

    async def acharge(self, identifier: Identifier, cost: Number = 1, context: object = None) -> None:
        """Async version of :meth:`charge`."""
        await arun(self._charge(identifier, cost, context))

    def _charge(self, identifier: Identifier, cost: Number, context: object) -> Steps[None]:
        value_of, cost = values(identifier), cost_of(cost)
        ruleset = yield from self._ruleset_if_enabled()
        if ruleset.mode is OFF:
            return
        try:
            planned = yield from _plan(ruleset, value_of, context)
        except CallableFailed as error:
            self._report(ruleset, error)
            return
        yield from self._record(ruleset, tuple(hit for hit in planned.hits if not hit.looked), cost)

    def settle(self, result: Result, answer: Mapping[str, Any]) -> None:
        """Charge the rules by outcome whose ``response`` matches the answer: ``{"status": 401}``.

        A result settles once, and has the numbers of its counters afterwards. A blocked result has nothing to settle.
        """
        run(self.settling(result, answer))

    async def asettle(self, result: Result, answer: Mapping[str, Any]) -> None:
        """Async version of :meth:`settle`."""
        await arun(self.settling(result, answer))

    def settling(self, result: Result, answer: Mapping[str, Any]) -> Steps[None]:
        """Return the steps of :meth:`settle`."""
        ruleset = yield from self._ruleset_if_enabled()
        hits = _settled(result, answer)
        if ruleset.mode is not OFF:
            engine.charged(result, hits, (yield from self._record(ruleset, hits, result.cost)))

    def reset(self, identifier: Identifier) -> int:
        """Forget the counters and bans of all rules that match, also after a skip. Return the number of counters.

        Raises CountersUnavailable, because an operator must not believe in a reset that did not happen.
        """
        return run(self._reset(identifier))

    async def areset(self, identifier: Identifier) -> int:
        """Async version of :meth:`reset`."""
        return await arun(self._reset(identifier))

    def _reset(self, identifier: Identifier) -> Steps[int]:
        # A reset must work before the app is switched on, too.
        keys = engine.counter_keys((yield from self._ruleset()), values(identifier))
        local.counters.reset(keys)
        return (yield from current().forgetting(keys))

    def explain(self, identifier: Identifier, context: object = None) -> Explanation:
        """Return the result that :meth:`check` would return now, with the reason for every rule. Writes nothing.

        Rules after the end of the chain are explained too. A ``limit`` or ``period`` may be computed for them.
        """
        traced = engine.trace(run(self._ruleset_if_enabled()), values(identifier), context)
        try:
            return engine.explain(traced, current().hit(traced.hits, 1, PEEK) if traced.hits else ())
        except CountersUnavailable as error:
            return engine.explain(traced, None, message_of(error))

    @property
    def mode(self) -> Mode:
        """The ruleset's mode now. ``off`` if the app is switched off, or no tier has a rule or a mode."""
        return run(self._mode())

    async def amode(self) -> Mode:
        """Async version of :attr:`mode`. The first load of a process waits in a thread."""
        return await arun(self._mode())

    def _mode(self) -> Steps[Mode]:
        return (yield from self.mode_when_enabled()) if settings.ENABLED else OFF

    def mode_when_enabled(self) -> Steps[Mode]:
        """Return the steps of :attr:`mode` for callers that know that the app is switched on."""
        ruleset = yield from self._ruleset()
        # Without any rule or mode a legacy limiter continues. Otherwise its view would have no limiter at all.
        stated = ruleset.rules or any(tier.rules or tier.mode for tier in rulesets.stated(self.name).values())
        return ruleset.mode if stated else OFF

    def compare(
        self,
        identifier: Identifier,
        legacy_blocked: bool | Callable[[], bool],
        cost: Number = 1,
        context: object = None,
    ) -> Result:
        """Check beside a legacy limiter, and return the result of the limiter that decides by the ruleset's mode.

        ``off``, and no rule or mode in any tier: the legacy limiter decides, and nothing is counted. ``dry_run``: the
        legacy limiter decides. Each agreement or divergence is counted and sampled into the log. ``enforce``: this
        limiter decides. A function ``legacy_blocked`` is then not called.
        """
        return run(self._compare(identifier, legacy_blocked, cost, context))

    async def acompare(
        self,
        identifier: Identifier,
        legacy_blocked: bool | Callable[[], bool] | Callable[[], Awaitable[bool]],
        cost: Number = 1,
        context: object = None,
    ) -> Result:
        """Async version of :meth:`compare`. ``legacy_blocked`` may be async. A sync function runs in a thread."""
        return await arun(self._compare(identifier, legacy_blocked, cost, context))

    def _compare(self, identifier: Identifier, legacy_blocked: object, cost: Number, context: object) -> Steps[Result]:
        if (yield from self._mode()) is Mode.ENFORCE:
            return (yield from self._ask_unless_refused(identifier, cost, context))
        if callable(legacy_blocked):
            legacy_blocked = yield legacy_blocked, partial(threads.call, legacy_blocked), ()
        result = yield from self._ask_unless_refused(identifier, cost, context)
        # This limiter decides if the mode was switched to enforce while the legacy limiter was asked.
        if result.mode is Mode.ENFORCE and (yield from self._mode()) is Mode.ENFORCE:
            return result
        compare(result, bool(legacy_blocked))
        return decided_by_legacy(result, bool(legacy_blocked))

    def _ask_unless_refused(self, identifier: Identifier, cost: Number, context: object) -> Steps[Result]:
        who = denial_cache.who(self.name, identifier)
        again = self._refused_again(who, cost) if who else None
        return again if again is not None else (yield from self._ask(identifier, cost, context, who=who))

    def check_request(
        self,
        request: HttpRequest,
        *,
        cost: Number = 1,
        context: object = None,
        identifier: Identifier | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Result:
        """Check a request. It counts once, even if it reaches this limiter several times.

        ``identifier`` adds properties and overrides those of the request. ``kwargs`` are the view's keyword arguments.
        The result is also in ``request.rate_limits`` under the limiter's name.
        """
        return run(self._check_request(request, cost, context, identifier, kwargs))

    async def acheck_request(
        self,
        request: HttpRequest,
        *,
        cost: Number = 1,
        context: object = None,
        identifier: Identifier | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Result:
        """Async version of :meth:`check_request`."""
        return await arun(self._check_request(request, cost, context, identifier, kwargs))

    def _check_request(
        self,
        request: HttpRequest,
        cost: Number,
        context: object,
        extra: Identifier | None,
        kwargs: Mapping[str, Any] | None,
    ) -> Steps[Result]:
        http = identifiers.http_request(request)
        results = results_of(http)
        if self.name in results:
            return results[self.name]
        built = yield from identifiers.building(http, kwargs, extra)
        if not settings.ENABLED:
            return results.setdefault(self.name, self._off())
        return (yield from self.checking_request(built, cost, context))

    def checking_request(
        self, built: identifiers.RequestIdentifier, cost: Number = 1, context: object = None
    ) -> Steps[Result]:
        """Return the steps of :meth:`check_request`, for callers that know that the app is switched on."""
        request = built.request
        results = results_of(request)
        if self.name not in results:
            given = request if context is None else context
            result = yield from self._check(built.text, cost_of(cost), given, request=built)
            results[self.name] = result
            if result.pending:
                state_of(request).unsettled.append((self, result))
        return results[self.name]

    def fail_request(self, request: HttpRequest, error: CallableFailed) -> Result:
        """Answer a request by the failure mode, because its identifier or cost could not be computed."""
        return run(self.failing_request(request, error))

    async def afail_request(self, request: HttpRequest, error: CallableFailed) -> Result:
        """Async version of :meth:`fail_request`."""
        return await arun(self.failing_request(request, error))

    def failing_request(self, request: HttpRequest, error: CallableFailed) -> Steps[Result]:
        """Return the steps of :meth:`fail_request`."""
        ruleset = yield from self._ruleset_if_enabled()
        if ruleset.mode is OFF:
            result = self._off()
        else:
            result = self._by_failure_mode(ruleset, error, None, 1, CHECK)
            self._finish(ruleset, None, result, 1, 0.0, CHECK)
        return results_of(request).setdefault(self.name, result)

    def _ruleset(self) -> Steps[Ruleset]:
        """Return the rules in force, whether or not the app is switched off. Only the first load of a process waits."""
        background.ensure()
        ruleset: Ruleset = rulesets.loaded(self.name) or (yield rulesets.get, rulesets.aget, (self.name,))
        return ruleset

    def _ruleset_if_enabled(self) -> Steps[Ruleset]:
        return (yield from self._ruleset()) if settings.ENABLED else Ruleset(self.name, mode=OFF)

    def _off(self) -> Result:
        return Result(self.name, mode=OFF)

    def _record(self, ruleset: Ruleset, hits: tuple[Hit, ...], cost: Number) -> Steps[list[Tally]]:
        """Charge hits and return the tallies of their counters. Returns none if Redis failed."""
        if not hits:
            return []
        try:
            tallies = yield from current().counting(hits, cost, CHARGE)
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
        """Return the result of the failure mode."""
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
            event = new_tuple(CheckEvent, (self.name, result, ruleset, planned, seconds, False))
            signals.checked.announce(Limiter, event)
            if result.near and planned is not None and not result.blocked:
                self._warn(((planned.hits[at], result.evaluations[at].used) for at in result.near), cost)
        return result

    def _warn(self, counted: Iterable[tuple[Hit, Number]], cost: Number) -> None:
        """Announce the counters that a call has just taken near their limit."""
        for hit, used in counted:
            if used - cost < engine.near(hit.rule, hit.limit) <= used:
                event = NearLimitEvent(self.name, hit.rule, used, hit.limit, hit.key)
                signals.near_limit.announce(Limiter, event)


def compare(result: Result, legacy_blocked: bool) -> None:
    """Announce whether a dry run's result agrees with the legacy limiter.

    A failed check is not compared, nor is a result of another mode, which an operator may have switched meanwhile.
    """
    if result.mode is not Mode.DRY_RUN or result.error:
        return
    agreement = "match" if would_block(result) is legacy_blocked else "diverge"
    event = ComparisonEvent(result.limiter, result, legacy_blocked, agreement, at_edge(result, clock.now()))
    signals.compared.announce(Limiter, event)


def forget_local_counters() -> None:
    """Forget the counters of the failure mode ``local`` in this process."""
    local.forget()


def _plan(
    ruleset: Ruleset, value_of: ValueOf, context: object, request: identifiers.RequestIdentifier | None = None
) -> Steps[Plan]:
    """Plan a call. An event loop first loads the properties that the plan needs.

    It plans in a thread if a function of the project computes a limit, because that may query the database.
    """
    if request is not None and ruleset.looks_up:
        yield _when_asked, request.load, (ruleset.asking(value_of),)
    if not ruleset.calls_project:
        return engine.plan(ruleset, value_of, context)
    planned: Plan = yield engine.plan, _plan_in_thread, (ruleset, value_of, context)
    return planned


def _returning(result: Result) -> Steps[Result]:
    yield from ()
    return result


_plan_in_thread = partial(threads.in_thread, engine.plan)


def _when_asked(_names: Iterator[str]) -> None:
    """Load nothing, because blocking code computes a property when the plan needs it."""


def _raise_if_blocked(result: Result) -> Result:
    if result.blocked:
        raise RateLimited(result)
    return result


def _settled(result: Result, answer: Mapping[str, Any]) -> tuple[Hit, ...]:
    """Return the hits that an answer charges, and take them from the result, because it settles once."""
    value_of = values(answer)
    hits = engine.take_pending(result)
    return tuple(hit for hit in hits if hit.rule.response_matcher and hit.rule.response_matcher.holds(value_of))
