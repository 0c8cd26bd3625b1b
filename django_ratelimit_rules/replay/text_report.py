"""Reports of replays as text for a terminal: a report goes in, lines in the active language come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..engine import Mode
from ..engine.durations import spell_span
from ..runtime.language import localized
from .plan_cache import Refusal
from .report import Replay, Report
from .runner import Blocked, Numbers, Spell

Cell = str | int | None
GAP = "  "


def lines(report: Report, most: int, spells: bool = False) -> Iterator[str]:
    """Yield the lines of a report, with the ``most`` blocked clients, and each of their spells if ``spells``."""
    order = report.order
    if order.first is None:
        yield _("No request was read.")
    else:
        yield ngettext(
            "%(number)s request from %(first)s to %(last)s (%(zone)s).",
            "%(number)s requests from %(first)s to %(last)s (%(zone)s).",
            order.requests,
        ) % {
            "number": grouped(order.requests),
            "first": moment(order.first),
            "last": moment(order.last),
            "zone": timezone.get_current_timezone_name(),
        }
    yield from _remarks(report)
    for replay in report.replays:
        yield ""
        yield from _replay(replay, most, spells)


def _remarks(report: Report) -> Iterator[str]:
    bad, order = report.bad, report.order
    if bad.total:
        yield ngettext("%(number)s line could not be read:", "%(number)s lines could not be read:", bad.total) % {
            "number": grouped(bad.total)
        }
        for number, reason in bad.shown:
            yield "  " + _("line %(number)s: %(reason)s") % {"number": grouped(number), "reason": reason}
        if bad.total > len(bad.shown):
            yield "  " + _("and %(number)s more") % {"number": grouped(bad.total - len(bad.shown))}
    if order.late:
        yield ngettext(
            "%(number)s request was out of order by up to %(span)s and was counted late. Sort the traffic by time"
            " first if there are many.",
            "%(number)s requests were out of order by up to %(span)s and were counted late. Sort the traffic by time"
            " first if there are many.",
            order.late,
        ) % {"number": grouped(order.late), "span": localized(spell_span(order.lateness))}
    if report.others:
        yield ngettext(
            "%(number)s request of other limiters, or of no limiter, was not replayed.",
            "%(number)s requests of other limiters, or of no limiter, were not replayed.",
            report.others,
        ) % {"number": grouped(report.others)}


def _replay(replay: Replay, most: int, spells: bool) -> Iterator[str]:
    draft = replay.draft
    yield _verdict(draft.ruleset.mode) % {
        "limiter": replay.limiter,
        "share": share(draft.refused, draft.requests),
    }
    for name, rules in replay.untold.items():
        yield _("This traffic does not contain %(name)s, so it is treated as missing (%(rules)s).") % {
            "name": name,
            "rules": ", ".join(rules),
        }
    for name, rules in replay.unreadable.items():
        yield _("This traffic has %(name)s as digests: conditions can only ask whether it exists (%(rules)s).") % {
            "name": name,
            "rules": ", ".join(rules),
        }
    if replay.left_out:
        yield _("Left out, because their limit is computed for each request: %(rules)s.") % {
            "rules": ", ".join(replay.left_out)
        }
    if draft.ruleset.rules:
        yield ""
        yield from _rules(replay)
    if replay.live is not None:
        yield ""
        yield from _difference(replay, most)
    if draft.blocked:
        yield ""
        yield from _clients(replay, most, spells)


def _verdict(mode: Mode) -> str:
    """Return the sentence about blocked requests, with placeholders for limiter and share."""
    if mode is Mode.DRY_RUN:
        return _(
            "%(limiter)s: %(share)s requests blocked. A dry run blocks no request. Use --enforce to see the requests"
            " that it would block."
        )
    if mode is Mode.OFF:
        return _("%(limiter)s: %(share)s requests blocked, because the ruleset is off and counts nothing.")
    return _("%(limiter)s: %(share)s requests blocked.")


def _rules(replay: Replay) -> Iterator[str]:
    heads = [_("rule"), _("action"), _("calls"), _("exceeded"), _("blocked")]
    compared = replay.live is not None
    rows: list[list[Cell]] = []
    for rule, numbers, before in replay.rules:
        rows.append([rule.name, rule.action.value, *_numbers(numbers, rule.counts)])
        if compared:
            rows[-1] += _numbers(before, rule.counts) if before else [None] * 3
    for rule, before in replay.gone:
        rows.append([rule.name, _("gone"), None, None, None, *_numbers(before, rule.counts)])
    if compared:
        heads += [_("live calls"), _("exceeded"), _("blocked")]
    yield from table(heads, rows)


def _numbers(numbers: Numbers, counts: bool) -> list[Cell]:
    return [numbers.calls, *([numbers.exceeded, numbers.blocked] if counts else [None, None])]


def _difference(replay: Replay, most: int) -> Iterator[str]:
    added, removed = replay.difference.added, replay.difference.removed
    if not added and not removed:
        yield _("The live rules block the same requests.")
        return
    yield ngettext(
        "Against the live rules: %(added)s more request blocked, %(removed)s no longer.",
        "Against the live rules: %(added)s more requests blocked, %(removed)s no longer.",
        added.total(),
    ) % {"added": grouped(added.total()), "removed": grouped(removed.total())}
    rows: list[list[Cell]] = []
    for word, counter in ((_("more"), added), (_("no longer"), removed)):
        ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:most]
        rows += [[word, refusal.rule, number, refusal.who] for refusal, number in ranked]
    yield from table([_("blocked"), _("by rule"), _("requests"), _("client")], rows)


def _clients(replay: Replay, most: int, spells: bool) -> Iterator[str]:
    draft = replay.draft
    yield _("Blocked clients (%(number)s by rule and client, most requests first):") % {
        "number": grouped(len(draft.blocked))
    }
    heads = [_("by rule"), _("requests"), _("times"), _("first"), _("last"), _("blocked for"), _("client")]
    yield from table(heads, [_client(*item) for item in replay.heaviest(most)])
    if draft.unnoted:
        yield ngettext(
            "and %(number)s request of more clients than a replay keeps",
            "and %(number)s requests of more clients than a replay keeps",
            draft.unnoted,
        ) % {"number": grouped(draft.unnoted)}
    if spells:
        for refusal, blocked in replay.heaviest(most):
            yield ""
            yield f"{refusal.rule}, {refusal.who}:"
            yield from (f"  {_spell(spell)}" for spell in blocked.spells)
            if blocked.times > len(blocked.spells):
                more = blocked.times - len(blocked.spells)
                yield "  " + ngettext("and %(number)s more time", "and %(number)s more times", more) % {
                    "number": grouped(more)
                }


def _spell(spell: Spell) -> str:
    if spell.until is None:
        return ngettext(
            "%(since)s for good, %(number)s request", "%(since)s for good, %(number)s requests", spell.calls
        ) % {"since": moment(spell.since), "number": grouped(spell.calls)}
    return ngettext(
        "%(since)s for %(span)s, %(number)s request", "%(since)s for %(span)s, %(number)s requests", spell.calls
    ) % {
        "since": moment(spell.since),
        "span": localized(spell_span(spell.until - spell.since)),
        "number": grouped(spell.calls),
    }


def _client(refusal: Refusal, blocked: Blocked) -> list[Cell]:
    span = _("for good") if blocked.forever else localized(spell_span(blocked.milliseconds))
    first, last = moment(blocked.first), moment(blocked.last)
    return [refusal.rule, blocked.calls, blocked.times, first, last, span, refusal.who]


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table. Columns of numbers are aligned to the right. A cell without value is a dash."""
    cells = [[_text(cell) for cell in row] for row in rows]
    right = [any(isinstance(row[at], int) for row in rows) for at in range(len(heads))]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for row in (heads, ["─" * width for width in widths], *cells):
        aligned = zip(row, widths, right, strict=True)
        texts = [text.rjust(width) if to_the_right else text.ljust(width) for text, width, to_the_right in aligned]
        yield GAP.join(texts).rstrip()


def share(part: int, whole: int) -> str:
    """Return a number of a whole with its share: ``"70 of 9,999 (0.70 %)"``, or ``"0 of 0"`` without a whole."""
    numbers = {"part": grouped(part), "whole": grouped(whole)}
    if not whole:
        return _("%(part)s of %(whole)s") % numbers
    percent = number_format(100 * part / whole, decimal_pos=2, use_l10n=True)
    return _("%(part)s of %(whole)s (%(percent)s %%)") % {**numbers, "percent": percent}


def moment(milliseconds: int) -> str:
    """Return a time in the project's time zone, in the ISO 8601 order that logs use in every language."""
    return f"{timezone.localtime(datetime.fromtimestamp(milliseconds / 1000, UTC)):%Y-%m-%d %H:%M:%S}"


def grouped(number: int) -> str:
    """Return a number with the separators of the active language: ``"9,999"`` in English."""
    return number_format(number, use_l10n=True, force_grouping=True)


def _text(cell: Cell) -> str:
    return "-" if cell is None else grouped(cell) if isinstance(cell, int) else cell


def plural(word: str, number: int) -> str:
    """Return an English word in singular or plural."""
    return word if number == 1 else word + "s"
