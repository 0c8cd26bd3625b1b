"""How many clients went over each rule's limit in the last hour, from all processes. Read by the admin.

A client is a counter: what a rule's characteristics tell apart. Of calls over a limit, and only of those, the process
notes whose they were; the refresher's thread writes that to Redis every few seconds, as digests: for each rule a set in
order of time. Neither a flood nor many clients make it grow: of more than 1,000 clients of a rule the latest are kept.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

from ..conf import settings
from ..counters.aliases import current
from ..exceptions import CountersUnavailable
from ..runtime import background, reset
from ..runtime.clock import clock
from ..signals import CheckEvent

HOUR = 3600
WRITE_SECONDS = 5.0
MOST = 1000


class Noted(reset.Part):
    """The keys of counters that were exceeded since the last write, by limiter and rule."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], set[str]] = {}

    def take(self) -> dict[tuple[str, str], set[str]]:
        """Return the keys, and begin with none."""
        keys, self.keys = self.keys, {}
        return keys

    def forget(self) -> None:
        """Forget the keys, so that no test sees another test's clients."""
        self.keys = {}

    def after_fork(self) -> None:
        """Leave the keys to the parent, which writes them."""
        self.keys = {}

    def remembers(self) -> bool:
        """Return whether any key waits."""
        return bool(self.keys)


noted = reset.register("exceeding_clients", Noted())


class Clients(NamedTuple):
    """How many there are; ``more`` when there may be any number above."""

    number: int
    more: bool

    def __str__(self) -> str:
        return f"{self.number:,}{' or more' if self.more else ''} client{'' if self.number == 1 else 's'}"


def note(event: CheckEvent) -> None:
    """Note the client of a call over a limit."""
    limiter, result, _, plan, _, refused_again = event
    # A client that is refused again within a second was noted when it began.
    if refused_again or not result.exceeded or plan is None or not settings.LIVE:
        return
    keys = plan.hits.keys
    for at, evaluation in enumerate(result.evaluations):
        if evaluation.exceeded:
            whose = limiter, evaluation.rule
            of_rule = noted.keys.get(whose)
            if of_rule is None:
                of_rule = noted.keys.setdefault(whose, set())
            if len(of_rule) < MOST:
                of_rule.add(keys[at])


def write() -> None:
    """Write what was noted in this process; what cannot be written is lost, for whoever goes on comes again."""
    members = {_name(*whose): [_digest(key) for key in list(keys)] for whose, keys in noted.take().items()}
    if members:
        with suppress(CountersUnavailable):
            current().mark(members, int(clock.now()), HOUR, MOST)


def of_rules(limiter: str, rules: Iterable[str]) -> dict[str, Clients]:
    """Return how many clients went over the limit of each of these rules. Raises CountersUnavailable."""
    write()
    rules = list(rules)
    numbers = current().marked([_name(limiter, rule) for rule in rules], int(clock.now()) - HOUR)
    return {rule: Clients(number, number >= MOST) for rule, number in zip(rules, numbers, strict=True)}


def _name(limiter: str, rule: str) -> str:
    return f"clients:{limiter}:{rule}"


def _digest(key: str) -> str:
    return urlsafe_b64encode(blake2b(key.encode(), digest_size=9).digest()).decode()


def connect() -> None:
    """Let the background thread write; called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
