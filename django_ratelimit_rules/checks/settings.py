"""Checks of this app's settings: unknown names, and values that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeGuard

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import DEFAULTS, PREFIX, settings
from ..engine import FailureMode
from ..engine.matching import parse_network
from ..engine.messages import message_of
from ..engine.rules import check_name
from ..exceptions import InvalidRule, InvalidRulesFile
from ..identifiers.client_ip import UNIX
from ..rulesets import file as rules_file
from ..runtime.language import localized

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

HEADER_FORMATS = ("draft", "legacy", "off")

# Takes the full name of a setting and its value. Returns a sentence that says why the value cannot be used, or None.
Fault = Callable[[str, Any], str | None]


def fault_of_switch(name: str, value: object) -> str | None:
    """Accept a boolean only, because every non-empty string is true, even "False"."""
    if isinstance(value, bool):
        return None
    return _("%(setting)s is %(value)r, neither True nor False.") % {"setting": name, "value": value}


def fault_of_proxies(name: str, value: object) -> str | None:
    """Accept networks, addresses and ``"unix"``."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, Iterable):
        return _("%(setting)s is %(value)r, not a list of networks.") % {"setting": name, "value": value}
    for entry in entries:
        try:
            if str(entry).strip() != UNIX:
                parse_network(str(entry))
        except ValueError:
            message = _("%(setting)s contains %(entry)r, which is neither a network nor %(unix)r.")
            return message % {"setting": name, "entry": entry, "unix": UNIX}
    return None


def fault_of_hops(name: str, value: object) -> str | None:
    """Accept a number of proxies, 0 for no proxies, or None."""
    if value is None or (_is_whole(value) and value >= 0):
        return None
    return _("%(setting)s is %(value)r, not a whole number of 0 or more.") % {"setting": name, "value": value}


def fault_of_header_name(name: str, value: object) -> str | None:
    """Accept the name that HTTP uses, and reject the key of ``request.META``."""
    if not isinstance(value, str) or not value.strip():
        return _("%(setting)s is %(value)r, not the name of a header.") % {"setting": name, "value": value}
    if value.upper().startswith("HTTP_"):
        return _("%(setting)s is %(value)r, the key in request.META.") % {"setting": name, "value": value}
    return None


def fault_of_prefix(name: str, value: object) -> str | None:
    """Accept a number of bits."""
    if _is_whole(value) and 1 <= value <= 128:
        return None
    return _("%(setting)s is %(value)r, not a whole number from 1 to 128.") % {"setting": name, "value": value}


def fault_of_header_format(name: str, value: object) -> str | None:
    """Accept one of ``HEADER_FORMATS``."""
    return None if value in HEADER_FORMATS else _not_one_of(name, value, HEADER_FORMATS)


def fault_of_failure_mode(name: str, value: object) -> str | None:
    """Accept one of the failure modes."""
    return None if value in list(FailureMode) else _not_one_of(name, value, FailureMode)


def _not_one_of(name: str, value: object, choices: Iterable[str]) -> str:
    message = _("%(setting)s is %(value)r, not one of %(choices)s.")
    return message % {"setting": name, "value": value, "choices": ", ".join(choices)}


def fault_of_seconds(name: str, value: object) -> str | None:
    """Accept a finite duration above 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return None
    return _("%(setting)s is %(value)r, not a number of seconds above 0.") % {"setting": name, "value": value}


def fault_of_many(name: str, value: object) -> str | None:
    """Accept a number, or a switch."""
    if isinstance(value, int) and value >= 0:
        return None
    message = _("%(setting)s is %(value)r, not a whole number of 0 or more, True or False.")
    return message % {"setting": name, "value": value}


def fault_of_share(name: str, value: object) -> str | None:
    """Accept a share of clients. Reject True, which would mean all of them and is hardly ever meant."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return None
    return _("%(setting)s is %(value)r, not a share from 0 to 1.") % {"setting": name, "value": value}


def fault_of_number(name: str, value: object) -> str | None:
    """Accept a whole number of 1 or more."""
    if _is_whole(value) and value >= 1:
        return None
    return _("%(setting)s is %(value)r, not a whole number of 1 or more.") % {"setting": name, "value": value}


def fault_of_view(name: str, value: object) -> str | None:
    """Accept a dotted path to a callable, or None."""
    if value is None:
        return None
    try:
        view = import_string(str(value))
    except ImportError as error:
        message = _("%(setting)s is %(value)r, which cannot be imported: %(error)s.")
        return message % {"setting": name, "value": value, "error": error}
    if callable(view):
        return None
    return _("%(setting)s is %(value)r, which cannot be called.") % {"setting": name, "value": value}


def fault_of_file(name: str, value: Any) -> str | None:
    """Accept a path to a rules file without errors, or None."""
    if value is None:
        return None
    try:
        rules_file.read(value)
    except (InvalidRulesFile, TypeError) as error:
        message = _("%(setting)s is rejected as a whole: %(reason)s.")
        return message % {"setting": name, "reason": localized(message_of(error))}
    return None


def fault_of_limiters(name: str, value: object) -> str | None:
    """Accept a list of limiters' names. Reject a string, which is hardly ever meant as a list of letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return _("%(setting)s is %(value)r, not a list of names.") % {"setting": name, "value": value}
    for limiter in value:
        try:
            check_name(limiter, "limiter")
        except InvalidRule as error:
            message = _("%(setting)s contains a bad name: %(reason)s.")
            return message % {"setting": name, "reason": localized(error.reason)}
    return None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


SWITCH_HINT = gettext_lazy("Set True or False. A value from the environment is a string.")

# Number of the message, name of the setting, function that finds a fault in the value, remedy.
FAULTS: tuple[tuple[str, str, Fault, StrPromise], ...] = (
    ("E001", "ENABLED", fault_of_switch, SWITCH_HINT),
    (
        "E002",
        "TRUSTED_PROXIES",
        fault_of_proxies,
        gettext_lazy('Write networks such as ["10.0.0.0/8"], and "unix" for a socket.'),
    ),
    (
        "E003",
        "PROXY_HOPS",
        fault_of_hops,
        gettext_lazy("Set the number of proxies that each append an address, or None."),
    ),
    (
        "E004",
        "CLIENT_IP_HEADER",
        fault_of_header_name,
        gettext_lazy('Write the name as HTTP does, for example "X-Forwarded-For".'),
    ),
    (
        "E005",
        "IPV6_PREFIX",
        fault_of_prefix,
        gettext_lazy("Use 64, the prefix that a provider usually gives one customer."),
    ),
    ("E006", "HEADERS", fault_of_header_format, gettext_lazy("Use one of these values.")),
    ("E007", "BLOCKED_VIEW", fault_of_view, gettext_lazy("Set the dotted path of view(request, result), or None.")),
    (
        "E008",
        "FAILURE_MODE",
        fault_of_failure_mode,
        gettext_lazy("Use one of these values. Each ruleset may set its own failure mode."),
    ),
    ("E009", "REFRESH_SECONDS", fault_of_seconds, gettext_lazy("1 is a good value.")),
    (
        "E010",
        "FILE",
        fault_of_file,
        gettext_lazy("Fix the file. Until then the last good rules stay in force, if there were any."),
    ),
    ("E011", "MIDDLEWARE_LIMITERS", fault_of_limiters, gettext_lazy('Write a list such as ["site"].')),
    ("E012", "DECISIONS", fault_of_switch, SWITCH_HINT),
    ("E013", "LIVE", fault_of_switch, SWITCH_HINT),
    (
        "E014",
        "DENIAL_CACHE",
        fault_of_many,
        gettext_lazy("Set the number of refusals that a process may keep, True for 10,000, or 0 for none."),
    ),
    (
        "E015",
        "RECORD",
        fault_of_share,
        gettext_lazy("0 records no client. 0.05 records every twentieth client, with all its calls."),
    ),
    ("E016", "RECORD_MAX", fault_of_number, gettext_lazy("100,000 calls take about 25 MB of Redis.")),
)

Messages = list[CheckMessage]


def check_setting_names(**options: object) -> Messages:
    """Report settings that have no effect, because this app has no setting of that name."""
    return [
        CheckWarning(
            _("There is no setting %(setting)s.") % {"setting": PREFIX + name},
            hint=_nearest_setting(name),
            id="ratelimit_rules.W001",
        )
        for name in settings.unknown
    ]


def _nearest_setting(name: str) -> str:
    near = get_close_matches(name, DEFAULTS, n=1)
    if near:
        return _("Did you mean %(setting)s?") % {"setting": PREFIX + near[0]}
    return _("The settings are %(settings)s.") % {"settings": ", ".join(DEFAULTS)}


def check_setting_values(**options: object) -> Messages:
    """Report settings whose value cannot be used."""
    faults = (
        (number, fault_of(PREFIX + name, getattr(settings, name)), hint) for number, name, fault_of, hint in FAULTS
    )
    return [Error(fault, hint=str(hint), id=f"ratelimit_rules.{number}") for number, fault, hint in faults if fault]
