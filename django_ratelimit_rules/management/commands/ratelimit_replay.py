"""``ratelimit_replay --traffic FILE``: what a draft, or the live rules, would have done to recorded traffic."""

from __future__ import annotations

import gc
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...engine import Ruleset
from ...exceptions import CountersUnavailable, InvalidRulesFile
from ...replay import drafts, replay, text_report
from ...rulesets import file as rules_file
from ...rulesets.tiers import Tier
from ._traffic import RECORD, opened


class Command(BaseCommand):
    """Run rules over traffic, and print what they did. Nothing is counted anywhere else, and nothing is written."""

    help = (
        "Run rules over recorded traffic, on its own clock and in memory: what each rule would have done, who would"
        " have been blocked, when and for how long, and what is different from the live rules."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take rules and traffic."""
        parser.add_argument(
            "--traffic",
            required=True,
            metavar="FILE",
            help="An access log of Apache or nginx (combined or common), or JSON lines; may be compressed by gzip; -"
            f" for the standard input; {RECORD} for what RATELIMIT_RULES_RECORD recorded.",
        )
        parser.add_argument("--rules", metavar="FILE", help="A draft, YAML or JSON; without it the live rules are run.")
        parser.add_argument("--limiter", metavar="NAME", help="Only this one; needed where a log could belong to many.")
        parser.add_argument(
            "--as",
            dest="tier",
            choices=[Tier.ADMIN.value, Tier.FILE.value],
            default=Tier.ADMIN.value,
            help="Which tier the draft would replace; the others stay (default: admin).",
        )
        parser.add_argument("--enforce", action="store_true", help="Run rulesets that do not enforce as if they did.")
        parser.add_argument("--top", type=int, default=20, metavar="N", help="How many clients to show (default: 20).")
        parser.add_argument("--spells", action="store_true", help="Show each time for which they were blocked.")
        parser.add_argument("--no-progress", dest="progress", action="store_false", help="Show no progress bar.")

    def handle(self, *, traffic: str, limiter: str | None, progress: bool, top: int, **options: Any) -> None:
        """Replay, then print."""
        rules = self._rules(options["rules"], Tier(options["tier"]), limiter)
        lives = drafts.live(rules) if options["rules"] or options["enforce"] else {}
        # Millions of texts and no cycles: looking for some among all of Django's objects takes a third of the time.
        gc.freeze()
        try:
            with opened(traffic, [*rules.values(), *lives.values()], self.stderr if progress else None) as reader:
                if len(rules) > 1 and not reader.names_limiters:
                    raise CommandError(f"Which limiter is this traffic for? Give --limiter, one of {', '.join(rules)}.")
                report = replay(rules, lives, reader, enforce=options["enforce"])
        except (OSError, EOFError, CountersUnavailable) as error:
            raise CommandError(f"{traffic}: {error}") from error
        finally:
            gc.unfreeze()
        for line in text_report.lines(report, top, options["spells"]):
            self.stdout.write(line)

    def _rules(self, file: str | None, tier: Tier, limiter: str | None) -> dict[str, Ruleset]:
        try:
            found = drafts.drafts(rules_file.read(file), tier) if file else drafts.live()
        except InvalidRulesFile as error:
            raise CommandError(str(error)) from error
        if limiter is not None:
            found = {name: ruleset for name, ruleset in found.items() if name == limiter}
        if not found:
            raise CommandError(f"There are no {'rules' if limiter is None else f'rules for {limiter}'} to replay.")
        return found
