"""Addresses of the rulesets' pages within one ``AdminSite``: a page's name goes in, its address comes out.

A project may serve rulesets on several sites. Each page links to pages of the site that serves it.
"""

from __future__ import annotations

from typing import NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

# Django's prefix for the names of this model's routes.
MODEL = "django_ratelimit_rules_ruleset"


class Link(NamedTuple):
    """A link with its label."""

    label: str
    url: str


class Links(NamedTuple):
    """The pages of the ``AdminSite`` with this name."""

    site: str

    def to(self, page: str, *arguments: object, **query: str) -> str:
        """Return the address of a page. Raises NoReverseMatch if no route has this name and these arguments."""
        # Django looks "admin:" up as an application, and takes the instance that current_app names.
        address = reverse(f"admin:{MODEL}_{page}", args=arguments, current_app=self.site)
        return f"{address}?{urlencode(query)}" if query else address
