"""``ratelimit_suggest``: the number of calls of clients, and the limits that block given shares of clients."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ... import rulesets
from ...engine import Ruleset
from ...engine.messages import message_of, ngettext
from ...exceptions import CountersUnavailable
from ...monitoring import fullest_counters
from ...replay import distribution, drafts, suggestion_text
from ...replay.distribution import Distribution
from ...rulesets import file as rules_file
from ...runtime.language import localized
from ._traffic import RECORD, opened


class Command(BaseCommand):
    """Print distributions and the limits for shares of blocked clients. Print one limit as a draft rule."""

    help = gettext_noop(
        "Show the number of calls of clients in a period. Show the limit that blocks a share of clients, as a table and"
        " as a draft rule. The source is recorded traffic or the live counters of a rule, for example a log rule."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the limiter, the traffic, and the counters to measure."""
        parser.description = _(self.help)
        parser.add_argument("limiter", help=_("The limiter that this traffic belongs to."))
        parser.add_argument(
            "--traffic",
            metavar="FILE",
            help=_(
                "A log, JSON lines, - or %(record)s, as for ratelimit_replay (default: the live counters of --rule)."
            )
            % {"record": RECORD},
        )
        parser.add_argument(
            "--rule", metavar="NAME", help=_("Count as this rule does. It must be in force or in --rules.")
        )
        parser.add_argument("--rules", metavar="FILE", help=_("A draft that contains --rule."))
        parser.add_argument(
            "--by",
            action="append",
            metavar="PROPERTY",
            help=_("Count by this property (default: ip). Can be repeated."),
        )
        parser.add_argument("--period", action="append", help=_("Count in this period (default: 1m). Can be repeated."))
        parser.add_argument(
            "--match",
            type=json.loads,
            default={},
            metavar="JSON",
            help=_("Count only calls that match these conditions."),
        )
        parser.add_argument(
            "--refuse",
            type=float,
            default=1.0,
            metavar="PERCENT",
            help=_("Block this percentage of all clients (default: 1)."),
        )
        parser.add_argument("--no-progress", dest="progress", action="store_false", help=_("Show no progress bar."))

    def handle(self, *, limiter: str, traffic: str | None, refuse: float, progress: bool, **options: Any) -> None:
        """Measure the traffic or counters, then print the distributions."""
        if not 0 <= refuse <= 100:
            raise CommandError(_("--refuse must be a percentage from 0 to 100."))
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
                    distributions, missing = distribution.measure(ruleset, reader)
                bad = reader.bad.total
            elif options["rule"] and not options["rules"]:
                distributions, missing, bad = [self._of_counters(ruleset)], [], 0
            else:
                raise CommandError(_("Add --traffic, or add --rule with a rule in force to read its counters."))
        except (OSError, EOFError, LookupError, CountersUnavailable, TypeError, ValueError) as error:
            raise CommandError(localized(message_of(error))) from error
        if bad:
            message = ngettext(
                "%(number)s line could not be read. Run ratelimit_replay to list it.",
                "%(number)s lines could not be read. Run ratelimit_replay to list them.",
                bad,
            )
            self.stdout.write(localized(message))
        for name in missing:
            template = _("This traffic does not contain %(name)s, so it is treated as missing.")
            self.stdout.write(template % {"name": name})
        for measured in distributions:
            for line in suggestion_text.lines(measured, refuse):
                self.stdout.write(localized(line))
            if measured.busiest:
                self.stdout.write(f"\n{suggestion_text.draft(limiter, measured, refuse)}")

    def _of_counters(self, ruleset: Ruleset) -> Distribution:
        rule = ruleset.rules[-1]
        if not rule.counts:
            raise LookupError(_("Rule %(rule)s counts nothing.") % {"rule": rule.name})
        counted, complete = fullest_counters.pressures(ruleset.limiter, rule.name)
        if not complete:
            self.stdout.write(_("Only some of the counters were read, because there are too many."))
        return distribution.of_counters(rule, counted)


def _of_rule(limiter: str, options: dict[str, Any]) -> Ruleset:
    ruleset = rulesets.get(limiter)
    if options["rules"]:
        draft = rules_file.read(options["rules"])
        if limiter not in draft:
            raise LookupError(
                _("%(file)s has no limiter %(limiter)s.") % {"file": options["rules"], "limiter": limiter}
            )
        ruleset = drafts.drafts(draft)[limiter]
    return distribution.only(ruleset, options["rule"])
