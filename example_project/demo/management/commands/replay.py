"""``manage.py replay``: real traffic through the whole site in this process, then one table of what the rules did."""

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
# The log's 84 hours go by on the charts within so many minutes; what is scripted behind it comes in the one after.
MINUTES = 56

EXPLANATION = """\
Every number is a decision of the live rules: the requests went through the site's middleware and views, and were
counted in the store. Windows run on the store's clock, in replay time: the log covers 84 hours, the replay took
{seconds:.0f} s, so an hourly limit saw all of it in one window and bit far sooner than it would have on the day.
After the log come 144 API calls by twelve colleagues of one organisation (ten each get through, until its hundred is
used up: refused calls use up nothing), eight guesses at one password and 35 looks at the async status view.
Meanwhile somebody changed rules, as their history tells. The admin's charts, and what was recorded for its Replay and
Suggest, show the log's hours as minutes."""
DECISION = "This refusal was kept, explained, for an hour: {decision}. Paste that into Explain in the admin."


class Command(BaseCommand):
    """Send the requests of the access log through the site."""

    help = "Replay the access log through the site's middleware and views, and show what each rule decided."

    # POSIX time: when the request that is sent now is taken to have come.
    now = 0.0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--requests``."""
        parser.add_argument("--requests", type=int, metavar="N", help="only the first N requests of the log")

    def handle(self, *, requests: int | None, **options: object) -> None:
        """Replay, then print."""
        if requests is not None and requests < 0:
            raise CommandError("--requests takes 0 or more.")
        # A line for each blocked request is for a live site; here the table says it.
        logging.disable(logging.WARNING)
        reset_counters()
        visits = [*logged_visits(requests), *pipeline_visits(), *sign_in_visits(), *status_visits()]
        recorder = Recorder()
        started = perf_counter()
        # Calls before the replay count in the minute in which they came.
        last_hour.gather()
        first = int(time()) // 60 - MINUTES - 1
        self.now = first * 60.0
        # The clock is moved as well, because the background thread gathers by it, and recordings are noted by it.
        with recorder.listening(), clock.replaced(lambda: self.now):
            statuses, decision = self.send(visits, recorder, first)
            last_hour.gather(self.now)
        seconds = perf_counter() - started
        # Whoever tries the API by hand next must not find its minute used up.
        reset_counters("pipelines_create")
        self.stdout.write()
        for line in table.lines(HEADINGS, list(rows(recorder)), shutil.get_terminal_size((120, 24)).columns):
            self.stdout.write(line)
        answers = ", ".join(f"{status} {count:,} times" for status, count in sorted(statuses.items()))
        self.stdout.write(f"\n{len(visits):,} requests in {seconds:.1f} s, answered with {answers}.")
        self.stdout.write(EXPLANATION.format(seconds=seconds))
        if decision:
            self.stdout.write(DECISION.format(decision=decision))

    def send(self, visits: list[Visit], recorder: Recorder, first: int) -> tuple[Counter[int], str]:
        """Send requests, one after the other, as a WSGI server would; return how often each status came back, and the
        id of the last refusal that was kept. ``first`` is the minute in which the first request counts."""
        application = get_wsgi_application()
        statuses: Counter[int] = Counter()
        decision, story = "", Story()
        for visit in tqdm(visits, desc="Replaying", unit=" requests", mininterval=0.25):
            recorder.client = visit.client
            now = (first + visit.share * MINUTES) * 60
            if now // 60 != self.now // 60:
                last_hour.gather(self.now)
            self.now = now
            story.goes_on(visit.share, now)
            response = application(visit.environ(), lambda status, headers: None)
            response.close()
            if response.status_code >= 500:
                raise CommandError(f"The site failed to answer {visit.method} {visit.target}.")
            statuses[response.status_code] += 1
            decision = response.headers.get("RateLimit-Decision", decision)
        return statuses, decision


def rows(recorder: Recorder) -> Iterator[tuple[table.Cell, ...]]:
    """Yield a row of the table for each rule of the database, in their order."""
    for rule in Rule.objects.select_related("ruleset").order_by("ruleset_id", "position", "pk"):
        decisions = recorder.of(rule.ruleset.name, rule.name)
        clients = ", ".join(
            f"{client}\N{NO-BREAK SPACE}({count:,})" for client, count in decisions.clients.most_common(HEAVIEST)
        )
        if rule.action == "skip":
            numbers: tuple[table.Cell, ...] = ("-", "-", "-")
            clients = f"let {decisions.let_through:,} through: {clients}" if clients else ""
        else:
            numbers = (decisions.counted, decisions.exceeded, decisions.blocked)
        yield rule.ruleset.name, rule.name, rule.action, *numbers, clients or "none came"
