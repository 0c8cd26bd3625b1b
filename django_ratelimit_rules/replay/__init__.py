"""Replays: recorded traffic and draft rules go in, what the rules would have decided comes out.

- ``traffic/`` reads the calls; ``plan_cache`` plans each kind of call once; ``fast_counters`` count.
- ``runner`` runs one ruleset; ``timeline`` is its course; ``report`` is the result, ``text_report`` its text.
- ``distribution`` tells how many calls clients make; ``suggestion_text`` is its text. ``drafts`` joins draft rules.

Decides as the live rules do, by the times of the traffic. Neither Redis nor the database is asked.
"""

from .plan_cache import Refusal
from .report import Replay, Report, replay
from .traffic.formats import reader_of

__all__ = ["Refusal", "Replay", "Report", "reader_of", "replay"]
