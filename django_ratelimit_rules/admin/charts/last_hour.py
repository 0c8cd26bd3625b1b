"""Sentences about a limiter's last hour, for an operator who is about to change the limiter.

The name of a limiter goes in, and the name of a rule if the sentences are about one. Sentences come out. There are
none if the last hour is not counted.
"""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ... import rulesets
from ...engine import Action
from ...exceptions import CountersUnavailable
from ...monitoring import exceeding_clients, last_hour
from ...monitoring.last_hour import Totals
from ...runtime.language import grouped, localized

# The rules of a ruleset that get a sentence: those exceeded most often.
MOST_RULES = 5


def of_rule(limiter: str, rule: str) -> list[str]:
    """Return the number of requests that a rule blocked or would have blocked, and the number of their clients."""
    try:
        hour = last_hour.of_limiter(limiter)
        return [] if hour is None else [_of_rule(limiter, rule, hour.of(rule).totals)]
    except CountersUnavailable as error:
        return [_not_known(error)]


def of_ruleset(limiter: str) -> list[str]:
    """Return the number of requests that a limiter blocked or would have blocked, then the same for its limits."""
    try:
        hour = last_hour.of_limiter(limiter)
        if hour is None:
            return []
        limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
        met = {name: hour.of(name).totals for name in limits if hour.of(name).totals.exceeded}
        most = sorted(met, key=lambda name: met[name].exceeded, reverse=True)[:MOST_RULES]
        # In a dry run one call may be over several limits. The numbers of the limits do not show such calls.
        total = _requests(limiter, hour.all.totals, at_least=len(met) > 1)
        return [total, *(_of_rule(limiter, name, met[name]) for name in most)]
    except CountersUnavailable as error:
        return [_not_known(error)]


def _not_known(error: CountersUnavailable) -> str:
    return _("Not known: %(error)s") % {"error": localized(error)}


def _of_rule(limiter: str, name: str, totals: Totals) -> str:
    rule = next((rule for rule in rulesets.get(limiter).rules if rule.name == name), None)
    requests = _requests(name, totals)
    if not totals.exceeded or rule is None:
        return requests
    if not rule.characteristics:
        everyone = _("It counts all clients together, so the number of clients is not known.")
        return f"{requests} {everyone}"
    clients = _clients(exceeding_clients.of_rules(limiter, [name])[name], ", ".join(rule.characteristics))
    return f"{requests} {clients}"


def _clients(clients: exceeding_clients.Clients, properties: str) -> str:
    if clients.more:
        sentence = ngettext(
            "They came from %(clients)s or more client, identified by %(properties)s.",
            "They came from %(clients)s or more clients, identified by %(properties)s.",
            clients.number,
        )
    else:
        sentence = ngettext(
            "They came from %(clients)s client, identified by %(properties)s.",
            "They came from %(clients)s clients, identified by %(properties)s.",
            clients.number,
        )
    return sentence % {"clients": grouped(clients.number), "properties": properties}


def _requests(name: str, totals: Totals, at_least: bool = False) -> str:
    calls, exceeded, blocked = totals
    would = exceeded - blocked
    if not calls:
        sentence = _("%(name)s applied to no request.")
    elif not would:
        sentence = ngettext(
            "%(name)s blocked %(blocked)s of %(calls)s request.",
            "%(name)s blocked %(blocked)s of %(calls)s requests.",
            calls,
        )
    elif not blocked:
        sentence = _would_have_blocked(calls, at_least)
    else:
        sentence = _blocked_and_would_have(calls, at_least)
    numbers = {"calls": grouped(calls), "blocked": grouped(blocked), "would": grouped(would)}
    return sentence % {"name": name, **numbers}


def _would_have_blocked(calls: int, at_least: bool) -> str:
    if at_least:
        return ngettext(
            "%(name)s would have blocked at least %(would)s of %(calls)s request.",
            "%(name)s would have blocked at least %(would)s of %(calls)s requests.",
            calls,
        )
    return ngettext(
        "%(name)s would have blocked %(would)s of %(calls)s request.",
        "%(name)s would have blocked %(would)s of %(calls)s requests.",
        calls,
    )


def _blocked_and_would_have(calls: int, at_least: bool) -> str:
    if at_least:
        return ngettext(
            "%(name)s blocked %(blocked)s and would have blocked at least %(would)s more of %(calls)s request.",
            "%(name)s blocked %(blocked)s and would have blocked at least %(would)s more of %(calls)s requests.",
            calls,
        )
    return ngettext(
        "%(name)s blocked %(blocked)s and would have blocked %(would)s more of %(calls)s request.",
        "%(name)s blocked %(blocked)s and would have blocked %(would)s more of %(calls)s requests.",
        calls,
    )
