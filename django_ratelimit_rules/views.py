"""Views for the project's URLs. ``my_limits`` returns the limits that count by user to the signed-in user, as JSON.

path("limits/", my_limits)
"""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .exceptions import CountersUnavailable
from .http import my_limits as mylimits


@never_cache
@require_safe
def my_limits(request: HttpRequest) -> JsonResponse:
    """Return ``{"limits": [{"limiter", "rule", "limit", "period", "used", "remaining", "reset_after", "blocked"}]}``.

    ``?limiter=search`` chooses one limiter, and may be repeated. Returns 401 for anonymous users, 503 if Redis is down.
    """
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return JsonResponse({"detail": _("Sign in to see your limits.")}, status=401)
    try:
        limits = mylimits.of_user(request, request.GET.getlist("limiter"))
    except CountersUnavailable:
        return JsonResponse({"detail": _("Your limits cannot be shown at the moment.")}, status=503)
    return JsonResponse({"limits": [asdict(limit) for limit in limits]})
