"""Columns as inline SVG: numbers go in, a picture comes out, with its words and a table for whoever does not see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.utils.html import format_html, format_html_join, strip_tags
from django.utils.safestring import SafeString

HEIGHT, GAP = 120, 1
KINDS = ("passed", "exceeded", "blocked")


class Stack(NamedTuple):
    """One column, from the bottom to the top."""

    passed: int
    exceeded: int = 0
    blocked: int = 0


def picture(
    key: str, title: str, caption: str, stacks: Sequence[Stack], labels: Sequence[str], step: int
) -> SafeString:
    """Return the picture of columns that are ``step`` pixels wide.

    ``caption`` says what is to be seen, and is HTML if it is safe; ``labels`` are spread below the columns; ``key`` is
    unique on the page.
    """
    width = step * max(1, len(stacks))
    most = max((sum(stack) for stack in stacks), default=0)
    bars = format_html_join(
        "",
        '<path class="ratelimit-bar-{}" d="{}"/>',
        ((kind, _bars(stacks, which, most, step)) for which, kind in enumerate(KINDS)),
    )
    svg = format_html(
        '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-labelledby="{2}-title {2}-words">'
        '<title id="{2}-title">{3}</title><desc id="{2}-words">{4}</desc>{5}</svg>',
        *(width, HEIGHT, key, title, strip_tags(caption), bars),
    )
    return format_html(
        '<figure class="ratelimit-picture"><div class="ratelimit-columns">{}'
        '<div class="ratelimit-labels" aria-hidden="true">{}</div></div>'
        "<figcaption>{}</figcaption></figure>",
        *(svg, format_html_join("", "<span>{}</span>", ((label,) for label in labels)), caption),
    )


def hidden_table(caption: str, heads: Iterable[str], rows: Iterable[tuple[str, *tuple[int, ...]]]) -> SafeString:
    """Return the numbers of a picture as a table that is read, not seen."""
    head = format_html_join("", '<th scope="col">{}</th>', ((text,) for text in heads))
    lines = format_html_join("", "<tr>{}</tr>", ((_cells(row),) for row in rows))
    return format_html(
        '<table class="visually-hidden"><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>',
        *(caption, head, lines),
    )


def _cells(row: tuple[str, *tuple[int, ...]]) -> SafeString:
    first = format_html('<th scope="row">{}</th>', row[0])
    return format_html("{}{}", first, format_html_join("", "<td>{}</td>", ((f"{number:,}",) for number in row[1:])))


def _bars(stacks: Sequence[Stack], which: int, most: int, step: int) -> str:
    path = []
    for at, stack in enumerate(stacks):
        if stack[which] > 0:
            # One call among many must still be seen.
            height = max(stack[which] * HEIGHT / most, 1)
            bottom = HEIGHT - sum(stack[:which]) * HEIGHT / most
            path.append(f"M{at * step} {bottom:.1f}v-{height:.1f}h{step - GAP}v{height:.1f}z")
    return "".join(path)
