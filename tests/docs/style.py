"""Counts of words and forms that the style rule of CONTRIBUTING.md replaces, against the numbers of a file.

``python -m tests.docs.style`` lists the findings of documents. With words (``behind told``), it lists their places.
``python -m tests.docs.style --write`` lowers the numbers in the file. It raises none, unless ``--raise`` is given.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it.token import Token

from tests.docs.pages import PAGES, ROOT, tokens

COUNTS = Path(__file__).with_name("style_counts.json")
PACKAGE = ROOT / "django_ratelimit_rules"
# Spaces match line breaks as well, so that a phrase is found across two lines.
WORDS = {
    "behind": r"\bbehind\b",
    "nobody": r"\bnobody\b",
    "whoever": r"\bwhoever\b",
    "whom": r"\bwhom\b",
    "ours": r"\bours\b",
    "those who, that, of": r"\bthose (?:who|that|which|of)\b",
    "stand": r"\bstands?\b",
    "told": r"\btold\b",
    "read as": r"\breads? as\b",
    "a text": r"\ba text\b",
    "goes on": r"\b(?:goes|go|went|going) on\b",
    "in place of": r"\bin (?:its |the |their )?place of\b",
    "in front of": r"\bin front of\b",
}
PATTERNS = {name: re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE) for name, pattern in WORDS.items()}
MOST_WORDS = 25
LONG, SEMICOLON = f"sentences over {MOST_WORDS} words", "semicolons"


class Finding(NamedTuple):
    """One place that breaks the style rule."""

    name: str
    file: str
    line: int
    text: str


class Prose(NamedTuple):
    """A piece of prose: a comment, a string, a paragraph, a file."""

    line: int
    text: str


def words_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield each counted word in a string, with its position."""
    for name, pattern in PATTERNS.items():
        yield from ((name, match.start()) for match in pattern.finditer(text))


def long_sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph with too many words."""
    for sentence in re.split(r"(?<=[.!?])\s+", paragraph):
        if sum(any(character.isalnum() for character in word) for word in sentence.split()) > MOST_WORDS:
            yield sentence


def in_python(source: str) -> Iterator[Prose]:
    """Yield the strings and comments of a module. Adjacent lines of comments are one piece."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Prose(node.lineno, node.value)
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != last + 1:
                yield Prose(last - len(lines) + 1, "\n".join(lines))
                lines = []
            lines.append(token.string.lstrip("#: "))
            last = token.start[0]
    if lines:
        yield Prose(last - len(lines) + 1, "\n".join(lines))


def of_package() -> Iterator[Finding]:
    """Yield the findings of the package: Python's strings and comments, and whole templates, scripts and Lua files."""
    for file in sorted(PACKAGE.rglob("*")):
        if file.suffix not in (".py", ".html", ".js", ".lua", ".css") or {"migrations", "vendor"} & {*file.parts}:
            continue
        source = file.read_text("utf-8")
        for prose in in_python(source) if file.suffix == ".py" else [Prose(1, source)]:
            for name, start in words_in(prose.text):
                line = prose.line + prose.text.count("\n", 0, start)
                yield Finding(name, str(file.relative_to(ROOT)), line, _around(prose.text, start))


def of_documents() -> Iterator[Finding]:
    """Yield the findings of the manual. Skips code blocks, and counts a code span as one word."""
    for page in PAGES:
        for token in tokens(page):
            if token.type != "inline":
                continue
            prose, line = _prose(token), (token.map or [0])[0] + 1
            for name, start in words_in(prose):
                yield Finding(name, page, line, _around(prose, start))
            yield from (Finding(LONG, page, line, sentence) for sentence in long_sentences(prose))
            semicolons = re.finditer(";", prose)
            yield from (Finding(SEMICOLON, page, line, _around(prose, match.start())) for match in semicolons)


def _prose(inline: Token) -> str:
    text = {"code_inline": lambda child: "code", "softbreak": lambda child: " "}
    return "".join(text.get(child.type, lambda child: child.content)(child) for child in inline.children or ())


def _around(text: str, start: int) -> str:
    return " ".join(text[max(0, start - 40) : start + 40].split())


@cache
def counts() -> dict[str, dict[str, int]]:
    """Return the present numbers of the package and of the documents."""
    package = Counter(finding.name for finding in of_package())
    documents = Counter(finding.name for finding in of_documents())
    return {
        "package": {name: package[name] for name in WORDS},
        "documents": {name: documents[name] for name in (*WORDS, LONG, SEMICOLON)},
    }


def kept() -> dict[str, dict[str, int]]:
    """Return the numbers of the file."""
    return json.loads(COUNTS.read_text("utf-8"))


def lowered(old: dict[str, dict[str, int]], new: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the new numbers, but keep each old number that is lower."""
    return {
        area: {name: min(number, old.get(area, {}).get(name, number)) for name, number in numbers.items()}
        for area, numbers in new.items()
    }


def main(arguments: list[str]) -> None:
    """List findings, or write the numbers."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.style")
    parser.add_argument("words", nargs="*", help=f"list the places of these: {', '.join([*WORDS, LONG, SEMICOLON])}")
    parser.add_argument("--write", action="store_true", help="lower the numbers in the file")
    parser.add_argument("--raise", action="store_true", dest="allow_more", help="with --write: also raise numbers")
    options = parser.parse_args(arguments)
    if unknown := {*options.words} - {*WORDS, LONG, SEMICOLON}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.write:
        new = counts()
        numbers = new if options.allow_more or not COUNTS.exists() else lowered(kept(), new)
        COUNTS.write_text(json.dumps(numbers, indent=2) + "\n", "utf-8")
        return
    findings = [*of_package(), *of_documents()] if options.words else of_documents()
    for finding in findings:
        if not options.words or finding.name in options.words:
            sys.stdout.write(f"{finding.file}:{finding.line}: {finding.name}: {finding.text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
