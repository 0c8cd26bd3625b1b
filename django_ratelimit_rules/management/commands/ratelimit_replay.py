"""``ratelimit_replay --traffic FILE``: the effect of a draft or of the live rules on recorded traffic."""

from __future__ import annotations

import gc
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine import Ruleset
from ...engine.messages import message_of
from ...exceptions import CountersUnavailable, InvalidRulesFile
from ...replay import drafts, replay, text_report
from ...rulesets import file as rules_file
from ...rulesets.tiers import Tier
from ...runtime.language import localized
from ._traffic import RECORD, opened


class Command(BaseCommand):
    """Run rules over traffic, and print their effect. Live counters stay unchanged, and nothing is written."""

    help = gettext_noop(
        "Run rules over recorded traffic, in memory and with the times of the traffic. Show the effect of each rule,"
        " the blocked clients with times and durations, and the differences from the live rules."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take rules and traffic."""
        parser.description = _(self.help)
        parser.add_argument(
            "--traffic",
            required=True,
            metavar="FILE",
            help=_(
                "An access log of Apache or nginx (combined or common) or JSON lines, with or without gzip. Use - for"
                " the standard input, and %(record)s for the record of RATELIMIT_RULES_RECORD."
            )
            % {"record": RECORD},
        )
        parser.add_argument("--rules", metavar="FILE", help=_("A draft in YAML or JSON (default: the live rules)."))
        parser.add_argument(
            "--limiter", metavar="NAME", help=_("Replay only this limiter. Required if a log could belong to several.")
        )
        parser.add_argument(
            "--as",
            dest="tier",
            choices=[Tier.ADMIN.value, Tier.FILE.value],
            default=Tier.ADMIN.value,
            help=_("The tier that the draft would replace. Other tiers stay (default: %(default)s)."),
        )
        parser.add_argument("--enforce", action="store_true", help=_("Run all rulesets in mode enforce."))
        parser.add_argument(
            "--top", type=int, default=20, metavar="N", help=_("The number of clients to show (default: %(default)s).")
        )
        parser.add_argument("--spells", action="store_true", help=_("Show each period in which a client was blocked."))
        parser.add_argument("--no-progress", dest="progress", action="store_false", help=_("Show no progress bar."))

    def handle(self, *, traffic: str, limiter: str | None, progress: bool, top: int, **options: Any) -> None:
        """Replay the traffic, then print the report."""
        rules = self._rules(options["rules"], Tier(options["tier"]), limiter)
        lives = drafts.live(rules) if options["rules"] or options["enforce"] else {}
        # Freeze the existing objects, because millions of strings without cycles trigger the collector. It would search
        # all of Django's objects, which takes a third of the time.
        gc.freeze()
        try:
            with opened(traffic, [*rules.values(), *lives.values()], self.stderr if progress else None) as reader:
                if len(rules) > 1 and not reader.names_limiters:
                    message = _("This traffic could belong to several limiters. Add --limiter, one of %(names)s.")
                    raise CommandError(message % {"names": ", ".join(rules)})
                report = replay(rules, lives, reader, enforce=options["enforce"])
        except (OSError, EOFError, CountersUnavailable) as error:
            raise CommandError(f"{traffic}: {localized(message_of(error))}") from error
        finally:
            gc.unfreeze()
        for line in text_report.lines(report, top, options["spells"]):
            self.stdout.write(localized(line))

    def _rules(self, file: str | None, tier: Tier, limiter: str | None) -> dict[str, Ruleset]:
        try:
            rulesets = drafts.drafts(rules_file.read(file), tier) if file else drafts.live()
        except InvalidRulesFile as error:
            raise CommandError(localized(message_of(error))) from error
        if limiter is not None:
            rulesets = {name: ruleset for name, ruleset in rulesets.items() if name == limiter}
            if not rulesets:
                raise CommandError(_("There are no rules for %(limiter)s to replay.") % {"limiter": limiter})
        if not rulesets:
            raise CommandError(_("There are no rules to replay."))
        return rulesets
