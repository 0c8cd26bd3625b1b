"""The one daemon thread of a process, and the tasks that it calls.

Functions go in, each with its interval in seconds. Nothing comes out. The thread starts with the first check (never at
import) and again after a fork. Knows nothing of the tasks' work.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ..conf import settings
from . import log_sampling, reset

logger = logging.getLogger(__name__)

# The thread wakes up twice per REFRESH_SECONDS, within these bounds.
SHORTEST_SLEEP = 0.05
LONGEST_SLEEP = 5.0
# The longest time in seconds that a fork waits for the thread.
FORK_WAITS = 3.0


class Task:
    """A function that the thread calls, and its interval in seconds.

    ``called`` is the monotonic time of the last call.
    """

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self.function = function
        self.seconds = seconds
        self.called = 0.0

    def call_when_due(self) -> None:
        """Call the function if its interval has passed. Never raises."""
        now = time.monotonic()
        if now - self.called < self.seconds:
            return
        self.called = now
        try:
            self.function()
        except Exception:
            # The thread must survive all exceptions of a database, a key function or a cache backend.
            if log_sampling.due(f"background.{self.function.__module__}"):
                logger.exception("A background task (%s) failed and will be called again", self.function.__module__)

    def call_at_exit(self) -> None:
        """Call the function a last time, so that a process that stops loses nothing."""
        # Redis may have stopped already. A process that ends must not print a traceback for that.
        with suppress(Exception):
            self.function()


class Background(reset.Part):
    """The thread of this process."""

    def __init__(self) -> None:
        self.tasks: dict[Callable[[], None], Task] = {}
        self._waited = threading.local()
        self.after_fork()

    def every(self, seconds: float, function: Callable[[], None], *, at_exit: bool = False) -> None:
        """Have the thread call a fast function at an interval in seconds (0: whenever it wakes up).

        With ``at_exit`` the process calls it once more when it ends.
        """
        if function not in self.tasks:
            self.tasks[function] = task = Task(function, seconds)
            if at_exit:
                atexit.register(task.call_at_exit)

    def ensure(self) -> None:
        """Start the thread unless it runs. Every check calls this, so it must be fast."""
        if self._thread is None:
            self._start()

    def after_fork(self) -> None:
        """Forget the thread, because a forked process has no background thread."""
        self._lock = threading.Lock()
        # Held while the thread runs tasks. Reentrant, because a task may fork.
        self._at_work = threading.RLock()
        self._thread: threading.Thread | None = None

    def before_fork(self) -> None:
        """Before a fork, let the thread finish its tasks, for a moment.

        The thread may hold a lock of a database library, such as SQLite's. Nothing would release it in the child.
        """
        self._waited.acquired = self._at_work.acquire(timeout=FORK_WAITS)

    def after_fork_in_parent(self) -> None:
        """Let the thread of the parent continue after a fork."""
        if self._waited.acquired:
            self._at_work.release()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="ratelimit-rules-background", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The process has no more threads, or is ending. A check must not fail for that.
                if log_sampling.due("background.start"):
                    logger.warning("Rules are not refreshed, because no thread can be started: %s", error)
            else:
                self._thread = thread

    def _run(self) -> None:
        while True:
            with self._at_work:
                for task in list(self.tasks.values()):
                    task.call_when_due()
            time.sleep(min(max(SHORTEST_SLEEP, settings.REFRESH_SECONDS / 2), LONGEST_SLEEP))


background = reset.register("background", Background())
every = background.every
ensure = background.ensure
tasks = background.tasks
