"""The number of clients over each rule's limit in the last hour, from all processes. Read by the admin.

A client is a counter: one set of values of a rule's characteristics. The process notes the clients of calls over a
limit only. The background thread writes them to Redis every few seconds, as digests: for each rule a set ordered by
time. Its size is bounded: of more than 1,000 clients of a rule, only the latest are kept.
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
        """Return the keys and clear them."""
        keys, self.keys = self.keys, {}
        return keys

    def forget(self) -> None:
        """Forget the keys, so that no test sees another test's clients."""
        self.keys = {}

    def after_fork(self) -> None:
        """Leave the keys to the parent, which writes them."""
        self.keys = {}

    def remembers(self) -> bool:
        """Return whether any key is not written yet."""
        return bool(self.keys)


noted = reset.register("exceeding_clients", Noted())


class Clients(NamedTuple):
    """A number of clients. ``more`` is True if the real number may be larger."""

    number: int
    more: bool

    def __str__(self) -> str:
        return f"{self.number:,}{' or more' if self.more else ''} client{'' if self.number == 1 else 's'}"


def note(event: CheckEvent) -> None:
    """Note the client of a call over a limit, for the next :func:`write`."""
    limiter, result, _, plan, _, refused_again = event
    # A client that is refused again within a second was noted at its first refusal.
    if refused_again or not result.exceeded or plan is None or not settings.LIVE:
        return
    keys = plan.hits.keys
    for at, evaluation in enumerate(result.evaluations):
        if evaluation.exceeded:
            name = limiter, evaluation.rule
            of_rule = noted.keys.get(name)
            if of_rule is None:
                of_rule = noted.keys.setdefault(name, set())
            if len(of_rule) < MOST:
                of_rule.add(keys[at])


def write() -> None:
    """Write the keys of this process. Keys that cannot be written are lost, because active clients are noted again."""
    members = {_name(*name): [_digest(key) for key in list(keys)] for name, keys in noted.take().items()}
    if members:
        with suppress(CountersUnavailable):
            current().mark(members, int(clock.now()), HOUR, MOST)


def of_rules(limiter: str, rules: Iterable[str]) -> dict[str, Clients]:
    """Return the number of clients over the limit of each of these rules. Raises CountersUnavailable."""
    write()
    rules = list(rules)
    numbers = current().marked([_name(limiter, rule) for rule in rules], int(clock.now()) - HOUR)
    return {rule: Clients(number, number >= MOST) for rule, number in zip(rules, numbers, strict=True)}


def _name(limiter: str, rule: str) -> str:
    return f"clients:{limiter}:{rule}"


def _digest(key: str) -> str:
    return urlsafe_b64encode(blake2b(key.encode(), digest_size=9).digest()).decode()


def connect() -> None:
    """Register the writes with the background thread. Called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
