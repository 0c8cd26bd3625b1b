"""django-ratelimit as a legacy limiter: its decorator's arguments go in, an argument of ``rate_limited`` comes out.

    @rate_limited("search", legacy=ratelimit(key="ip", rate="5/m"))

It uses django-ratelimit's own counters and group, so no client starts again at zero. It blocks as django-ratelimit
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.module_loading import import_string
from django_ratelimit import ALL
from django_ratelimit.core import is_ratelimited
from django_ratelimit.exceptions import Ratelimited

from ..conf import settings
from ..legacy.verdicts import Verdict

Legacy = Callable[..., Verdict]


class ratelimit:
    """Takes the arguments of ``django_ratelimit.decorators.ratelimit``.

    With ``block=False`` the view continues to read ``request.limited``. Only the comparison counts the block.
    """

    ALL = ALL
    UNSAFE = is_ratelimited.UNSAFE

    def __init__(
        self,
        group: str | None = None,
        key: str | Callable[..., str] | None = None,
        rate: str | tuple[int, int] | Callable[..., Any] | None = None,
        method: str | Sequence[str] | None = ALL,
        block: bool = True,
    ) -> None:
        self.asked = {"group": group, "key": key, "rate": rate, "method": method}
        self.block = block

    def for_view(self, view: Callable[..., Any]) -> Legacy:
        """Return the limiter of one view: without a group its counters are named after the view."""

        def asked(request: HttpRequest, /, *args: Any, **kwargs: Any) -> Verdict:
            limited = is_ratelimited(request=request, fn=view, increment=True, **self.asked)
            request.limited = limited or getattr(request, "limited", False)  # type: ignore[attr-defined]
            return Verdict(limited, _refusal() if limited and self.block else None, passes=not self.block)

        return asked


class several:
    """The decorators of one view, from the top. The first that blocks answers, and the next ones are not asked."""

    def __init__(self, *limiters: ratelimit) -> None:
        self.limiters = limiters

    def for_view(self, view: Callable[..., Any]) -> Legacy:
        """Return the limiters of one view."""
        bound = [limiter.for_view(view) for limiter in self.limiters]

        def asked(request: HttpRequest, /, *args: Any, **kwargs: Any) -> Verdict:
            said = Verdict(False)
            for limiter in bound:
                verdict = limiter(request, *args, **kwargs)
                if verdict.refuses:
                    return verdict
                said = verdict if verdict.blocked else said
            return said

        return asked


def _refusal() -> Exception:
    chosen = settings.of_others("RATELIMIT_EXCEPTION_CLASS", Ratelimited)
    made: Exception = (import_string(chosen) if isinstance(chosen, str) else chosen)()
    return made
