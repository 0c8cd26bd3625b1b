"""What the app keeps on one request: the results of its limiters so far.

A request goes in, the dictionary that views see as ``request.rate_limits`` comes out.
"""

from __future__ import annotations

from django.http import HttpRequest

from ..engine import Result


def results_of(request: HttpRequest) -> dict[str, Result]:
    """Return the results of this request so far, by limiter; the same dictionary is ``request.rate_limits``."""
    results: dict[str, Result] = request.__dict__.setdefault("rate_limits", {})
    return results
