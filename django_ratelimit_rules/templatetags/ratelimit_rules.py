"""Template tags: ``{% load ratelimit_rules %}{% my_limits as limits %}``, and numbers as all pages write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from ..exceptions import CountersUnavailable
from ..http import my_limits as mylimits
from ..http.my_limits import MyLimit

register = template.Library()


@register.simple_tag(takes_context=True)
def my_limits(context: Mapping[str, Any], *limiters: str) -> list[MyLimit]:
    """Return the limits of the signed-in user, of these limiters or of all: the same as the view of this name.

    Nothing for anonymous users, while Redis is away, and without a request in the context.
    """
    request = context.get("request")
    try:
        return mylimits.of_user(request, limiters) if request is not None else []
    except CountersUnavailable:
        return []


@register.filter
def thousands(number: float) -> str:
    """Return a number with its thousands apart, ``10,188``, as the pages' sentences say it."""
    return f"{number:,}"
