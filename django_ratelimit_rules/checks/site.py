"""Checks of the project: its middleware, its limiters, and with ``--database`` its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, router, transaction
from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import rulesets
from ..conf import settings
from ..engine.messages import Grouped
from ..engine.properties import base_of
from ..rulesets import limiter_names
from ..runtime.language import localized
from . import form_size

OUR_MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
# Properties that AuthenticationMiddleware provides.
OF_USER = frozenset(("user", "is_authenticated", "is_staff"))
# Django 6.1 passes all databases to every check, so that only the tag allows a check to query them.
ALWAYS_NAMED = django.VERSION >= (6, 1)

# The warning about the order of middleware names at most this many rules.
NAMED_RULES = 3

Messages = list[CheckMessage]


def check_middleware_order(databases: Sequence[str] | None = None, **options: object) -> Messages:
    """Warn if RateLimitMiddleware is listed before AuthenticationMiddleware. Queries no database."""
    # Before Django 6.1 databases are passed only if they may be queried, and then the other check reports.
    if not _is_listed_early() or (databases and not ALWAYS_NAMED):
        return []
    return _order_messages(_rules_by_user()) if _need_no_database() else _order_messages(None)


def check_middleware_order_by_rules(databases: Sequence[str] | None = None, **options: object) -> Messages:
    """Warn of the same order only if rules use the user. Loads the rules from the database."""
    if not databases or not _is_listed_early() or (ALWAYS_NAMED and _need_no_database()):
        return []
    with _loaded(databases) as readable:
        if readable or _need_no_database():
            return _order_messages(_rules_by_user())
    return [] if ALWAYS_NAMED else _order_messages(None)


def _is_listed_early() -> bool:
    order = list(settings.project_middleware)
    return OUR_MIDDLEWARE in order and AUTHENTICATION in order[order.index(OUR_MIDDLEWARE) :]


def _need_no_database() -> bool:
    """Return whether the rules of the middleware's limiters can be read without the database."""
    limiters = settings.limiters_of_middleware
    return bool(limiters) and all(map(rulesets.needs_no_load, limiters))


def _rules_by_user() -> list[str]:
    """Return descriptions of the rules of the middleware's limiters that use the user."""
    return [
        _("%(rule)r of limiter %(limiter)r") % {"rule": rule.name, "limiter": limiter}
        for limiter in settings.limiters_of_middleware
        for rule in rulesets.get(limiter).rules
        if not OF_USER.isdisjoint(map(base_of, rule.properties))
    ]


def _order_messages(rules: Sequence[str] | None) -> Messages:
    """Return the warning that names these rules. Returns no warning for no rules, and a general one for None."""
    if rules is not None and not rules:
        return []
    return [
        CheckWarning(
            _order_message(rules),
            hint=_("List it after AuthenticationMiddleware, which sets the user of the request."),
            id="ratelimit_rules.W003",
        )
    ]


def _order_message(rules: Sequence[str] | None) -> str:
    if rules is None:
        return _(
            "RateLimitMiddleware is listed before AuthenticationMiddleware, so rules by user treat every request as"
            " anonymous."
        )
    listed = ", ".join(rules[:NAMED_RULES])
    more = len(rules) - NAMED_RULES
    if more > 0:
        return ngettext(
            "RateLimitMiddleware is listed before AuthenticationMiddleware, so the rules %(rules)s and %(number)s more"
            " treat every request as anonymous.",
            "RateLimitMiddleware is listed before AuthenticationMiddleware, so the rules %(rules)s and %(number)s more"
            " treat every request as anonymous.",
            more,
        ) % {"rules": listed, "number": localized(Grouped(more))}
    return ngettext(
        "RateLimitMiddleware is listed before AuthenticationMiddleware, so the rule %(rules)s treats every request as"
        " anonymous.",
        "RateLimitMiddleware is listed before AuthenticationMiddleware, so the rules %(rules)s treat every request as"
        " anonymous.",
        len(rules),
    ) % {"rules": listed}


def check_limiters_have_rules(**options: object) -> Messages:
    """Report limiters without rules if this process has already loaded the rules. Queries no database."""
    return _limiters_without_rules() if rulesets.are_loaded() else []


def check_limiters_have_saved_rules(databases: Sequence[str] | None = None, **options: object) -> Messages:
    """Report limiters without rules. Queries the database, unless the rules are loaded and the other check reports."""
    if rulesets.are_loaded():
        return []
    with _loaded(databases or ()) as readable:
        return _limiters_without_rules() if readable else []


def _limiters_without_rules() -> Messages:
    names = limiter_names.named()
    known = rulesets.limiters()
    return [
        CheckWarning(
            _("Limiter %(name)r has no rules and allows every request.") % {"name": name},
            hint=_("Add a ruleset of this name in the admin, in the rules file or in code, or correct the name."),
            id="ratelimit_rules.W004",
        )
        for name in sorted(names)
        if name not in known
    ]


def check_page_can_be_sent(databases: Sequence[str] | None = None, **options: object) -> Messages:
    """Report rulesets whose page in the admin has more fields than Django accepts. Queries the database."""
    most = form_size.most_rules()
    if most is None or not _rules_are_in(databases or ()):
        return []
    from ..models import Ruleset

    long = Ruleset.objects.annotate(number=Count("rules")).filter(number__gt=most)
    return [
        CheckWarning(
            ngettext(
                "The ruleset %(name)r has %(number)s rule. Its page in the admin cannot be saved, because it has more"
                " fields than DATA_UPLOAD_MAX_NUMBER_FIELDS (%(bound)s) allows.",
                "The ruleset %(name)r has %(number)s rules. Its page in the admin cannot be saved, because it has more"
                " fields than DATA_UPLOAD_MAX_NUMBER_FIELDS (%(bound)s) allows.",
                number,
            )
            % {"name": name, "number": localized(Grouped(number)), "bound": settings.max_form_fields},
            hint=_(
                "Set DATA_UPLOAD_MAX_NUMBER_FIELDS to %(fields)s or more, or change these rules with ratelimit_apply."
            )
            % {"fields": form_size.fields_of(number)},
            id="ratelimit_rules.W006",
        )
        for name, number in long.values_list("name", "number")
    ]


@contextmanager
def _loaded(databases: Sequence[str]) -> Iterator[bool]:
    """Yield whether these databases hold the rules. Forget rules that the block loads.

    Django runs the checks in no fixed order. A check that queries no database must not report rules that another check
    has loaded.
    """
    were_loaded = rulesets.are_loaded()
    try:
        yield _rules_are_in(databases)
    finally:
        if not were_loaded:
            rulesets.forget()


def _rules_are_in(databases: Sequence[str]) -> bool:
    """Return whether these databases hold this app's tables. Before the first ``migrate`` they do not."""
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
