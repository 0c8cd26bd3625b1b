"""Time patterns that are exponential in a backtracking engine. Each string is twice as long as the one before.

Run by hand: ``python -m tests.benchmarks.patterns``. RE2 is linear, so each time is about twice the one before.
"""

from __future__ import annotations

import time

from django_ratelimit_rules.engine.matching import compile_match
from tests.hostile.test_texts import EXPONENTIAL

LENGTHS = (1000, 2000, 4000, 8000)
TIMES = 200


def main() -> None:
    print(f"microseconds for texts of {', '.join(map(str, LENGTHS))} characters, and the growth from first to last")
    for condition, text in EXPONENTIAL:
        holds = compile_match({"path": condition}).holds
        seconds = [timed(holds, text[0] * (length - 1) + "!") for length in LENGTHS]
        figures = " ".join(f"{each * 1e6:9.1f}" for each in seconds)
        name = str(condition)
        print(f"{figures}  x {seconds[-1] / seconds[0]:4.1f}  {name[:60]}")


def timed(holds, text: str) -> float:
    """Return the least of several times, because other work on this machine only adds time."""
    least = 1e9
    for _ in range(TIMES // 10):
        started = time.perf_counter()
        for _ in range(10):
            holds({"path": text}.get)
        least = min(least, (time.perf_counter() - started) / 10)
    return least


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    main()
