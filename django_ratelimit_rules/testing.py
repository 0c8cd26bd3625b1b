"""Tools for the tests of projects that use this app: rules and a clock for one block of code, and a fresh start."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from asgiref.sync import iscoroutinefunction

from . import rulesets
from .counters.aliases import current, stores
from .counters.memory_store import MemoryStore
from .engine import FailureMode, Mode, Rule, Ruleset
from .engine.rules import check_name
from .limiter import forget_local_counters
from .monitoring import decisions
from .rulesets.tiers import Tier, Tiers, tier_rules
from .runtime import log_sampling
from .runtime import reset as process
from .runtime.clock import clock

MICROSECONDS = 1_000_000

AnyRule = Rule | Mapping[str, Any]


class ForTests:
    """A context manager that also decorates sync and async functions and test cases."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def __call__(self, function: Any) -> Any:
        if isinstance(function, type):
            return self._on_class(function)
        if iscoroutinefunction(function):

            @functools.wraps(function)
            async def awrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return awrapper

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapper

    def _on_class(self, case: Any) -> Any:
        """Decorate a whole test case, as override_settings does."""
        if not (hasattr(case, "setUpClass") and hasattr(case, "addClassCleanup")):
            raise TypeError(
                f"{type(self).__name__} decorates functions and unittest cases, not the class {case.__name__}"
            )
        original = case.setUpClass.__func__

        def set_up_class(cls: Any) -> None:
            self.__enter__()
            cls.addClassCleanup(self.__exit__, None, None, None)
            original(cls)

        case.setUpClass = classmethod(set_up_class)
        return case


class override_ruleset(ForTests):
    """Put rules in force for one limiter, in every thread of this process: a context manager and a decorator.

    ``rules`` replaces all tiers. ``tiers`` maps ``"file"``, ``"admin"`` and ``"code"`` to the rules of each tier.
    Without both, the rules stay and only the modes change. The default mode is to enforce. The default failure mode is
    the project's. Counters are kept. As a decorator it accepts sync and async functions and Django's test cases. Raises
    InvalidRule.
    """

    def __init__(
        self,
        limiter: str,
        rules: Iterable[AnyRule] | None = None,
        *,
        tiers: Mapping[str, Iterable[AnyRule]] | None = None,
        mode: Mode | str | None = None,
        failure_mode: FailureMode | str | None = None,
        partition_by: str | None = None,
    ) -> None:
        if rules is not None and tiers is not None:
            raise TypeError("give rules or tiers, not both")
        self.limiter = check_name(limiter, "limiter")
        by_tier = {Tier(tier): tuple(of_tier) for tier, of_tier in (tiers or {}).items()} or {
            Tier.CODE: tuple(rules or ())
        }
        self._tiers: Tiers = {
            tier: tier_rules(of_tier, mode, failure_mode, partition_by=partition_by)
            for tier, of_tier in by_tier.items()
        }
        self._modes = None if rules is not None or tiers is not None else (mode, failure_mode)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        tiers = self._tiers
        if self._modes is not None:
            ruleset = rulesets.get(self.limiter)
            mode, failure_mode = (new or old for new, old in zip(self._modes, _modes_of(ruleset), strict=True))
            tiers = {Tier.CODE: tier_rules(ruleset.rules, mode, failure_mode, partition_by=ruleset.partition_by)}
        self._before.append(rulesets.override(self.limiter, tiers))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        rulesets.restore(self.limiter, self._before.pop())


class moved_clock(ForTests):
    """Count in memory by a clock that moves only by `move`: a context manager and a decorator.

    ``start`` is an aware datetime or a POSIX time in seconds. In the block all limiters of this process count in
    memory instead of Redis, in sync and async code, and begin without counters. Rules expire by the same clock.

    The clock applies to every thread. Blocks may be nested, and the end of a block restores the clock and counters of
    the outer block. As a decorator it accepts sync and async functions and Django's test cases. Raises ValueError for a
    naive datetime, or if the start is not a finite number.

        with moved_clock(datetime(2030, 1, 1, tzinfo=UTC)) as clock:
            limiter.check(identifier)
            clock.move(60)
    """

    def __init__(self, start: datetime | float) -> None:
        self._start = _microseconds(start)
        self._time = self._start
        self._moving = threading.Lock()
        self._blocks: list[ExitStack] = []

    @property
    def now(self) -> datetime:
        """The time of this clock, as an aware datetime."""
        return datetime.fromtimestamp(self.timestamp(), UTC)

    def timestamp(self) -> float:
        """Return the time of this clock in POSIX seconds."""
        return self._time / MICROSECONDS

    def move(self, seconds: float) -> None:
        """Move the clock forward. Raises ValueError for a negative number, because a clock never moves back."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"a clock moves by a finite number of seconds from 0 on, not by {seconds!r}")
        with self._moving:
            # Add whole microseconds, because a sum of fractions would slightly miss the end of a window.
            self._time += round(seconds * MICROSECONDS)

    def __enter__(self) -> moved_clock:
        if self._blocks:
            raise RuntimeError("this clock is already in use. Nest another moved_clock instead")
        self._time = self._start
        block = ExitStack()
        # Called last at the end of the block, when the previous clock is back.
        block.callback(rulesets.rejoin)
        block.enter_context(clock.replaced(self.timestamp))
        block.enter_context(stores.replaced(MemoryStore(lambda: self._time / 1000)))
        self._blocks.append(block)
        rulesets.rejoin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._blocks.pop().close()


def _microseconds(start: datetime | float) -> int:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ValueError(f"a clock starts at an aware datetime, not at the naive {start.isoformat()}")
        start = start.timestamp()
    if not math.isfinite(start):
        raise ValueError(f"a clock starts at a finite number of seconds, not at {start!r}")
    return round(start * MICROSECONDS)


def reset() -> None:
    """Reset this process's state, so that a test starts like a new process.

    It resets the loaded rules, the counters of the failure mode ``local``, pauses after a failure of Redis, and cached
    refusals. It also drops statistics and records that are not written yet, and allows sampled log lines again.

    Code rules and properties stay, because modules register them only once, on import. Counters in Redis stay as well.
    :func:`reset_counters` removes those counters.
    """
    process.forget()


def _modes_of(ruleset: Ruleset) -> tuple[Mode, FailureMode]:
    return ruleset.mode, ruleset.failure_mode


def reset_counters(limiter: str | None = None) -> int:
    """Delete all counters of one limiter, or of this app, and no other data in that Redis. Return how many there were.

    Log lines that are written once a minute are written again. The next refusal has a decision id again. A Redis that
    failed in an earlier test is asked again.
    """
    forget_local_counters()
    log_sampling.forget()
    decisions.forget()
    return current().clear(limiter)
