"""Replays: recorded traffic and draft rules go in, the decisions of these rules come out.

- ``traffic/`` reads the calls. ``plan_cache`` plans each kind of call once. ``fast_counters`` counts the calls.
- ``runner`` runs one ruleset. ``timeline`` adds up its calls by time.
- ``report`` compares a draft with the live rules. ``text_report`` writes a report for a terminal.
- ``distribution`` counts the calls of each client. ``suggestion_text`` writes a distribution for a terminal.
- ``drafts`` joins draft rules with the other tiers.

A replay decides as the live rules do, by the times of the traffic. It queries neither Redis nor the database.
"""

from .plan_cache import Refusal
from .report import Replay, Report, replay
from .traffic.formats import reader_of

__all__ = ["Refusal", "Replay", "Report", "reader_of", "replay"]
