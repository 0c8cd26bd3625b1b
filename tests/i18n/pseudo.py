"""A pseudo-language: it puts ⟦ and ⟧ around every text that can be translated, so that a test sees all others.

Catalogues of the package and of Django go in, a folder of compiled ones comes out; of a page, the words outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import django
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from tests.i18n.__main__ import PACKAGE

LANGUAGE = "cy"
DJANGO = Path(django.__file__).parent
OPEN, CLOSE = "⟦", "⟧"
SEPARATOR = "\x1f"
SHOWN_ATTRIBUTES = ("alt", "aria-label", "placeholder", "title")
BUTTONS = ("button", "reset", "submit")
UNREAD = ("code", "pre", "script", "style", "svg", "template", "textarea")
# A link or a name of code may be in any language.
_WORD = re.compile(r"[^\W\d_]{2,}")


def po(language: str, package: Path = PACKAGE) -> Path:
    """Return the path of a language's catalogue."""
    return package / f"locale/{language}/LC_MESSAGES/django.po"


def messages(path: Path) -> list[Message]:
    """Return the messages of a catalogue, without its header."""
    with path.open("rb") as file:
        return [message for message in read_po(file) if message.id]


def compiled(folder: Path) -> Path:
    """Write the pseudo-language's catalogue into a folder of catalogues; return that folder."""
    catalogue = Catalog(locale=LANGUAGE)
    for message in messages(po("de")):
        catalogue.add(message.id, string=_marked(message.id), context=message.context)
    for parts in ("conf", "contrib/admin", "contrib/auth"):
        # Django keeps all its texts in the English catalogue; a translated one may lack those of a new version.
        for message in messages(DJANGO / parts / "locale/en/LC_MESSAGES/django.po"):
            _add_django(catalogue, message)
    target = folder / LANGUAGE / "LC_MESSAGES" / "django.mo"
    target.parent.mkdir(parents=True)
    buffer = BytesIO()
    write_mo(buffer, catalogue)
    target.write_bytes(buffer.getvalue())
    return folder


def _marked(texts: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(texts, str):
        return f"{OPEN}{texts}{CLOSE}"
    # The language has six forms, and all but the first are the plural.
    return tuple(f"{OPEN}{texts[0 if number == 1 else 1]}{CLOSE}" for number in range(6))


def _add_django(catalogue: Catalog, message: Message) -> None:
    texts = message.id
    if catalogue.get(texts if isinstance(texts, str) else texts[0], message.context):
        return
    if isinstance(texts, str) and re.fullmatch(r"[A-Z_.,:/ -]*|[jNdYmFHisPe .,:/\\-]+", texts):
        return
    catalogue.add(texts, string=_marked(texts), context=message.context)


class _Texts(HTMLParser):
    """All texts of a page that a person reads or hears."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if tag in UNREAD:
            self._unread += 1
        if not self._unread:
            self.texts += [named[name] or "" for name in SHOWN_ATTRIBUTES if name in named]
            if tag == "input" and named.get("type") in BUTTONS:
                self.texts.append(named.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in UNREAD:
            self._unread -= 1

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.texts.append(data)


def catalogue(language: str) -> dict[str, str]:
    """Return the translations of a language, by their English texts; of those with a number, the singular."""
    found = ((message.id, message.string) for message in messages(po(language)))
    return {key if isinstance(key, str) else key[0]: text if isinstance(text, str) else text[0] for key, text in found}


def texts(html: str) -> list[str]:
    """Return the texts of a page that a person reads or hears, without surrounding white space."""
    parser = _Texts()
    parser.feed(html)
    return [" ".join(text.split()) for text in parser.texts]


def _separators(match: re.Match[str]) -> str:
    return SEPARATOR * match[0].count(SEPARATOR) or " "


def untranslated(html: str, data: Iterable[str] = ()) -> list[str]:
    """Return the texts of a page with words outside of the marks. ``data`` are regular expressions of what is data."""
    parser = _Texts()
    parser.feed(html)
    allowed = re.compile("|".join(data)) if data else None
    # A translated sentence may have markup, which cuts it into several texts.
    rests = SEPARATOR.join(parser.texts)
    while (shorter := re.sub(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}", _separators, rests)) != rests:
        rests = shorter
    findings = []
    for text, rest in zip(parser.texts, rests.split(SEPARATOR), strict=True):
        rest = allowed.sub(" ", rest) if allowed else rest
        if _WORD.search(rest):
            findings.append(" ".join(text.split()))
    return findings
