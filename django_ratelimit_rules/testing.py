"""For the tests of projects that use this app: rules for one block of code, and fresh counters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from asgiref.sync import iscoroutinefunction

from . import rulesets
from .counters.redis import current
from .engine import FailureMode, Mode, Rule
from .engine.rules import check_name
from .limiter import forget_local_counters
from .tiers import Tier, Tiers, tier_rules

AnyRule = Rule | Mapping[str, Any]


class override_ruleset:
    """Put rules in force for one limiter, in every thread of this process: a context manager and a decorator.

    ``rules`` replace all tiers; ``tiers`` maps ``"file"``, ``"admin"`` and ``"code"`` to rules of each. Without a mode
    the ruleset enforces; without a failure mode it has the project's. Counters are kept. Raises InvalidRule.
    """

    def __init__(
        self,
        limiter: str,
        rules: Iterable[AnyRule] | None = None,
        *,
        tiers: Mapping[str, Iterable[AnyRule]] | None = None,
        mode: Mode | str | None = None,
        failure_mode: FailureMode | str | None = None,
    ) -> None:
        if rules is not None and tiers is not None:
            raise TypeError("give rules or tiers, not both")
        self.limiter = check_name(limiter, "limiter")
        given = {Tier(tier): tuple(of_tier) for tier, of_tier in (tiers or {}).items()} or {
            Tier.CODE: tuple(rules or ())
        }
        self._tiers: Tiers = {tier: tier_rules(said, mode, failure_mode) for tier, said in given.items()}
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(rulesets.override(self.limiter, self._tiers))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        rulesets.restore(self.limiter, self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
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


def reset_counters(limiter: str | None = None) -> int:
    """Forget all counters of one limiter, or of this app; nothing else in that Redis. Return how many there were."""
    forget_local_counters()
    return current().clear(limiter)
