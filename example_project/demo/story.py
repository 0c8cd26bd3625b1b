"""Changes of rules that operators make during the replay, so that the admin has a history to show.

The changes are real. They are made through the app, and the rest of the replay obeys them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from django_ratelimit_rules import rulesets
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history

from .people import ADMIN


class Turn(NamedTuple):
    """A change to one limiter. ``after`` is the share of the log that comes before it."""

    after: float
    limiter: str
    author: history.Author
    change: Callable[[], object]


def _mode(limiter: str, mode: str) -> Callable[[], object]:
    return lambda: Ruleset.objects.filter(name=limiter).update(mode=mode)


def _rule(limiter: str, name: str, **fields: object) -> Callable[[], object]:
    return lambda: Rule.objects.filter(ruleset__name=limiter, name=name).update(**fields)


TURNS = (
    Turn(
        0.3,
        "site",
        history.Author("ada", "promoted crawler_limit to limit", "INC-41: crawlers send an eighth of all requests."),
        _rule("site", "crawler_limit", action="limit"),
    ),
    Turn(
        0.45,
        "search",
        history.Author("ada", "switched to dry run", "Feed readers report blocked requests. Check which clients."),
        _mode("search", "dry_run"),
    ),
    Turn(
        0.6,
        "search",
        history.Author("ada", "switched to enforce", "Only two readers, every few seconds. See OPS-112."),
        _mode("search", "enforce"),
    ),
    Turn(
        0.75,
        "site",
        history.Author(ADMIN, "saved in the admin", "Newsletter day: many users share an office address."),
        _rule("site", "client_limit", limit=100),
    ),
)


class Story:
    """Makes the changes during the replay."""

    def __init__(self) -> None:
        self._turns: Iterator[Turn] = iter(TURNS)
        self._next = next(self._turns, None)

    def advance(self, share: float, at: float) -> None:
        """Make the changes that are due after this share of the log, at a POSIX time."""
        while self._next and share >= self._next.after:
            self._make(self._next, at)
            self._next = next(self._turns, None)

    @staticmethod
    def _make(turn: Turn, at: float) -> None:
        with history.changing([turn.limiter], turn.author):
            turn.change()
        latest = RulesetVersion.objects.filter(ruleset=turn.limiter).order_by("-number").values("pk")[:1]
        RulesetVersion.objects.filter(pk__in=latest).update(created_at=datetime.fromtimestamp(at, UTC))
        # Reload at once: a process reloads within a second, and the replay sends hundreds of requests in a second.
        rulesets.reload()
