"""Time each page of the admin, and count its queries, with 50 rulesets of 200 rules that all had calls this hour.

Run by hand: ``python -m tests.benchmarks.admin_pages``. ``ROUNDS=20`` gives steadier figures. The output shows the
processor's time next to the clock's, and only the fastest round, because machines are shared.
"""

from __future__ import annotations

import os
import time
from urllib.parse import urlsplit

ROUNDS = int(os.environ.get("ROUNDS", "5"))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.servers import redis_server

    with redis_server(urlsplit(settings.REDIS_URL).port):
        call_command("migrate", verbosity=0)
        run()


def run() -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from tests import long_rulesets

    client = long_rulesets.operator()
    long_rulesets.make()
    long_rulesets.use()
    print(f"{'page':28} {'ms':>6} {'cpu ms':>7} {'queries':>8} {'kB':>6}    fastest of {ROUNDS}")
    for name, ready in long_rulesets.pages(client):
        ready()()
        clock, processor = [], []
        for _ in range(ROUNDS):
            ask = ready()
            began, used = time.perf_counter(), time.process_time()
            answer = ask()
            clock.append(1000 * (time.perf_counter() - began))
            processor.append(1000 * (time.process_time() - used))
        ask = ready()
        with CaptureQueriesContext(connection) as queries:
            ask()
        figures = f"{min(clock):6.0f} {min(processor):7.0f} {len(queries):8} {len(answer.content) / 1000:6.0f}"
        print(f"{name:28} {figures}")


if __name__ == "__main__":
    main()
