"""Checks of this app's settings: unknown names, and values that cannot be used.

The setting's value goes in; what is wrong with it comes out, as the end of a sentence, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeGuard

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.utils.module_loading import import_string

from ..conf import DEFAULTS, PREFIX, settings
from ..engine import FailureMode
from ..engine.matching import parse_network
from ..engine.rules import check_name
from ..exceptions import InvalidRule, InvalidRulesFile
from ..identifiers.client_ip import UNIX
from ..rulesets import file as rules_file

HEADER_FORMATS = ("draft", "legacy", "off")

Fault = Callable[[Any], str | None]


def fault_of_switch(value: object) -> str | None:
    """A text counts as true, "False" as well."""
    return None if isinstance(value, bool) else f"is {value!r}, neither True nor False"


def fault_of_proxies(value: object) -> str | None:
    """Each entry is a network, an address or ``"unix"``."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, Iterable):
        return f"is {value!r}, not a list of networks"
    for entry in entries:
        try:
            if str(entry).strip() != UNIX:
                parse_network(str(entry))
        except ValueError:
            return f"has {entry!r}, which is neither a network nor {UNIX!r}"
    return None


def fault_of_hops(value: object) -> str | None:
    """A number of proxies, 0 for none."""
    if value is None or (_is_whole(value) and value >= 0):
        return None
    return f"is {value!r}, not a whole number of 0 or more"


def fault_of_header_name(value: object) -> str | None:
    """The name as it stands in HTTP, not as it stands in ``request.META``."""
    if not isinstance(value, str) or not value.strip():
        return f"is {value!r}, not the name of a header"
    return f"is {value!r}, the key in request.META" if value.upper().startswith("HTTP_") else None


def fault_of_prefix(value: object) -> str | None:
    """A number of bits."""
    return None if _is_whole(value) and 1 <= value <= 128 else f"is {value!r}, not a whole number from 1 to 128"


def fault_of_header_format(value: object) -> str | None:
    """One of the formats there are."""
    return None if value in HEADER_FORMATS else f"is {value!r}, not one of {', '.join(HEADER_FORMATS)}"


def fault_of_failure_mode(value: object) -> str | None:
    """One of the failure modes there are."""
    return None if value in list(FailureMode) else f"is {value!r}, not one of {', '.join(FailureMode)}"


def fault_of_seconds(value: object) -> str | None:
    """A finite duration above 0."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
    return None if usable else f"is {value!r}, not a number of seconds above 0"


def fault_of_many(value: object) -> str | None:
    """A switch, or how many."""
    usable = isinstance(value, int) and value >= 0
    return None if usable else f"is {value!r}, not a whole number of 0 or more, True or False"


def fault_of_share(value: object) -> str | None:
    """A share of clients; True would be all of them, which nobody means by it."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    return None if usable else f"is {value!r}, not a share from 0 to 1"


def fault_of_number(value: object) -> str | None:
    """A number of things."""
    return None if _is_whole(value) and value >= 1 else f"is {value!r}, not a whole number of 1 or more"


def fault_of_view(value: object) -> str | None:
    """A dotted path to something that can be called."""
    if value is None:
        return None
    try:
        view = import_string(str(value))
    except ImportError as error:
        return f"is {value!r}, which cannot be imported: {error}"
    return None if callable(view) else f"is {value!r}, which cannot be called"


def fault_of_file(value: Any) -> str | None:
    """A path to a rules file without a fault."""
    if value is None:
        return None
    try:
        rules_file.read(value)
    except (InvalidRulesFile, TypeError) as error:
        return f"is refused as a whole: {error}"
    return None


def fault_of_limiters(value: object) -> str | None:
    """A list of limiters' names; a text, which is taken for one name, is hardly what was meant."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return f"is {value!r}, not a list of names"
    for name in value:
        try:
            check_name(name, "limiter")
        except InvalidRule as error:
            return f"has a bad name: {error.reason}"
    return None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# Number of the message, setting, what is wrong with a value, how to put it right.
FAULTS: tuple[tuple[str, str, Fault, str], ...] = (
    ("E001", "ENABLED", fault_of_switch, "Set True or False; what comes from the environment is a text."),
    ("E002", "TRUSTED_PROXIES", fault_of_proxies, 'Write networks such as ["10.0.0.0/8"], and "unix" for a socket.'),
    ("E003", "PROXY_HOPS", fault_of_hops, "Set the number of proxies that each append an address, or None."),
    ("E004", "CLIENT_IP_HEADER", fault_of_header_name, 'Write it as HTTP does: "X-Forwarded-For".'),
    ("E005", "IPV6_PREFIX", fault_of_prefix, "Use 64, the prefix that a provider usually gives one customer."),
    ("E006", "HEADERS", fault_of_header_format, "Use one of these values."),
    ("E007", "BLOCKED_VIEW", fault_of_view, "Set the dotted path of view(request, result), or None."),
    ("E008", "FAILURE_MODE", fault_of_failure_mode, "Use one of these values; each ruleset may state its own."),
    ("E009", "REFRESH_SECONDS", fault_of_seconds, "1 is a good value."),
    ("E010", "FILE", fault_of_file, "Fix the file; until then the last good rules stay in force, if there were any."),
    ("E011", "MIDDLEWARE_LIMITERS", fault_of_limiters, 'Write a list such as ["site"].'),
    ("E012", "DECISIONS", fault_of_switch, "Set True or False; what comes from the environment is a text."),
    ("E013", "LIVE", fault_of_switch, "Set True or False; what comes from the environment is a text."),
    ("E014", "DENIAL_CACHE", fault_of_many, "Set how many refusals a process may keep, True for 10,000, 0 for none."),
    ("E015", "RECORD", fault_of_share, "0 records nobody; 0.05 every twentieth client, with all its calls."),
    ("E016", "RECORD_MAX", fault_of_number, "100,000 calls take about 25 MB of Redis."),
)

Messages = list[CheckMessage]


def check_setting_names(**_: object) -> Messages:
    """Name settings that do nothing, because none of ours is called so."""
    return [
        CheckWarning(
            f"There is no setting {PREFIX}{name}.",
            hint=f"Did you mean {PREFIX}{near[0]}?" if near else f"There are {', '.join(DEFAULTS)}.",
            id="ratelimit_rules.W001",
        )
        for name in settings.unknown
        for near in [get_close_matches(name, DEFAULTS, n=1)]
    ]


def check_setting_values(**_: object) -> Messages:
    """Name settings whose value cannot be used."""
    found = ((number, name, fault_of(getattr(settings, name)), hint) for number, name, fault_of, hint in FAULTS)
    return [
        Error(f"{PREFIX}{name} {fault}.", hint=hint, id=f"ratelimit_rules.{number}")
        for number, name, fault, hint in found
        if fault
    ]
