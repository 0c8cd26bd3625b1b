"""Checks of the project: its middleware, its limiters, and with ``--database`` its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, router, transaction
from django.db.models import Count

from .. import rulesets
from ..conf import settings
from ..engine.properties import base_of
from ..rulesets import limiter_names
from . import form_size

OUR_MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
# Properties that AuthenticationMiddleware tells.
OF_USER = frozenset(("user", "is_authenticated", "is_staff"))
# Django 6.1 names all databases to every check, so that only the tag says whether a check may ask them.
ALWAYS_NAMED = django.VERSION >= (6, 1)

Messages = list[CheckMessage]


def check_middleware_order(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Warn if RateLimitMiddleware is listed before AuthenticationMiddleware. Asks no database."""
    # Before Django 6.1 databases are named only if they may be asked, and then the other check reports.
    if not _is_listed_early() or (databases and not ALWAYS_NAMED):
        return []
    return _order_messages(_rules_by_user()) if _are_at_hand() else _order_messages(None)


def check_middleware_order_by_rules(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Warn of the same order only if rules use the user. Asks the database for the rules."""
    if not databases or not _is_listed_early() or (ALWAYS_NAMED and _are_at_hand()):
        return []
    with _loaded(databases) as readable:
        if readable or _are_at_hand():
            return _order_messages(_rules_by_user())
    return [] if ALWAYS_NAMED else _order_messages(None)


def _is_listed_early() -> bool:
    order = list(settings.project_middleware)
    return OUR_MIDDLEWARE in order and AUTHENTICATION in order[order.index(OUR_MIDDLEWARE) :]


def _are_at_hand() -> bool:
    """Whether the rules of the middleware's limiters can be read without the database."""
    limiters = settings.limiters_of_middleware
    return bool(limiters) and all(map(rulesets.needs_no_load, limiters))


def _rules_by_user() -> list[str]:
    """Return the rules of the middleware's limiters that use the user, in words."""
    return [
        f"{rule.name!r} of limiter {limiter!r}"
        for limiter in settings.limiters_of_middleware
        for rule in rulesets.get(limiter).rules
        if not OF_USER.isdisjoint(map(base_of, rule.properties))
    ]


def _order_messages(rules: Sequence[str] | None) -> Messages:
    """Return the warning that names these rules, no warning without any, and a general one if they are not known."""
    subject = "rules by user treat"
    if rules is not None:
        if not rules:
            return []
        more = f" and {len(rules) - 3} more" if len(rules) > 3 else ""
        subject = f"the rule {rules[0]} treats" if len(rules) == 1 else f"{', '.join(rules[:3])}{more} treat"
    return [
        CheckWarning(
            f"RateLimitMiddleware is listed before AuthenticationMiddleware: {subject} every request as anonymous.",
            hint="List it after AuthenticationMiddleware, which tells rules by user who is asking.",
            id="ratelimit_rules.W003",
        )
    ]


def check_limiters_have_rules(**_: object) -> Messages:
    """Name limiters without rules if this process has loaded the rules already. Asks no database."""
    return _limiters_without_rules() if rulesets.are_loaded() else []


def check_limiters_have_saved_rules(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Name limiters without rules. Asks the database, unless the other check knows the rules already."""
    if rulesets.are_loaded():
        return []
    with _loaded(databases or ()) as readable:
        return _limiters_without_rules() if readable else []


def _limiters_without_rules() -> Messages:
    asked = limiter_names.named()
    known = rulesets.limiters()
    return [
        CheckWarning(
            f"Nobody defined rules for the limiter {name!r}: it lets everything pass.",
            hint="Add a ruleset of this name in the admin, in the rules file or in code, or correct the name.",
            id="ratelimit_rules.W004",
        )
        for name in sorted(asked)
        if name not in known
    ]


def check_page_can_be_sent(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Name rulesets whose page in the admin has more fields than Django takes. Asks the database."""
    most = form_size.most_rules()
    if most is None or not _rules_are_in(databases or ()):
        return []
    from ..models import Ruleset

    long = Ruleset.objects.annotate(number=Count("rules")).filter(number__gt=most)
    return [
        CheckWarning(
            f"The ruleset {name!r} has {number} rules: its page in the admin has more fields than"
            f" DATA_UPLOAD_MAX_NUMBER_FIELDS ({settings.max_form_fields}) lets through, and cannot be saved.",
            hint=f"Set DATA_UPLOAD_MAX_NUMBER_FIELDS to {form_size.fields_of(number)} or more, or change these"
            " rules by ratelimit_apply.",
            id="ratelimit_rules.W006",
        )
        for name, number in long.values_list("name", "number")
    ]


@contextmanager
def _loaded(databases: Sequence[str]) -> Iterator[bool]:
    """Yield whether these databases hold the rules. Rules that the block loads are forgotten after it: Django runs the
    checks in no order, and those that ask no database must not report what another one has loaded."""
    were_loaded = rulesets.are_loaded()
    try:
        yield _rules_are_in(databases)
    finally:
        if not were_loaded:
            rulesets.forget()


def _rules_are_in(databases: Sequence[str]) -> bool:
    """Whether these databases hold our tables; before the first ``migrate`` they do not."""
    from ..models import Rule, Ruleset

    database = router.db_for_write(Ruleset)
    if database not in databases:
        return False
    try:
        with transaction.atomic(using=database):
            Ruleset.objects.using(database).first()
            Rule.objects.using(database).first()
    except DatabaseError:
        return False
    return True
