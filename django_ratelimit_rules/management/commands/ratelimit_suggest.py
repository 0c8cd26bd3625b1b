"""``ratelimit_suggest``: how many calls clients make, and which limit refuses which share of them."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ... import rulesets
from ...engine import Ruleset
from ...exceptions import CountersUnavailable
from ...monitoring import fullest_counters
from ...replay import distribution, drafts, suggestion_text
from ...replay.distribution import Distribution
from ...rulesets import file as rules_file
from ._traffic import RECORD, opened


class Command(BaseCommand):
    """Print distributions, and limits for shares of refused clients, one of them as a draft rule."""

    help = (
        "Tell how many calls clients make in a period, and the limit that refuses a share of them, as a table and as a"
        " draft rule. From recorded traffic, or from the live counters of a rule, such as a log rule's."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to measure, and where."""
        parser.add_argument("limiter", help="Whose traffic this is.")
        parser.add_argument(
            "--traffic",
            metavar="FILE",
            help=f"As for ratelimit_replay: a log, JSON lines, - or {RECORD}. Without it --rule's counters are read.",
        )
        parser.add_argument("--rule", metavar="NAME", help="Measure what this rule counts, in force or in --rules.")
        parser.add_argument("--rules", metavar="FILE", help="A draft that has --rule.")
        parser.add_argument("--by", action="append", metavar="PROPERTY", help="By this (default: ip); may be repeated.")
        parser.add_argument("--period", action="append", help="In this time (default: 1m); may be repeated.")
        parser.add_argument("--match", type=json.loads, default={}, metavar="JSON", help="Only what matches this.")
        parser.add_argument("--refuse", type=float, default=1.0, metavar="PERCENT", help="Of all clients (default: 1).")
        parser.add_argument("--no-progress", dest="progress", action="store_false", help="Show no progress bar.")

    def handle(self, *, limiter: str, traffic: str | None, refuse: float, progress: bool, **options: Any) -> None:
        """Measure, then print."""
        if not 0 <= refuse <= 100:
            raise CommandError("--refuse takes a percentage from 0 to 100.")
        try:
            ruleset = (
                _of_rule(limiter, options)
                if options["rule"]
                else distribution.made(
                    rulesets.get(limiter), options["by"] or ["ip"], options["period"] or ["1m"], options["match"]
                )
            )
            if traffic is not None:
                with opened(traffic, [ruleset], self.stderr if progress else None) as reader:
                    found, untold = distribution.measure(ruleset, reader)
                bad = reader.bad.total
            elif options["rule"] and not options["rules"]:
                found, untold, bad = [self._of_counters(ruleset)], [], 0
            else:
                raise CommandError("Give --traffic, or a --rule in force whose counters are to be read.")
        except (OSError, EOFError, LookupError, CountersUnavailable, TypeError, ValueError) as error:
            raise CommandError(str(error)) from error
        if bad:
            self.stdout.write(f"{bad:,} lines could not be read; ratelimit_replay names them.\n")
        for name in untold:
            self.stdout.write(f"This traffic does not contain {name}, so it is treated as missing.\n")
        for each in found:
            for line in suggestion_text.lines(each, refuse):
                self.stdout.write(line)
            if each.busiest:
                self.stdout.write(f"\n{suggestion_text.draft(limiter, each, refuse)}")

    def _of_counters(self, ruleset: Ruleset) -> Distribution:
        rule = ruleset.rules[-1]
        if not rule.counts:
            raise LookupError(f"rule {rule.name} counts nothing")
        counted, complete = fullest_counters.pressures(ruleset.limiter, rule.name)
        if not complete:
            self.stdout.write("There are more counters than were looked at.")
        return distribution.of_counters(rule, counted)


def _of_rule(limiter: str, options: dict[str, Any]) -> Ruleset:
    found = rulesets.get(limiter)
    if options["rules"]:
        said = rules_file.read(options["rules"])
        if limiter not in said:
            raise LookupError(f"{options['rules']} has no limiter {limiter}")
        found = drafts.drafts(said)[limiter]
    return distribution.only(found, options["rule"])
