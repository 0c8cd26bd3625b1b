"""The manual's pages as CommonMark: their headings, links and code, and the code that tests have taken.

A test module takes all code blocks of a place in one call during its import. An added block therefore fails the
module of its place, and ``test_pages`` reports a place that no module has taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")))

taken: set[str] = set()


class Block(NamedTuple):
    """A code block: its place (``docs/rules.md#fine-print``), its language ("" if indented), and its text."""

    place: str
    language: str
    text: str


def text_of(page: str) -> str:
    """Return the source of a page."""
    return (ROOT / page).read_text("utf-8")


@cache
def tokens(page: str) -> list[Token]:
    """Return a page as CommonMark, with tables."""
    return MarkdownIt("commonmark").enable("table").parse(text_of(page))


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(page: str) -> list[str]:
    """Return the anchors of a page's headings, in order."""
    said = tokens(page)
    return [slug(said[number + 1].content) for number, token in enumerate(said) if token.type == "heading_open"]


@cache
def blocks(page: str) -> list[Block]:
    """Return a page's code blocks, including blocks in lists."""
    found, place = [], page
    said = tokens(page)
    for number, token in enumerate(said):
        if token.type == "heading_open":
            place = f"{page}#{slug(said[number + 1].content)}"
        elif token.type in ("fence", "code_block"):
            found.append(Block(place, token.info.strip(), token.content))
    return found


def take(place: str) -> list[str]:
    """Return the code blocks of a place. The calling module must run them."""
    found = [block.text for page in PAGES for block in blocks(page) if block.place == place]
    assert found, f"no code at {place}"
    taken.add(place)
    return found


def inline(page: str, kind: str) -> Iterator[Token]:
    """Return the tokens of a kind inside of a page's text: ``code_inline``, ``link_open``, ``image``."""
    for token in tokens(page):
        yield from (child for child in token.children or () if child.type == kind)


def links(page: str) -> Iterator[str]:
    """Return the targets of a page's links and images."""
    yield from (str(token.attrs["href"]) for token in inline(page, "link_open"))
    yield from (str(token.attrs["src"]) for token in inline(page, "image"))
