"""Code that runs in a forked child of a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(function: Callable[[], object]) -> int:
    """Call a function in a forked child. Return 0 if it returns a true value within five seconds."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(5)
            status = 0 if function() else 2
        finally:
            # End here, because the child would go through the other tests of its parent.
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
