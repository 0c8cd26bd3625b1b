"""Stacked bars as inline SVG, with the same numbers as a table for screen readers.

Numbers and labels go in, safe HTML without inline styles comes out. Numbers are written without escaping because a
page may hold hundreds of pictures. Labels are escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from operator import add
from typing import NamedTuple

from django.utils.html import conditional_escape, format_html, format_html_join, strip_tags
from django.utils.safestring import SafeString, mark_safe

from ...runtime.language import grouped

GAP = 1
KINDS = ("passed", "exceeded", "blocked")
COLUMN_HEIGHT = 120
# Heights are written to a tenth of a pixel. A page of long rulesets writes tens of thousands of them.
TENTHS = [f"{tenth / 10:.1f}" for tenth in range(10 * COLUMN_HEIGHT + 1)]


class Stack(NamedTuple):
    """One column, from the bottom to the top."""

    passed: int
    exceeded: int = 0
    blocked: int = 0


class Picture(NamedTuple):
    """Columns of this height and this distance in pixels. ``most`` is the number that fills a column."""

    key: str
    height: int
    step: int
    most: int

    def draw(self, title: str, description: str, layers: Sequence[Sequence[int]], marks: str = "") -> SafeString:
        """Return the picture of three layers of numbers, from the bottom to the top. ``marks`` is SVG to add."""
        width, key, below, bars = self.step * max(1, len(layers[0])), escape(self.key), [0] * len(layers[0]), ""
        for kind, numbers in zip(KINDS, layers, strict=True):
            bars += f'<path class="ratelimit-bar-{kind}" d="{self._bars(numbers, below)}"/>'
            below = list(map(add, below, numbers))
        return mark_safe(
            f'<svg viewBox="0 0 {width} {self.height}" width="{width}" height="{self.height}" role="img"'
            f' aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{escape(title)}</title>'
            f'<desc id="{key}-desc">{conditional_escape(description)}</desc>{bars}{marks}</svg>'
        )

    def _bars(self, numbers: Sequence[int], below: Sequence[int]) -> str:
        path = []
        scale, x, floor = 10 * self.height / max(self.most, 1), 0, 10 * self.height
        step, across = self.step, f"h{self.step - GAP}v"
        for number, under in zip(numbers, below, strict=True):
            if number > 0:
                # Draw at least a pixel, because a single call among many must be visible. Cut off the part of
                # contradictory numbers that does not fit.
                height = TENTHS[min(max(round(number * scale), 10), floor)]
                bottom = TENTHS[max(floor - round(under * scale), 0)]
                path.append(f"M{x} {bottom}v-{height}{across}{height}z")
            x += step
        return "".join(path)


def figure(key: str, title: str, caption: str, stacks: Sequence[Stack], labels: Sequence[str], step: int) -> SafeString:
    """Return a picture of columns with its caption, and with ``labels`` spread below the columns.

    ``caption`` is HTML if it is safe. ``key`` is unique on the page.
    """
    picture = Picture(key, COLUMN_HEIGHT, step, max(map(sum, stacks), default=0))
    svg = picture.draw(title, strip_tags(caption), [[stack[kind] for stack in stacks] for kind in range(len(KINDS))])
    return format_html(
        '<figure class="ratelimit-picture"><div class="ratelimit-columns">{}'
        '<div class="ratelimit-labels" aria-hidden="true">{}</div></div>'
        "<figcaption>{}</figcaption></figure>",
        *(svg, format_html_join("", "<span>{}</span>", ((label,) for label in labels)), caption),
    )


def hidden_table(caption: str, heads: Iterable[str], rows: Iterable[tuple[str, *tuple[int, ...]]]) -> SafeString:
    """Return the numbers of a picture as a table that only screen readers show."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(f"<td>{grouped(number)}</td>" for number in numbers)}</tr>'
        for label, *numbers in rows
    )
    return mark_safe(
        f'<table class="visually-hidden"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
