"""Access logs of Apache and nginx, combined or common: bytes go in, requests as columns come out.

A log holds address, user, method, path with query, referrer and user agent of each request, and the status of its
response. A user of ``-`` means anonymous. Paths are resolved with the project's URLs if a rule uses route, view or an
argument. Lines are decoded as Latin-1, like header values in WSGI, so that decoding never fails. Times are whole
seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.encoding import repercent_broken_unicode
from django.utils.translation import gettext as _

from ...engine.matching import parse_address
from ...engine.properties import PROPERTIES, apply_filters, base_of, facts_of, split
from ...engine.values import ANONYMOUS
from ...identifiers.builtin import dotted_path
from .batches import Bad, Batch, Source
from .timestamps import NO_TIME, Zones

CHUNK = 1 << 20
MAX_LINE = 1 << 16

# A quoted string, in which servers escape quotes and characters that are not printable.
_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
LINE = re.compile(
    rf'([^ ]++) [^ ]++ ([^\["]+) \[([^\]]++)\] {_QUOTED} ([0-9]{{3}}) [0-9-]++(?: {_QUOTED} {_QUOTED}(?: .*)?)?\r?'
)
REQUEST = re.compile(r"([A-Z]+) ([^ ]+)(?: .*)?")
# The statuses and sizes between request and referrer, of many lines at once.
_ANSWERS = re.compile(r"(?: [0-9]{3} [0-9-]+ )*+")
# Columns of a batch.
ADDRESS, USER, REQUEST_LINE, REFERRER, AGENT = range(5)

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b"}
MOST_KNOWN = 200_000


class Bytes(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return some bytes, or no bytes at the end."""


def chunks_of(file: Bytes, read: Callable[[int], None]) -> Iterator[str]:
    """Yield a megabyte of whole lines at a time, without the end of the last line.

    Calls ``read`` with the number of bytes of each read. A line longer than 64 KiB is yielded in pieces.
    """
    rest = ""
    while chunk := file.read(CHUNK):
        read(len(chunk))
        lines, newline, rest = (rest + chunk.decode("latin-1")).rpartition("\n")
        if newline:
            yield lines
        if len(rest) > MAX_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest


class AccessLog:
    """The reader of an access log. ``read`` is called with the number of bytes of each read."""

    names_limiters = False
    digested = False

    def __init__(self, file: Bytes, read: Callable[[int], None] = lambda size: None) -> None:
        self._file = file
        self._read = read
        self._zones = Zones()
        # Request lines that have matched REQUEST.
        self._requests: set[str] = set()
        self.bad = Bad()

    def batches(self) -> Iterator[Batch]:
        """See :class:`Reader`."""
        number = 0
        for chunk in chunks_of(self._file, self._read):
            size = chunk.count("\n") + 1
            batch = self._at_once(chunk, size) or self._line_by_line(chunk.split("\n"), number)
            number += size
            if batch.times:
                yield batch

    def _at_once(self, chunk: str, size: int) -> Batch | None:
        """Return the requests of plain lines in combined format. Returns None if any line differs.

        Splitting all lines at their quotes at once takes a third of the time of one search per line.
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
        """Return the requests of lines. Lines that hold no request are counted as bad."""
        rows = []
        for line in lines:
            number += 1
            match = LINE.fullmatch(line)
            if match is None or not REQUEST.fullmatch(match[4]):
                if line.strip():
                    self.bad.note(number, _("no request in Apache's or nginx's combined or common format"))
                continue
            address, user, at, request, status, referrer, agent = match.groups()
            stamp, _space, zone = at.partition(" ")
            time = self._zones[zone][stamp]
            if time == NO_TIME:
                message = _("expected a time such as 17/May/2015:10:05:03 +0000, found %(time)r")
                self.bad.note(number, message % {"time": at[:40]})
            else:
                rows.append((time, status, address, user, request, referrer, agent))
        times, statuses, *columns = zip(*rows, strict=True) if rows else [[]] * 7
        return Batch(times, columns, statuses=statuses)

    def source(self, name: str) -> Source | None:
        """See :class:`Reader`."""
        source = _source(base_of(name))
        if source is None or source.read is None or base_of(name) == name:
            return source
        read = source.read
        return source._replace(read=lambda raw: apply_filters(name, read(raw)))

    def contains(self, name: str) -> bool:
        """See :class:`Reader`. All lines of a log have the same columns."""
        return self.source(name) is not None


def _source(name: str) -> Source | None:
    if name in SOURCES:
        return SOURCES[name]
    family, rest = split(name)
    if family in FAMILY_SOURCES and rest:
        column, read = FAMILY_SOURCES[family]
        return Source(column, lambda raw: read(raw, rest))
    # A property that logs do not contain has the same fixed value for all requests, or is missing.
    unlogged = facts_of(name).unlogged
    return None if unlogged is None else Source(None, fixed=unlogged)


# Readers of a log's columns by property name. Readers of a family get the rest of the name too.
SOURCES: dict[str, Source] = {}
FAMILY_SOURCES: dict[str, tuple[int, Callable[[str, str], str | None]]] = {}
ColumnReader = TypeVar("ColumnReader", bound=Callable[..., "str | None"])


def logged(column: int, *names: str) -> Callable[[ColumnReader], ColumnReader]:
    """Register a function as the reader of properties that a column of the log holds."""

    def register(read: ColumnReader) -> ColumnReader:
        for name in names:
            if name in PROPERTIES and PROPERTIES[name].is_family:
                FAMILY_SOURCES[name] = (column, read)
            else:
                SOURCES[name] = Source(column, read)
        return read

    return register


def unescaped(text: str) -> str:
    """Return the string that the client sent, without the escapes of the server that logged it."""
    return _ESCAPE.sub(_escape, text) if "\\" in text else text


def _escape(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:], 16)) if len(escape) == 3 else _PLAIN_ESCAPES.get(escape, escape)


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
    # A log writes ``-`` for a missing header. Some servers also write it for an empty one.
    return None if text is None or text == "-" else unescaped(text)


@logged(REQUEST_LINE, "method")
def _method(line: str) -> str | None:
    method = line.partition(" ")[0]
    return "GET" if method == "HEAD" else method


@logged(REQUEST_LINE, "path")
def _path(line: str) -> str | None:
    return _split(line)[0] or None


def _split(line: str) -> tuple[str, str]:
    """Return path and query as Django would decode them. A request to a proxy holds a whole URL."""
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
