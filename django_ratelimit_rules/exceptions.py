"""The exceptions of this app. Every message names the value, the expected value and the correction."""

from __future__ import annotations

from typing import Any


class RateLimitRulesError(Exception):
    """Root of all errors of this app."""


class InvalidRule(RateLimitRulesError, ValueError):
    """Reject a rule or ruleset when it is made.

    ``field`` is the rule's field (``"period"``, ``"match"``). ``rule`` is its name, None if it is not known yet.
    ``reason`` is the message without the rule and the field, as a form shows it next to the field.
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


# Exceptions of a row or string that is not a valid rule.
UNREADABLE = (InvalidRule, TypeError, ValueError, LookupError, RecursionError)


class InvalidRulesFile(RateLimitRulesError, ValueError):
    """Reject a rules file as a whole. The message has its path, the line and the reason."""


class UnknownProperty(RateLimitRulesError, LookupError):
    """Report the name of a property that no provider of this project can compute from a request."""


class CountersUnavailable(RateLimitRulesError):
    """Report that the counter store could not answer. The ruleset's failure mode decides instead.

    No call is sent to the store for ``retry_after`` seconds.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class CallableFailed(RateLimitRulesError):
    """Report that a callable of the project raised an exception or returned an invalid value.

    The callable is a limit, a period, a property provider, or the ``identifier`` or ``cost`` of a decorator.
    ``subject`` and ``reason`` are the parts of the message. They are empty if the failure was not made by
    :meth:`because`.
    """

    subject: str = ""
    reason: str = ""

    @classmethod
    def because(cls, what: str, error: Exception) -> CallableFailed:
        """Return the failure of ``what``. The ``repr`` of ``error`` may raise as well."""
        try:
            reason = repr(error)
        except Exception:  # noqa: BLE001 -- the repr of a project's exception may raise anything
            reason = type(error).__name__
        failure = cls(f"{what} could not be computed: {reason}")
        failure.subject, failure.reason = what, reason
        return failure
