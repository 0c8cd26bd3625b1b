"""Reports of replays as text for a terminal: a report goes in, lines come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from django.utils import timezone

from ..engine import Mode
from ..engine.durations import spell_span
from .plan_cache import Refusal
from .report import Replay, Report
from .runner import Blocked, Numbers

Cell = str | int | None
GAP = "  "


def lines(report: Report, most: int, spells: bool = False) -> Iterator[str]:
    """Yield the lines of a report, with the ``most`` blocked clients, and each of their spells if wanted."""
    order = report.order
    if order.first is None:
        yield "No request was read."
    else:
        requests = f"{order.requests:,} {plural('request', order.requests)}"
        yield f"{requests} from {moment(order.first)} to {moment(order.last)} ({_zone()})."
    yield from _remarks(report)
    for replay in report.replays:
        yield ""
        yield from _replay(replay, most, spells)


def _remarks(report: Report) -> Iterator[str]:
    bad, order = report.bad, report.order
    if bad.total:
        yield f"{bad.total:,} {plural('line', bad.total)} could not be read:"
        yield from (f"  line {number:,}: {reason}" for number, reason in bad.shown)
        if bad.total > len(bad.shown):
            yield f"  and {bad.total - len(bad.shown):,} more"
    if order.late:
        yield (
            f"{order.late:,} {plural('request', order.late)} were out of order by up to"
            f" {spell_span(order.lateness)} and were counted late. Sort the traffic by time first if these are many."
        )
    if report.others:
        yield f"{report.others:,} {plural('request', report.others)} of other limiters, or of none, were not replayed."


def _replay(replay: Replay, most: int, spells: bool) -> Iterator[str]:
    draft = replay.draft
    mode = draft.ruleset.mode
    yield (
        f"{replay.limiter}: {share(draft.refused, draft.requests)} requests blocked"
        + {
            Mode.ENFORCE: ".",
            Mode.DRY_RUN: "; in a dry run nobody is. --enforce tells what would be.",
            Mode.OFF: "; the ruleset is off, and nothing is counted.",
        }[mode]
    )
    for name, rules in replay.untold.items():
        yield f"This traffic does not contain {name}, so it is treated as missing ({', '.join(rules)})."
    for name, rules in replay.unreadable.items():
        yield f"This traffic has {name} as digests: conditions can only ask whether it is there ({', '.join(rules)})."
    if replay.left_out:
        yield f"Left out, because their limit is computed for each request: {', '.join(replay.left_out)}."
    if draft.ruleset.rules:
        yield ""
        yield from _rules(replay)
    if replay.live is not None:
        yield ""
        yield from _difference(replay, most)
    if draft.blocked:
        yield ""
        yield from _clients(replay, most, spells)


def _rules(replay: Replay) -> Iterator[str]:
    heads = ["rule", "action", "calls", "exceeded", "blocked"]
    compared = replay.live is not None
    rows: list[list[Cell]] = []
    for rule, numbers, before in replay.rules:
        rows.append([rule.name, rule.action.value, *_numbers(numbers, rule.counts)])
        if compared:
            rows[-1] += _numbers(before, rule.counts) if before else [None] * 3
    for rule, before in replay.gone:
        rows.append([rule.name, "gone", None, None, None, *_numbers(before, rule.counts)])
    if compared:
        heads += ["live calls", "exceeded", "blocked"]
    yield from table(heads, rows)


def _numbers(numbers: Numbers, counts: bool) -> list[Cell]:
    return [numbers.calls, *([numbers.exceeded, numbers.blocked] if counts else [None, None])]


def _difference(replay: Replay, most: int) -> Iterator[str]:
    added, removed = replay.difference.added, replay.difference.removed
    if not added and not removed:
        yield "The live rules block the same requests."
        return
    yield (
        f"Against the live rules: {added.total():,} more {plural('request', added.total())} blocked,"
        f" {removed.total():,} no longer."
    )
    rows: list[list[Cell]] = []
    for word, counter in (("more", added), ("no longer", removed)):
        ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:most]
        rows += [[word, refusal.rule, number, refusal.who] for refusal, number in ranked]
    yield from table(["blocked", "by rule", "requests", "client"], rows)


def _clients(replay: Replay, most: int, spells: bool) -> Iterator[str]:
    draft = replay.draft
    yield f"Who is blocked ({len(draft.blocked):,} by rule and client, most requests first):"
    heads = ["by rule", "requests", "times", "first", "last", "blocked for", "client"]
    yield from table(heads, [_client(*item) for item in replay.heaviest(most)])
    if draft.unnoted:
        yield f"and {draft.unnoted:,} requests of clients that were not noted any more"
    if spells:
        for refusal, blocked in replay.heaviest(most):
            yield ""
            yield f"{refusal.rule}, {refusal.who}:"
            for spell in blocked.spells:
                until = "for good" if spell.until is None else f"for {spell_span(spell.until - spell.since)}"
                yield f"  {moment(spell.since)} {until}, {spell.calls:,} {plural('request', spell.calls)}"
            if blocked.times > len(blocked.spells):
                yield f"  and {blocked.times - len(blocked.spells):,} more times"


def _client(refusal: Refusal, blocked: Blocked) -> list[Cell]:
    for_how_long = "for good" if blocked.forever else spell_span(blocked.milliseconds)
    first, last = moment(blocked.first), moment(blocked.last)
    return [refusal.rule, blocked.calls, blocked.times, first, last, for_how_long, refusal.who]


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table; columns of numbers stand to the right, a cell without value is a dash."""
    cells = [[_text(cell) for cell in row] for row in rows]
    right = [any(isinstance(row[at], int) for row in rows) for at in range(len(heads))]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for row in (heads, ["─" * width for width in widths], *cells):
        aligned = zip(row, widths, right, strict=True)
        texts = [text.rjust(width) if to_the_right else text.ljust(width) for text, width, to_the_right in aligned]
        yield GAP.join(texts).rstrip()


def share(part: int, whole: int) -> str:
    """Return a number of a whole with its share: ``"70 of 9,999 (0.70 %)"``."""
    percent = f" ({100 * part / whole:.2f} %)" if whole else ""
    return f"{part:,} of {whole:,}{percent}"


def moment(milliseconds: int) -> str:
    """Return a time in the project's time zone."""
    return f"{timezone.localtime(datetime.fromtimestamp(milliseconds / 1000, UTC)):%Y-%m-%d %H:%M:%S}"


def _zone() -> str:
    return str(timezone.get_current_timezone_name())


def _text(cell: Cell) -> str:
    return "-" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def plural(word: str, number: int) -> str:
    return word if number == 1 else word + "s"
