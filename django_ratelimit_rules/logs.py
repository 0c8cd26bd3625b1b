"""A logging filter that adds the limits of the current request to a site's own log lines.

Log records go in and out. It loads no model, because Django makes the filters of ``LOGGING`` before the apps are ready.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from .engine import Result
from .identifiers.current import current_request


class RateLimitsFilter(logging.Filter):
    """Add ``rate_limits`` to records: ``limiter:rule:outcome`` for each rule that applied to the request.

    Commas separate several rules. The request is that of the record, if it has one, as Django's own records do
    (``extra={"request": request}``). Otherwise it is the request that this thread or task answers.

    The outcome is ``allow``, ``block``, ``skip``, or ``exceeded`` for an exceeded limit that did not block. A failed
    check is ``limiter:-:error``. The string is empty outside of requests, and if no rule matched.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept every record."""
        request = getattr(record, "request", None)
        results = getattr(request if hasattr(request, "rate_limits") else current_request(), "rate_limits", {})
        record.rate_limits = ",".join(_outcomes(results))
        return True


def _outcomes(results: Mapping[str, Result]) -> Iterator[str]:
    for limiter, result in results.items():
        for evaluation in result.evaluations:
            passed = "exceeded" if evaluation.exceeded else "allow"
            yield f"{limiter}:{evaluation.rule}:{'block' if evaluation.result == 'block' else passed}"
        if result.skipped:
            yield f"{limiter}:{result.rule}:skip"
        if result.error:
            yield f"{limiter}:-:error"
