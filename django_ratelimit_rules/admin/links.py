"""Addresses of the rulesets' pages within one ``AdminSite``. The name of a page goes in, its address comes out.

A project may serve rulesets on several sites. Each page links to pages of the site that serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# Django's prefix for the names of this model's routes.
MODEL = "django_ratelimit_rules_ruleset"


class Link(NamedTuple):
    """A link with its label."""

    label: StrOrPromise
    url: str


class Links(NamedTuple):
    """The pages of the ``AdminSite`` with this name."""

    site: str

    def to(self, page: str, *arguments: object, **query: str) -> str:
        """Return the address of a page. Raises NoReverseMatch if no route has this name and these arguments."""
        # "admin:" is the name of an application. Django takes the instance of it that current_app names.
        address = reverse(f"admin:{MODEL}_{page}", args=arguments, current_app=self.site)
        return f"{address}?{urlencode(query)}" if query else address
