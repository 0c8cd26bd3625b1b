"""What operators changed while the traffic came, so that the admin has a history to show: real changes, made through
the app in the middle of the replay, and obeyed by the rest of it.
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
    """A change to one limiter, made once that share of the log has come."""

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
        history.Author("ada", "promoted crawler_limit to limit", "INC-41: crawlers make an eighth of all calls."),
        _rule("site", "crawler_limit", action="limit"),
    ),
    Turn(
        0.45,
        "search",
        history.Author("ada", "switched to dry run", "Feed readers complain of refusals. Looking at whom we hit."),
        _mode("search", "dry_run"),
    ),
    Turn(
        0.6,
        "search",
        history.Author("ada", "switched to enforce", "Two readers only, every few seconds. OPS-112 tells them."),
        _mode("search", "enforce"),
    ),
    Turn(
        0.75,
        "site",
        history.Author(ADMIN, "saved in the admin", "Newsletter day: whole offices come from one address."),
        _rule("site", "client_limit", limit=100),
    ),
)


class Story:
    """Makes the changes as the log goes on."""

    def __init__(self) -> None:
        self._turns: Iterator[Turn] = iter(TURNS)
        self._next = next(self._turns, None)

    def goes_on(self, share: float, at: float) -> None:
        """Make the changes that are due when this share of the log has come, as of a POSIX time."""
        while self._next and share >= self._next.after:
            self._make(self._next, at)
            self._next = next(self._turns, None)

    @staticmethod
    def _make(turn: Turn, at: float) -> None:
        with history.changing([turn.limiter], turn.author):
            turn.change()
        latest = RulesetVersion.objects.filter(ruleset=turn.limiter).order_by("-number").values("pk")[:1]
        RulesetVersion.objects.filter(pk__in=latest).update(created_at=datetime.fromtimestamp(at, UTC))
        # As every process does within a second, of which the replay would need hundreds of requests.
        rulesets.reload()
