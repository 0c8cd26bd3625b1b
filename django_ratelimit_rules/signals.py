"""What the app tells whoever listens: metrics and log lines of its own, and receivers of the project.

``checked``
    After each check. ``sender`` is the class Limiter; ``limiter`` the limiter's name; ``result`` the Result;
    ``ruleset`` the engine.Ruleset that decided; ``plan`` the engine.Plan of the call, whose first hits are those of the
    result's evaluations, or None when a callable failed; ``seconds`` (float) the time the check took.
``failed``
    After a check that failed and was answered by the failure mode. ``limiter`` is the limiter's name; ``error`` the
    exception; ``failure_mode`` the mode that answered.
``compared``
    After a comparison with a legacy limiter. ``limiter`` is the limiter's name; ``result`` the Result of the dry run;
    ``legacy_blocked`` what the legacy limiter said; ``agreement`` ``"match"`` or ``"diverge"``; ``boundary`` whether it
    was within a second of a clock-aligned edge of a window.
``near_limit``
    When a call took a counter to its rule's ``warn_at`` (80 % of the limit) or past it: by that call alone. ``limiter``
    is the limiter's name; ``rule`` the engine.Rule; ``used`` and ``limit`` the counter's numbers; ``key`` the counter's
    key, which says who. A call that is refused takes none there, nor does looking.
``rules_changed``
    When rows of Ruleset or Rule were written through Django. ``sender`` is the model; ``using`` the database alias.
    The change is not committed yet.
``rules_loaded``
    When other rules are in force in this process: loaded, overridden or expired; ``rulesets.in_force()`` tells which.

An exception in a receiver never changes a decision. Receivers of ``checked``, ``failed``, ``compared`` and
``near_limit`` run on the request's thread or event loop and must be quick and synchronous.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.dispatch import Signal

from .runtime import log_sampling

logger = logging.getLogger(__name__)


class Announcement(Signal):
    """A signal that this app's own modules hear of by a plain call, because Django's dispatch costs more than they do.

    ``names`` are those of what it says, behind the limiter; its own receivers get it in that order.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(use_caching=True)
        self._names = ("limiter", *names)
        self._own: list[Callable[..., None]] = []
        self._own_of_refusals: list[Callable[..., None]] = []

    def tell(self, receiver: Callable[..., None], *, refused_again: Callable[..., None] | None = None) -> None:
        """Call this function of the app's own from now on; of whom one rule refused a moment ago and refuses again, as
        most of a flood, call ``refused_again`` in its place, or nothing."""
        if receiver not in self._own:
            self._own.append(receiver)
            if refused_again is not None:
                self._own_of_refusals.append(refused_again)

    def announce(self, sender: Any, *said: Any, refused_again: bool = False) -> None:
        """Call all receivers; ``refused_again`` as in :meth:`tell`. Never raises."""
        try:
            for receiver in self._own_of_refusals if refused_again else self._own:
                receiver(*said)
            if self.receivers:
                self.send_robust(sender, **dict(zip(self._names, said, strict=True)))
        except Exception:
            # send_robust answers for synchronous receivers; an asynchronous one may fail before it is called.
            if log_sampling.due(f"signal.{said[0]}"):
                logger.exception("A receiver of this app's signals failed; the decision of limiter %s stands", said[0])


checked = Announcement("result", "ruleset", "plan", "seconds")
failed = Announcement("error", "failure_mode")
compared = Announcement("result", "legacy_blocked", "agreement", "boundary")
near_limit = Announcement("rule", "used", "limit", "key")
rules_changed = Signal()
rules_loaded = Signal()
