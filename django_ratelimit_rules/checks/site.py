"""Checks of the project: its middleware, its limiters, and with ``--database`` its rules."""

from __future__ import annotations

from collections.abc import Sequence

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

Messages = list[CheckMessage]


def check_middleware_order(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Say that the middleware stands outside of the one that tells who is asking; with the database asked, only when
    rules want to know that."""
    order = list(settings.project_middleware)
    if OUR_MIDDLEWARE not in order or AUTHENTICATION not in order[order.index(OUR_MIDDLEWARE) :]:
        return []
    subject = "rules by user treat"
    if _rules_are_in(databases or ()):
        wanting = [
            f"{rule.name!r} of limiter {limiter!r}"
            for limiter in settings.middleware_limiters
            for rule in rulesets.get(limiter).rules
            if not OF_USER.isdisjoint(map(base_of, rule.properties))
        ]
        if not wanting:
            return []
        more = f" and {len(wanting) - 3} more" if len(wanting) > 3 else ""
        subject = f"the rule {wanting[0]} treats" if len(wanting) == 1 else f"{', '.join(wanting[:3])}{more} treat"
    return [
        CheckWarning(
            f"RateLimitMiddleware is listed before AuthenticationMiddleware: {subject} every request as anonymous.",
            hint="List it after AuthenticationMiddleware, which tells rules by user who is asking.",
            id="ratelimit_rules.W003",
        )
    ]


def check_limiters_have_rules(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Name limiters that code asks and nobody defined rules for. Asks the database, unless this process has loaded
    the rules already."""
    if not (rulesets.are_loaded() or _rules_are_in(databases or ())):
        return []
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
