"""A filter that adds to a site's own log lines the limits that the request met.

Log records go in and out. Loads no model, because Django makes the filters of ``LOGGING`` before the apps are ready.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from .engine import Result
from .identifiers.current import current_request


class RateLimitsFilter(logging.Filter):
    """Add ``rate_limits`` to records: ``limiter:rule:outcome``, joined by commas, for each rule that the request met.

    The request is the record's own (``extra={"request": request}``, as Django's are), else the one being answered. An
    outcome is ``allow``, ``block``, ``skip``, or ``exceeded`` for a limit passed that did not block; a check that
    failed is ``limiter:-:error``. Outside of requests, and where no rule matched, the text is empty.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
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
