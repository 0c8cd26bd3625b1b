"""The client's address, as reported by trusted proxies.

A request's ``META`` and three settings go in (``TRUSTED_PROXIES``, ``PROXY_HOPS``, ``CLIENT_IP_HEADER``). One canonical
address comes out, or None. This module knows no limits, and the engine decides how IPv6 addresses are grouped.

Each proxy appends to the header the address that connected to it. Only the right end is therefore written by the site's
own proxies. The chain is evaluated from the right, up to the first address that is not trusted. Entries to the left of
that address are never used. If the chain is invalid in any way, the client is the peer of the connection.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.http import HttpRequest

from ..conf import settings
from ..engine.matching import parse_address, parse_network
from ..runtime import log_sampling

logger = logging.getLogger(__name__)

UNIX = "unix"
# A port is removed only if it cannot be part of the address: 192.0.2.7:80 and [2001:db8::7]:80.
_WITH_PORT = re.compile(r"(?:\[([0-9a-f:.]+(?:%[^\]]*)?)\]|([0-9.]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_MAX_ENTRY = 100


def client_ip(request: HttpRequest) -> str | None:
    """Return the client's address in its shortest form. Returns None if neither header nor peer has an address."""
    peer = _text(request.META.get("REMOTE_ADDR"))
    hops, entries = settings.number_of_proxies, settings.TRUSTED_PROXIES
    proxies = (trusted_proxies(_entries(entries)) or None) if entries else None
    if hops is None and proxies is None:
        _warn_of_header(request)
        return _address(peer)
    chain = _chain(request)
    if hops is not None and not 0 < hops <= len(chain):
        return _address(peer)
    client = chain[hops - 1] if hops is not None and proxies is None else _past(proxies, peer, chain[:hops])
    return _address(client) or _address(peer)


def _warn_of_header(request: HttpRequest) -> None:
    """Log once a minute that a proxy sends a header that no setting trusts.

    Without such a setting all clients of that proxy count as one address.
    """
    if _meta_key(settings.CLIENT_IP_HEADER) in request.META and log_sampling.due("clientip.header"):
        logger.warning(
            "Requests have the header %s, but no setting trusts it. All clients of a proxy count as one address. Set"
            " RATELIMIT_RULES_TRUSTED_PROXIES or RATELIMIT_RULES_PROXY_HOPS, or have the header removed",
            settings.CLIENT_IP_HEADER,
        )


@lru_cache(maxsize=4)
def _meta_key(header: str) -> str:
    return "HTTP_" + header.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Proxies:
    """The peers whose header entries are trusted. ``unix`` is True if peers on a unix socket are trusted."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    unix: bool = False

    def __bool__(self) -> bool:
        return bool(self.networks) or self.unix

    def __contains__(self, peer: str) -> bool:
        address = parse_address(_address(peer))
        if address is None:
            return self.unix and (not peer or peer.startswith(("unix:", "/")))
        return any(address in network for network in self.networks)


@lru_cache(maxsize=16)
def trusted_proxies(entries: tuple[str, ...]) -> Proxies:
    """Return the proxies that ``TRUSTED_PROXIES`` names. An entry that is not a network is logged and ignored."""
    networks = []
    for entry in entries:
        if entry == UNIX:
            continue
        try:
            networks.append(parse_network(entry))
        except ValueError:
            logger.error("RATELIMIT_RULES_TRUSTED_PROXIES: %r is ignored. It is neither a network nor 'unix'", entry)
    return Proxies(tuple(networks), UNIX in entries)


def _entries(setting: Iterable[object]) -> tuple[str, ...]:
    # Remove the blanks that remain after a list from the environment was split at its commas.
    return tuple(str(entry).strip() for entry in ([setting] if isinstance(setting, str) else setting))


def _chain(request: HttpRequest) -> list[str]:
    """Return the header's entries, beginning with the entry of the site's own proxy.

    A blank entry keeps its place. Without it the next entry, which a client may have written, would move up.
    """
    header = _text(request.META.get(_meta_key(settings.CLIENT_IP_HEADER)))
    if "," not in header:
        return [header] if header else []
    return [entry.strip() for entry in reversed(header.split(","))]


def _past(proxies: Proxies | None, peer: str, chain: list[str]) -> str:
    """Return the first of ``peer`` and ``chain`` that is not a trusted proxy, or the last if all are trusted."""
    client = peer
    for entry in chain:
        if proxies is None or client not in proxies:
            break
        if _address(entry) is None and (not entry or entry not in proxies):
            return peer
        client = entry
    return client


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _address(entry: str) -> str | None:
    """Return the address in an entry, without port, brackets and zone. Returns None for an entry without an address."""
    return _parsed(entry) if 0 < len(entry) <= _MAX_ENTRY else None


@lru_cache(maxsize=1024)
def _parsed(entry: str) -> str | None:
    match = _WITH_PORT.fullmatch(entry)
    address = parse_address(match[1] or match[2] if match else entry)
    return None if address is None else str(address)
