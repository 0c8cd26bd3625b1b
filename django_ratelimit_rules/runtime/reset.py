"""The registry of this process's state, for forks, changes of settings and tests.

A :class:`Part` goes in, registered once under a name. Only this module listens to forks and to ``setting_changed``. It
calls each part in turn. It knows nothing of the parts.
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
    """State of this process. A subclass overrides the methods of its events. By default they do nothing."""

    def before_fork(self) -> None:
        """Prepare for a fork, in the parent."""

    def after_fork_in_parent(self) -> None:
        """Continue after a fork, in the parent."""

    def after_fork(self) -> None:
        """Replace locks, and drop numbers that the parent has yet to write. Called in the child.

        A thread of the parent may have held a lock. That thread does not exist in the child.
        """

    def forget(self) -> None:
        """Forget all state, so that each test starts without it."""

    def remembers(self) -> bool:
        """Return whether :meth:`forget` has anything to do."""
        return False

    def setting_changed(self, name: str) -> None:
        """React to a change of a Django setting, for example by ``override_settings``."""


AnyPart = TypeVar("AnyPart", bound=Part)

parts: dict[str, Part] = {}


def register(name: str, part: AnyPart) -> AnyPart:
    """Add a part under a unique name, and return it."""
    if name in parts:
        raise ValueError(f"the name {name!r} is taken by another part of the process")
    parts[name] = part
    return part


def forget() -> None:
    """Call ``forget`` of every part."""
    for part in list(parts.values()):
        part.forget()


def _before_fork() -> None:
    # Later parts depend on earlier parts, so they prepare first. Python orders its own fork hooks in the same way.
    _call(part.before_fork for part in reversed(list(parts.values())))


def _after_fork_in_parent() -> None:
    _call(part.after_fork_in_parent for part in list(parts.values()))


def _after_fork() -> None:
    _call(part.after_fork for part in list(parts.values()))


def _call(methods: Iterable[Callable[[], None]]) -> None:
    """Call all methods, even if one fails, because a lock that stays held would stop the child."""
    for method in methods:
        try:
            method()
        except Exception:
            logger.exception("A part of the process failed at a fork (%s)", method.__qualname__)


def _setting_changed(*, setting: str, **_: object) -> None:
    # Remove the old value first, because the parts read settings.
    settings.forget(setting)
    for part in list(parts.values()):
        part.setting_changed(setting)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork)
setting_changed.connect(_setting_changed, dispatch_uid="django_ratelimit_rules.runtime.reset")
