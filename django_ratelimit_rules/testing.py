"""For the tests of projects that use this app: rules for one block of code, and fresh counters."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from asgiref.sync import iscoroutinefunction

from . import rulesets
from .counters.aliases import current
from .engine import FailureMode, Mode, Rule, Ruleset
from .engine.rules import check_name
from .limiter import forget_local_counters
from .monitoring import decisions
from .rulesets.tiers import Tier, Tiers, tier_rules
from .runtime import log_sampling

AnyRule = Rule | Mapping[str, Any]


class override_ruleset:
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
            raise TypeError(f"override_ruleset decorates functions and unittest cases, not the class {case.__name__}")
        original = case.setUpClass.__func__

        def set_up_class(cls: Any) -> None:
            self.__enter__()
            cls.addClassCleanup(self.__exit__, None, None, None)
            original(cls)

        case.setUpClass = classmethod(set_up_class)
        return case


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
