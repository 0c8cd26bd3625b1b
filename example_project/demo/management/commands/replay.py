"""``manage.py replay``: send real traffic through the whole site in this process, then print the decisions."""

import argparse
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from time import perf_counter, time

from django.core.management import BaseCommand, CommandError
from django.core.wsgi import get_wsgi_application
from tqdm import tqdm

from demo import table
from demo.recorder import Recorder
from demo.story import Story
from demo.visits import Visit, logged_visits, pipeline_visits, sign_in_visits, status_visits
from django_ratelimit_rules.models import Rule
from django_ratelimit_rules.monitoring import last_hour
from django_ratelimit_rules.runtime.clock import clock
from django_ratelimit_rules.testing import reset_counters

HEADINGS = ("limiter", "rule", "action", "counted", "exceeded", "blocked", "heaviest clients (requests)")
HEAVIEST = 5
# The charts show the log's 84 hours in this number of minutes. The scripted requests come in the next minute.
MINUTES = 56

EXPLANATION = """\
The numbers are real decisions: each request went through the site's middleware and views, and was counted in the
store. Windows follow the store's clock. The log covers 84 hours, but the replay took {seconds:.0f} s. An hourly limit
therefore counted the whole log in one window, and blocked far sooner than it would have on the day.
After the log, the replay sent scripted requests:
  - 144 API calls by twelve colleagues of one organisation. Ten calls of each are allowed, until the organisation's
    limit of 100 is reached. Blocked calls are not charged.
  - Eight guesses at one password.
  - 35 requests to the async status view.
During the replay, operators changed rules. The rulesets' history in the admin shows these changes.
The admin's charts and its recorded traffic (for Replay and Suggest) show the log's hours as minutes."""
DECISION = "To see why a request was blocked, paste {decision} into Explain in the admin within an hour."


class Command(BaseCommand):
    """Send the requests of the access log through the site."""

    help = "Replay the access log through the site's middleware and views, and show the decisions of each rule."

    # POSIX time of the current request in the replay.
    now = 0.0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--requests``."""
        parser.add_argument("--requests", type=int, metavar="N", help="only the first N requests of the log")

    def handle(self, *, requests: int | None, **options: object) -> None:
        """Replay, then print."""
        if requests is not None and requests < 0:
            raise CommandError("--requests must be 0 or more.")
        # Don't log each blocked request, because the table shows them.
        logging.disable(logging.WARNING)
        reset_counters()
        visits = [*logged_visits(requests), *pipeline_visits(), *sign_in_visits(), *status_visits()]
        recorder = Recorder()
        started = perf_counter()
        # Gather earlier calls first, so that they count in their own minute.
        last_hour.gather()
        first = int(time()) // 60 - MINUTES - 1
        self.now = first * 60.0
        # Replace the clock, because the background thread and the recordings use its time.
        with recorder.listening(), clock.replaced(lambda: self.now):
            statuses, decision = self.send(visits, recorder, first)
            last_hour.gather(self.now)
        seconds = perf_counter() - started
        # Reset this limiter, so that the first API call by hand is not blocked.
        reset_counters("pipelines_create")
        self.stdout.write()
        for line in table.lines(HEADINGS, list(rows(recorder)), shutil.get_terminal_size((120, 24)).columns):
            self.stdout.write(line)
        answers = ", ".join(f"{status} ({count:,})" for status, count in sorted(statuses.items()))
        self.stdout.write(f"\n{len(visits):,} requests in {seconds:.1f} s. Response statuses: {answers}.")
        self.stdout.write(EXPLANATION.format(seconds=seconds))
        if decision:
            self.stdout.write(DECISION.format(decision=decision))

    def send(self, visits: list[Visit], recorder: Recorder, first: int) -> tuple[Counter[int], str]:
        """Send requests in order, as a WSGI server would.

        Returns the number of responses of each status, and the decision id of the last blocked request. ``first`` is
        the minute in which the first request counts.
        """
        application = get_wsgi_application()
        statuses: Counter[int] = Counter()
        decision, story = "", Story()
        for visit in tqdm(visits, desc="Replaying", unit=" requests", mininterval=0.25):
            recorder.client = visit.client
            now = (first + visit.share * MINUTES) * 60
            if now // 60 != self.now // 60:
                last_hour.gather(self.now)
            self.now = now
            story.advance(visit.share, now)
            response = application(visit.environ(), lambda status, headers: None)
            response.close()
            if response.status_code >= 500:
                raise CommandError(f"{visit.method} {visit.target} failed with status {response.status_code}.")
            statuses[response.status_code] += 1
            decision = response.headers.get("RateLimit-Decision", decision)
        return statuses, decision


def rows(recorder: Recorder) -> Iterator[tuple[table.Cell, ...]]:
    """Yield a row of the table for each rule of the database, in the order of evaluation."""
    for rule in Rule.objects.select_related("ruleset").order_by("ruleset_id", "position", "pk"):
        decisions = recorder.of(rule.ruleset.name, rule.name)
        clients = ", ".join(
            f"{client}\N{NO-BREAK SPACE}({count:,})" for client, count in decisions.clients.most_common(HEAVIEST)
        )
        if rule.action == "skip":
            numbers: tuple[table.Cell, ...] = ("-", "-", "-")
            clients = f"skipped {decisions.skipped:,}: {clients}" if clients else ""
        else:
            numbers = (decisions.counted, decisions.exceeded, decisions.blocked)
        yield rule.ruleset.name, rule.name, rule.action, *numbers, clients or "no requests"
