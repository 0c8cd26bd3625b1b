"""The state that this process holds, in one registry: after a fork, after a change of settings and for tests.

A :class:`Part` goes in, registered once under a name. This module alone listens to forks and to ``setting_changed``,
and calls each part in turn. The parts themselves are not known here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.core.signals import setting_changed

from ..conf import settings

logger = logging.getLogger(__name__)


class Part:
    """State of this process. A subclass overrides the methods of the events that concern it; by default each does
    nothing."""

    def before_fork(self) -> None:
        """Prepare for a fork, in the parent."""

    def after_fork_in_parent(self) -> None:
        """Continue after a fork, in the parent."""

    def after_fork(self) -> None:
        """Replace locks, and leave to the parent the numbers that it has yet to write. Called in the child.

        A thread of the parent may have held a lock, and that thread does not exist in the child.
        """

    def forget(self) -> None:
        """Forget what this process has learnt, so that a test starts afresh."""

    def remembers(self) -> bool:
        """Return whether :meth:`forget` has anything to do."""
        return False

    def setting_changed(self, name: str) -> None:
        """Follow a change of a Django setting, such as ``override_settings`` makes."""


AnyPart = TypeVar("AnyPart", bound=Part)

parts: dict[str, Part] = {}


def register(name: str, part: AnyPart) -> AnyPart:
    """Add a part under a name of its own, and return it."""
    if name in parts:
        raise ValueError(f"the name {name!r} is taken by another part of the process")
    parts[name] = part
    return part


def forget() -> None:
    """Have every part forget."""
    for part in list(parts.values()):
        part.forget()


def _before_fork() -> None:
    # Later parts build on earlier ones, so they prepare first. Python orders such hooks in the same way.
    _call(part.before_fork for part in reversed(list(parts.values())))


def _after_fork_in_parent() -> None:
    _call(part.after_fork_in_parent for part in list(parts.values()))


def _after_fork() -> None:
    _call(part.after_fork for part in list(parts.values()))


def _call(methods: Iterable[Callable[[], None]]) -> None:
    """Call each method, the remaining ones as well when one fails: a lock left held would stop the child."""
    for method in methods:
        try:
            method()
        except Exception:
            logger.exception("A part of the process failed at a fork (%s)", method.__qualname__)


def _setting_changed(*, setting: str, **_: object) -> None:
    # The parts read settings, so the old value goes first.
    settings.forget(setting)
    for part in list(parts.values()):
        part.setting_changed(setting)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork)
setting_changed.connect(_setting_changed, dispatch_uid="django_ratelimit_rules.runtime.reset")
