"""The errors this app raises. Every message says what was found, what was expected and how to put it right."""

from __future__ import annotations

from typing import Any


class RateLimitRulesError(Exception):
    """Root of all errors of this app."""


class InvalidRule(RateLimitRulesError, ValueError):
    """Refuse a rule or ruleset when it is made.

    ``field`` is the rule's field (``"period"``, ``"match"``); ``rule`` its name, or None when that is not known yet;
    ``reason`` the message without the rule and field in front, fit to stand beside a form field.
    """

    def __init__(self, field: str, reason: str, *, rule: str | None = None) -> None:
        self.field = field
        self.reason = reason
        self.rule = rule
        super().__init__(f"rule {rule!r}: {field}: {reason}" if rule else f"{field}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _invalid_rule, (self.field, self.reason, self.rule)


def _invalid_rule(field: str, reason: str, rule: str | None) -> InvalidRule:
    return InvalidRule(field, reason, rule=rule)


# What a row or a text that reads as no rule may raise.
UNREADABLE = (InvalidRule, TypeError, ValueError, LookupError, RecursionError)


class InvalidRulesFile(RateLimitRulesError, ValueError):
    """Refuse a rules file as a whole: the message has its path, the line and the reason."""


class UnknownProperty(RateLimitRulesError, LookupError):
    """Name a property that no provider of this project can compute from a request."""


class CountersUnavailable(RateLimitRulesError):
    """Say that the counter store could not answer; the ruleset's failure mode answers instead.

    ``retry_after`` is the number of seconds for which the store is left alone.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class CallableFailed(RateLimitRulesError):
    """Say that a project's callable failed: a limit or period that raised or returned what a static value could not be,
    a property provider that raised or whose value has no text, a decorator's ``identifier`` or ``cost`` that raised."""

    @classmethod
    def because(cls, what: str, error: Exception) -> CallableFailed:
        """Return the failure of ``what``, for an error that may not even be able to say what it is."""
        try:
            reason = repr(error)
        except Exception:  # noqa: BLE001 -- whatever a project's exception does when it is spelled
            reason = type(error).__name__
        return cls(f"{what} could not be computed: {reason}")
