"""Time replays: requests of an access log per second, for ten rules, on one core.

Run by hand: ``python -m tests.benchmarks.replay``. The first log is the example's log, repeated with other dates, so
that windows end at the same rate. The second log is of a busy site, with many lines per second and more requests of
each client. Each runs alone, and then together with a live ruleset of the same length. The figures are the CPU time
of this process, the best of several runs, because machines are noisy.
"""

from __future__ import annotations

import gc
import io
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

RUNS = int(os.environ.get("RUNS", "5"))
COPIES = int(os.environ.get("COPIES", "20"))
LOG = Path(__file__).resolve().parents[2] / "example_project" / "traffic" / "access.log"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    gc.freeze()
    from django_ratelimit_rules.engine import KeyWriter, Ruleset
    from django_ratelimit_rules.replay import reader_of, replay

    for log_name, log in (("real traffic", repeated()), ("busy traffic", busy())):
        for rules_name, rules in (("ten limits that all match", ten()), ("a mixed ten", mixed())):
            draft = Ruleset("site", rules, keys=KeyWriter(b"secret"))
            for beside, lives in (("", {}), (", and the live rules", {"site": draft})):
                best = float("inf")
                for _ in range(RUNS):
                    started = time.process_time()
                    report = replay({"site": draft}, lives, reader_of(io.BytesIO(log), [draft]))
                    best = min(best, time.process_time() - started)
                size = report.order.requests
                refused = report.replays[0].draft.refused
                print(
                    f"{log_name}, {rules_name}{beside}: {size / best:,.0f} requests a second"
                    f" ({best / size * 1e6:.2f} µs each, {size:,} requests, {refused:,} blocked)"
                )


def repeated() -> bytes:
    """Return the example's log, repeated for several months."""
    log = LOG.read_bytes()
    months = [(month, year) for year in range(2015, 2040) for month in ("Jan", "Mar", "May", "Jul")][:COPIES]
    return b"".join(log.replace(b"/May/2015", f"/{month}/{year}".encode()) for month, year in months)


def busy() -> bytes:
    """Return a log of a hundred requests per second. A few of some thousand clients send most of them."""
    chance = random.Random(7)
    by_client: dict[bytes, list[bytes]] = {}
    for line in LOG.read_bytes().splitlines():
        by_client.setdefault(line.partition(b" ")[0], []).append(line.partition(b"] ")[2])
    tails = list(by_client.values())
    clients = [b"10.%d.%d.%d" % (n % 7, n // 250 % 250, n % 250) for n in range(5000)]

    def made() -> Iterator[bytes]:
        for number in range(10_000 * COPIES):
            second = number // 100
            who = min(int(chance.expovariate(1 / 400)), 4999)
            asked = tails[who % len(tails)]
            clock = b"%02d:%02d:%02d" % (second // 3600 % 24, second // 60 % 60, second % 60)
            yield b"%s - - [17/May/2015:%s +0000] %s\n" % (clients[who], clock, asked[number % len(asked)])

    return b"".join(made())


def ten() -> tuple[object, ...]:
    """Return ten limits by address, of each algorithm. They match each request."""
    from django_ratelimit_rules import Rule

    kinds = ["fixed_window"] * 5 + ["sliding_window"] * 3 + ["token_bucket"] * 2
    periods = [10, 60, 300, 3600, 86400, 60, 600, 3600, 60, 3600]
    return tuple(
        Rule(f"rule_{number}", characteristics=["ip"], limit=10**6, period=period, algorithm=kind)
        for number, (kind, period) in enumerate(zip(kinds, periods, strict=True))
    )


def mixed() -> tuple[object, ...]:
    """Return ten typical rules: a bypass, shadows, patterns, and limits by user agent and address that block."""
    from django_ratelimit_rules import Rule

    welcome = {"ip": {"cidr": "100.115.218.0/24"}}
    crawler = {"header.user-agent": {"regex": "(?i)bot|crawler|spider|slurp"}}
    return (
        Rule("operators", action="skip", match={"path": {"prefix": ["/admin/", "/static/"]}}),
        Rule("welcome_seen", action="log", match=welcome, characteristics=["ip"], limit=10, period="1h"),
        Rule("welcome", action="skip", match=welcome),
        Rule("crawlers", match=crawler, characteristics=["header.user-agent"], limit=50, period="1h"),
        Rule("nameless", match={"header.user-agent": None}, characteristics=["ip"], limit=20, period="1h"),
        Rule("downloads", match={"path": {"prefix": "/files/"}}, characteristics=["ip"], limit=15, period="1h"),
        Rule("shadow", action="log", characteristics=["ip"], limit=50, period="1m"),
        Rule("clients", characteristics=["ip"], limit=100, period="1m"),
        Rule("smooth", characteristics=["ip"], limit=300, period="1h", algorithm="sliding_window"),
        Rule("bucket", characteristics=["ip"], limit=300, period="1h", algorithm="token_bucket"),
    )


if __name__ == "__main__":
    main()
