"""What adds a page to Django's own of the rulesets: its route, and its address by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse

from ...models import Ruleset

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    BaseAdmin = ModelAdmin[Ruleset]
else:
    BaseAdmin = object

# What Django calls the pages of this model.
MODEL = "django_ratelimit_rules_ruleset"


class Pages(BaseAdmin):
    """A part of the rulesets' admin."""

    def route(self, place: str, view: Callable[..., HttpResponseBase], page: str) -> URLPattern:
        """Return the route of a page below the list's address, for those who are signed in to the admin."""
        return path(place, self.admin_site.admin_view(view), name=f"{MODEL}_{page}")


def page_url(page: str, *arguments: object) -> str:
    """Return the address of a page: Django's ``changelist``, ``change``, ``history``, or one with a route here."""
    return reverse(f"admin:{MODEL}_{page}", args=arguments)
