"""Explanations of refusals, stored in Redis for an hour under a short id.

A fresh result goes in and gets its ``decision``, the id in responses and log lines, by which the admin finds the
explanation. Only stored explanations get an id. They are a sample per limiter and process: the first 20 refusals of an
hour, then one per second, after 60 one per 10 seconds. So a flood costs next to nothing, and an hour of it about a
megabyte. Values that clients wrote are stored as digests.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from base64 import b32encode
from typing import Any, cast

from .. import engine
from ..conf import settings
from ..counters.aliases import current
from ..engine import (
    KeyWriter,
    Plan,
    Result,
    Ruleset,
)
from ..engine.explanation import MAX_TEXT, Known, Show
from ..engine.matching import ValueOf
from ..engine.messages import packed, unpacked
from ..engine.properties import is_client_written
from ..exceptions import CountersUnavailable
from ..identifiers import RequestIdentifier
from ..runtime import log_sampling, reset
from ..runtime.clock import clock
from ..runtime.steps import Steps

logger = logging.getLogger(__name__)

KEPT_SECONDS = 3600
SEAL = 20
MOST_RULES = 50
# Sampling per limiter and process: the first 20 refusals of an hour, then one per second, after 60 one per 10 seconds.
FEW, SPACING, MANY, WIDE_SPACING = 20, 1.0, 60, 10.0
_ID = re.compile(r"[a-z2-7]{8}")


class Paces(reset.Part):
    """The sampling of refusals. By limiter: the start of its hour, the number of refusals stored in it, the next time.

    All times are in seconds.
    """

    def __init__(self) -> None:
        self._by_limiter: dict[str, tuple[float, int, float]] = {}

    def due(self, limiter: str, now: float) -> bool:
        """Return whether to store a refusal at this time, and count it if so. ``now`` is in seconds."""
        began, kept, next_at = self._by_limiter.get(limiter, (now, 0, now))
        if now < next_at:
            return False
        if now - began >= KEPT_SECONDS:
            began, kept = now, 0
        spacing = 0.0 if kept + 1 < FEW else SPACING if kept < MANY else WIDE_SPACING
        self._by_limiter[limiter] = (began, kept + 1, now + spacing)
        return True

    def forget(self) -> None:
        """Forget the stored refusals, so that a test's own first refusal is stored."""
        self._by_limiter.clear()

    def remembers(self) -> bool:
        """Return whether any refusal was stored."""
        return bool(self._by_limiter)


paces = reset.register("decisions", Paces())
forget = paces.forget


def keep(
    ruleset: Ruleset, plan: Plan, result: Result, value_of: ValueOf, request: RequestIdentifier | None = None
) -> Steps[None]:
    """Return the steps that store a refusal in the sample, and give the result its ``decision``.

    A stored refusal costs one SET. Never raises.
    """
    entry = _entry(ruleset, plan, result, value_of, request)
    if entry:
        try:
            yield current().put, current().aput, (_name(entry[0]), entry[1], KEPT_SECONDS)
        except CountersUnavailable:
            return
        engine.explained(result, entry[0])


def find(decision: str) -> dict[str, Any] | None:
    """Return the explanation with an id, in the form of :meth:`Explanation.as_dict` plus ``at``, a POSIX timestamp.

    Returns None if there is no explanation, or if it has expired. Raises CountersUnavailable.
    """
    decision = decision.strip().lower()
    kept = (current().fetch(_name(decision)) if _ID.fullmatch(decision) else None) or b""
    text = kept.decode(errors="replace")[SEAL:]
    # Ignore any value without a valid seal, because it may have any shape.
    return cast(dict[str, Any], unpacked(json.loads(text))) if kept == _sealed(text).encode() else None


def _sealed(text: str) -> str:
    """Return a string after its seal, a digest that only processes with this SECRET_KEY can compute."""
    return KeyWriter(settings.secret).digest(text.encode()) + text


def _name(decision: str) -> str:
    return f"decision:{decision}"


def _entry(
    ruleset: Ruleset, plan: Plan, result: Result, value_of: ValueOf, request: RequestIdentifier | None
) -> tuple[str, str] | None:
    if not settings.DECISIONS or not paces.due(result.limiter, time.monotonic()):
        return None
    try:
        # An explanation is not worth a query.
        known = Known(value_of) if request is None else Known(value_of, request.is_known)
        explanation = engine.record(plan, ruleset, result, known, _showing(ruleset.keys), MOST_RULES)
        sealed = _sealed(json.dumps(packed({"at": clock.now(), **explanation.as_dict()})))
        return b32encode(os.urandom(5)).decode().lower(), sealed
    except Exception:
        # A fault in the explanation must not change the refusal.
        if log_sampling.due(f"decisions.{result.limiter}"):
            logger.exception("A refusal of limiter %s could not be explained", result.limiter)
        return None


def _showing(keys: KeyWriter) -> Show:
    """Return the function that gives a property's value as it is stored: like in a counter's key."""

    def show(name: str, text: str) -> str:
        if is_client_written(name) or len(text) > MAX_TEXT:
            return "#" + keys.digest(text.encode("utf-8", "surrogatepass"))
        return text

    return show
