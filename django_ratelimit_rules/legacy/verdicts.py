"""The answer of a legacy limiter: whether it blocks, and how it refuses.

Whatever a legacy limiter returned goes in, a :class:`Verdict` comes out. Who decides is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http.response import HttpResponseBase


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a legacy limiter said of a request.

    ``refusal`` is its own way to refuse: a response, or an exception to be raised; None for ours (429). ``passes``: the
    request goes on all the same, as where a view itself looks at what the legacy limiter noted.
    """

    blocked: bool
    refusal: HttpResponseBase | Exception | None = None
    passes: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the legacy limiter answers the request."""
        return self.blocked and not self.passes


def verdict_of(said: object) -> Verdict:
    """Return what a legacy callable said: a Verdict, a bool (True blocks), None for a pass, a response or an exception
    for a refusal. Raises TypeError for anything else."""
    if isinstance(said, Verdict):
        return said
    if said is None or isinstance(said, bool):
        return Verdict(bool(said))
    if isinstance(said, (HttpResponseBase, Exception)):
        return Verdict(True, said)
    raise TypeError(
        "a legacy limiter must return a bool (True blocks), None, a response, an exception or a Verdict, not"
        f" {type(said).__name__}"
    )
