"""Replays of recorded traffic: what a draft would have done, and which limits the traffic suggests.

Traffic and rulesets go in, numbers come out; nothing is written anywhere. *formats* opens an access log (*logs*,
*stamps*) or JSON lines (*jsonlines*) as *traffic*; *chains* finds each request's counters, *counting* counts, *running*
adds up what one ruleset did, *report* sets it beside the live one; *suggesting* measures how many calls clients make.
"""

from .plan_cache import Refusal
from .report import Replay, Report, replay
from .traffic.formats import reader_of

__all__ = ["Refusal", "Replay", "Report", "reader_of", "replay"]
