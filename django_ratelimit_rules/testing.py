"""For the tests of projects that use this app: rules and a clock for one block of code, and a fresh start."""

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
    """What the context managers of this module share: each decorates functions, asynchronous ones too, and test
    cases."""

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
        """Decorate a test case as a whole, as override_settings does."""
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

    ``rules`` replace all tiers; ``tiers`` maps ``"file"``, ``"admin"`` and ``"code"`` to rules of each; with neither
    the rules stay and only the modes change. Without a mode the ruleset enforces; without a failure mode it has the
    project's. Counters are kept. As a decorator it takes functions, asynchronous ones too, and Django's test cases.
    Raises InvalidRule.
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
        given = {Tier(tier): tuple(of_tier) for tier, of_tier in (tiers or {}).items()} or {
            Tier.CODE: tuple(rules or ())
        }
        self._tiers: Tiers = {
            tier: tier_rules(said, mode, failure_mode, partition_by=partition_by) for tier, said in given.items()
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
    """Count in memory by a clock that stands still until it is moved: a context manager and a decorator.

    ``start`` is an aware datetime or a POSIX time in seconds. In the block all limiters of this process count in
    memory instead of Redis, synchronously and asynchronously, beginning with no counters. Rules expire by the same
    clock. It holds in every thread, blocks may be nested, and each block ends as the one around it was. As a decorator
    it takes functions, asynchronous ones too, and Django's test cases. Raises ValueError for a naive datetime, or a
    start that is no finite number.

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
        """Have this many seconds pass. Raises ValueError for a negative number, because no clock goes back."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"a clock moves by a finite number of seconds from 0 on, not by {seconds!r}")
        with self._moving:
            # In whole microseconds, because sums of fractions would miss the end of a window by a hair.
            self._time += round(seconds * MICROSECONDS)

    def __enter__(self) -> moved_clock:
        if self._blocks:
            raise RuntimeError("this clock is in use already; nest another moved_clock")
        self._time = self._start
        block = ExitStack()
        # Called last at the end of the block, when the clock is the one of before.
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
    """Forget everything that this process has learnt, so that a test starts as a new process does.

    Forgotten are the loaded rules, the counters of the failure mode ``local``, pauses after a failure of Redis, cached
    refusals, numbers and records that are not written yet, and which log lines were written lately. Code rules and
    properties stay, because modules give them once. Counters in Redis stay; :func:`reset_counters` removes them.
    """
    process.forget()


def _modes_of(ruleset: Ruleset) -> tuple[Mode, FailureMode]:
    return ruleset.mode, ruleset.failure_mode


def reset_counters(limiter: str | None = None) -> int:
    """Forget all counters of one limiter, or of this app; nothing else in that Redis. Return how many there were.

    Lines that are logged once a minute are logged anew, the next refusal has its decision id, and a Redis that failed
    an earlier test is asked again.
    """
    forget_local_counters()
    log_sampling.forget()
    decisions.forget()
    return current().clear(limiter)
