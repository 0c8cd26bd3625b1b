"""What a limiter met in the last hour, in sentences for whoever is about to change it.

A limiter's name goes in, and a rule's if it is about one; sentences come out, none where nobody counts.
"""

from __future__ import annotations

from ... import rulesets
from ...engine import Action
from ...exceptions import CountersUnavailable
from ...monitoring import exceeding_clients, last_hour
from ...monitoring.last_hour import Totals

# Of a whole ruleset, those that were exceeded most.
MOST_RULES = 5


def of_rule(limiter: str, rule: str) -> list[str]:
    """Say how many requests a rule blocked, or would have blocked, and of how many clients."""
    try:
        hour = last_hour.of_limiter(limiter)
        return [] if hour is None else [_of_rule(limiter, rule, hour.of(rule).totals)]
    except CountersUnavailable as error:
        return [f"Not known: {error}"]


def of_ruleset(limiter: str) -> list[str]:
    """Say how many requests a limiter blocked, or would have blocked, and then which of its limits did."""
    try:
        hour = last_hour.of_limiter(limiter)
        if hour is None:
            return []
        limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
        met = {name: hour.of(name).totals for name in limits if hour.of(name).totals.exceeded}
        most = sorted(met, key=lambda name: met[name].exceeded, reverse=True)[:MOST_RULES]
        # In a dry run a call may have been over several limits, and nobody counts which calls those were.
        said = _said(limiter, hour.all.totals, at_least=len(met) > 1)
        return [f"{said}.", *(_of_rule(limiter, name, met[name]) for name in most)]
    except CountersUnavailable as error:
        return [f"Not known: {error}"]


def _of_rule(limiter: str, name: str, totals: Totals) -> str:
    rule = next((each for each in rulesets.get(limiter).rules if each.name == name), None)
    said = _said(name, totals)
    if not totals.exceeded or rule is None:
        return f"{said}."
    if not rule.characteristics:
        return f"{said}; it counts everyone together, so nobody knows of how many clients."
    clients = exceeding_clients.of_rules(limiter, [name])[name]
    return f"{said}, of {clients} told apart by {', '.join(rule.characteristics)}."


def _said(name: str, totals: Totals, at_least: bool = False) -> str:
    calls, exceeded, blocked = totals
    if not calls:
        return f"{name} met no request"
    would = exceeded - blocked
    parts = [f"blocked {blocked:,}"] if blocked or not would else []
    if would:
        parts.append(f"would have blocked {'at least ' if at_least else ''}{would:,}{' more' if blocked else ''}")
    return f"{name} {' and '.join(parts)} of {calls:,} requests"
