"""The template tag ``{% load ratelimit_rules %}{% my_limits as limits %}``, and the filter for numbers on pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from ..exceptions import CountersUnavailable
from ..http import my_limits as mylimits
from ..http.my_limits import MyLimit
from ..runtime import language
from ..runtime.language import grouped

register = template.Library()


@register.simple_tag(takes_context=True)
def my_limits(context: Mapping[str, Any], *limiters: str) -> list[MyLimit]:
    """Return the limits of the signed-in user, as the view of this name does.

    ``limiters`` are the names of limiters. Without names, all limiters are returned. Returns an empty list for
    anonymous users, if Redis cannot be reached, and if the context has no request.
    """
    request = context.get("request")
    try:
        return mylimits.of_user(request, limiters) if request is not None else []
    except CountersUnavailable:
        return []


@register.filter
def thousands(number: float) -> str:
    """Return a number with separators in the active language: ``10,188`` in English."""
    return grouped(number)


@register.filter
def localized(text: object) -> str:
    """Return a message of the engine in the language of the page. Other values are returned as strings."""
    return language.localized(text)
