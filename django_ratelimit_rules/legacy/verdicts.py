"""The verdict of a legacy limiter: whether it blocks a request, and its own response or exception.

The return value of a legacy limiter goes in, a :class:`Verdict` comes out. Does not know which limiter decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http.response import HttpResponseBase


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a legacy limiter on one request.

    ``refusal`` is a response to return or an exception to raise. None means the standard response (429). ``passes`` is
    True if the view runs even for a blocked request, for example because the view itself reads the verdict.
    """

    blocked: bool
    refusal: HttpResponseBase | Exception | None = None
    passes: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the legacy limiter responds instead of the view."""
        return self.blocked and not self.passes


def verdict_of(returned: object) -> Verdict:
    """Return the verdict that a legacy callable returned.

    It may return a Verdict, a bool (True blocks), None to allow, or a response or an exception to block. Raises
    TypeError for other types.
    """
    if isinstance(returned, Verdict):
        return returned
    if returned is None or isinstance(returned, bool):
        return Verdict(bool(returned))
    if isinstance(returned, (HttpResponseBase, Exception)):
        return Verdict(True, returned)
    raise TypeError(
        "a legacy limiter must return a bool (True blocks), None, a response, an exception or a Verdict, not"
        f" {type(returned).__name__}"
    )
