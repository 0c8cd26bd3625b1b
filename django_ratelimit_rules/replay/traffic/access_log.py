"""Access logs of Apache and nginx, combined or common: bytes go in, requests as columns come out.

A log tells address, user, method, path with query, referrer and user agent of each request, and the status of its
answer. Nobody signed in as far as the server knows (``-``) reads as anonymous. Paths are resolved with the project's
URLs where a rule asks for route, view or an argument. Text is Latin-1, as header values are in WSGI, so that nothing
fails to decode. Times are whole seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.encoding import repercent_broken_unicode

from ...engine.matching import parse_address
from ...engine.properties import PROPERTIES, apply_filters, base_of, facts_of, split
from ...engine.values import ANONYMOUS
from ...identifiers.builtin import dotted_path
from .batches import Bad, Batch, Source
from .timestamps import NO_TIME, Zones

CHUNK = 1 << 20
MAX_LINE = 1 << 16

# Quoted text, in which servers escape quotes and whatever is not printable.
_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
LINE = re.compile(
    rf'([^ ]++) [^ ]++ ([^\["]+) \[([^\]]++)\] {_QUOTED} ([0-9]{{3}}) [0-9-]++(?: {_QUOTED} {_QUOTED}(?: .*)?)?\r?'
)
REQUEST = re.compile(r"([A-Z]+) ([^ ]+)(?: .*)?")
# Of many lines at once, what stands between request and referrer: statuses and sizes.
_ANSWERS = re.compile(r"(?: [0-9]{3} [0-9-]+ )*+")
# Columns of a batch.
ADDRESS, USER, REQUEST_LINE, REFERRER, AGENT = range(5)

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b"}
MOST_KNOWN = 200_000


class Bytes(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return some bytes, none at the end."""


def chunks_of(file: Bytes, read: Callable[[int], None]) -> Iterator[str]:
    """Yield a megabyte of whole lines at a time, without the last line's end; ``read`` hears how many bytes were read.
    A line longer than 64 KiB comes in pieces."""
    rest = ""
    while chunk := file.read(CHUNK):
        read(len(chunk))
        lines, found, rest = (rest + chunk.decode("latin-1")).rpartition("\n")
        if found:
            yield lines
        if len(rest) > MAX_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest


class AccessLog:
    """The reader of a log."""

    names_limiters = False
    digested = False

    def __init__(self, file: Bytes, read: Callable[[int], None] = lambda size: None) -> None:
        self._file = file
        self._read = read
        self._zones = Zones()
        # Request lines that are known to be requests.
        self._requests: set[str] = set()
        self.bad = Bad()

    def batches(self) -> Iterator[Batch]:
        """See Reader."""
        number = 0
        for chunk in chunks_of(self._file, self._read):
            size = chunk.count("\n") + 1
            batch = self._at_once(chunk, size) or self._line_by_line(chunk.split("\n"), number)
            number += size
            if batch.times:
                yield batch

    def _at_once(self, chunk: str, size: int) -> Batch | None:
        """Return the requests of plain lines in combined format, None when there are others among them.

        Splitting all lines at their quotes together takes a third of the time of a search in each.
        """
        parts = chunk.replace("\n", '"').split('"')
        if "\\" in chunk or len(parts) != 7 * size or set(parts[4::7]) != {" "} or not {"", "\r"} >= set(parts[6::7]):
            return None
        answers, requests = parts[2::7], parts[1::7]
        if not _ANSWERS.fullmatch("".join(answers)) or not self._are_requests(requests):
            return None
        heads = "".join(parts[0::7]).split(" ")
        addresses, users, stamps, zones = heads[0:-1:5], heads[2::5], heads[3::5], heads[4::5]
        zone = zones[0] if zones else ""
        if len(heads) != 5 * size + 1 or heads[-1] or set(zones) != {zone} or zone[-1:] != "]":
            return None
        times = list(map(self._zones[zone[:-1]].__getitem__, [stamp[1:] for stamp in stamps]))
        if NO_TIME in times or {stamp[:1] for stamp in stamps} != {"["} or not all(addresses):
            return None
        columns = (addresses, users, requests, parts[3::7], parts[5::7])
        return Batch(times, columns, statuses=[answer[1:4] for answer in answers])

    def _are_requests(self, lines: list[str]) -> bool:
        if self._requests.issuperset(lines):
            return True
        new = set(lines) - self._requests
        if not all(map(REQUEST.fullmatch, new)):
            return False
        if len(self._requests) > MOST_KNOWN:
            self._requests.clear()
        self._requests |= new
        return True

    def _line_by_line(self, lines: list[str], number: int) -> Batch:
        """Return the requests of lines, and note those that are none."""
        rows = []
        for line in lines:
            number += 1
            found = LINE.fullmatch(line)
            if found is None or not REQUEST.fullmatch(found[4]):
                if line.strip():
                    self.bad.note(number, "no request in Apache's or nginx's combined or common format")
                continue
            address, user, at, request, status, referrer, agent = found.groups()
            stamp, _, zone = at.partition(" ")
            time = self._zones[zone][stamp]
            if time == NO_TIME:
                self.bad.note(number, f"no time such as 17/May/2015:10:05:03 +0000: {at[:40]!r}")
            else:
                rows.append((time, status, address, user, request, referrer, agent))
        times, statuses, *columns = zip(*rows, strict=True) if rows else [[]] * 7
        return Batch(times, columns, statuses=statuses)

    def source(self, name: str) -> Source | None:
        """See Reader."""
        found = _source(base_of(name))
        if found is None or found.read is None or base_of(name) == name:
            return found
        read = found.read
        return found._replace(read=lambda raw: apply_filters(name, read(raw)))

    def tells(self, name: str) -> bool:
        """See Reader: a log has the same columns throughout."""
        return self.source(name) is not None


def _source(name: str) -> Source | None:
    if name in SOURCES:
        return SOURCES[name]
    family, rest = split(name)
    if family in FAMILY_SOURCES and rest:
        column, read = FAMILY_SOURCES[family]
        return Source(column, lambda raw: read(raw, rest))
    # A property that no log shows has one value for all its requests.
    unlogged = facts_of(name).unlogged
    return None if unlogged is None else Source(None, fixed=unlogged)


# Readers of a log's columns, by the names of properties; those of a family get the rest of the name as well.
SOURCES: dict[str, Source] = {}
FAMILY_SOURCES: dict[str, tuple[int, Callable[[str, str], str | None]]] = {}
ColumnReader = TypeVar("ColumnReader", bound=Callable[..., "str | None"])


def logged(column: int, *names: str) -> Callable[[ColumnReader], ColumnReader]:
    """Make a function the reader of properties that a column of the log shows."""

    def register(read: ColumnReader) -> ColumnReader:
        for name in names:
            if name in PROPERTIES and PROPERTIES[name].is_family:
                FAMILY_SOURCES[name] = (column, read)
            else:
                SOURCES[name] = Source(column, read)
        return read

    return register


def unescaped(text: str) -> str:
    """Return what the client sent, of what the server wrote down."""
    return _ESCAPE.sub(_escape, text) if "\\" in text else text


def _escape(found: re.Match[str]) -> str:
    said = found[1]
    return chr(int(said[1:], 16)) if len(said) == 3 else _PLAIN_ESCAPES.get(said, said)


@logged(ADDRESS, "ip")
def _address(text: str) -> str | None:
    address = parse_address(text)
    return text if address is None else str(address)


@logged(USER, "user")
def _user(text: str) -> str | None:
    return ANONYMOUS if text in ("-", '""') else unescaped(text)


@logged(USER, "is_authenticated")
def _is_authenticated(text: str) -> str:
    return "0" if _user(text) == ANONYMOUS else "1"


@logged(USER, "is_staff")
def _is_staff(text: str) -> str | None:
    return "0" if _user(text) == ANONYMOUS else None


@logged(REFERRER, "header.referer")
@logged(AGENT, "header.user-agent")
def _header(text: str | None) -> str | None:
    # An empty header and none at all look the same here.
    return None if text is None or text == "-" else unescaped(text)


@logged(REQUEST_LINE, "method")
def _method(line: str) -> str | None:
    method = line.partition(" ")[0]
    return "GET" if method == "HEAD" else method


@logged(REQUEST_LINE, "path")
def _path(line: str) -> str | None:
    return _split(line)[0] or None


def _split(line: str) -> tuple[str, str]:
    """Return path and query as Django would have them; a proxy's request names a whole URL."""
    text = unescaped(line.split(" ")[1])
    if not text.startswith("/"):
        try:
            parts = urlsplit(text)
        except ValueError:
            return "", ""
        text = f"{parts.path or '/'}?{parts.query}" if parts.netloc else text
    path, _, query = text.partition("?")
    return repercent_broken_unicode(unquote_to_bytes(path.encode("latin-1"))).decode(), query


@logged(REQUEST_LINE, "query.*")
def _query(line: str, name: str) -> str | None:
    value: str | None = QueryDict(_split(line)[1], encoding="utf-8").get(name)
    return value


def _resolved(line: str) -> ResolverMatch | None:
    try:
        return resolve(_split(line)[0])
    except Resolver404:
        return None


@logged(REQUEST_LINE, "route")
def _route(line: str) -> str | None:
    match = _resolved(line)
    if match is None:
        return None
    return match.view_name if match.url_name else match.route


@logged(REQUEST_LINE, "view")
def _view(line: str) -> str | None:
    match = _resolved(line)
    return None if match is None else dotted_path(match.func, line.partition(" ")[0])


@logged(REQUEST_LINE, "kwarg.*")
def _argument(line: str, name: str) -> str | None:
    match = _resolved(line)
    value = match.kwargs.get(name) if match else None
    return None if value is None else str(value)
