"""The engine: rules in, decision out. It plans the hits of a call and decides by the tallies of its counters.

Pure: no Django, no Redis, no clock. Hits go out to the counters, and tallies come back. In the order to read it:

- a rule, which checks itself: ``rules`` and their ``fields``, with ``algorithms``, ``values`` (strings),
  ``durations``, ``properties`` (names) and ``matching``.
- a call: its arguments in ``calls``, the Ruleset and its matching rules in ``plans``, and the decision in ``results``.
  ``plans`` uses ``candidates``, an index of rules, and ``keys`` of counters.
- about rules and results: ``sentences``, ``explanation``, ``lint``, and ``comparison`` with another limiter. All return
  ``messages``, in English and ready to be translated.
"""

from .algorithms import Algorithm
from .explanation import Explanation, explain, record, trace
from .keys import KeyWriter
from .plans import Hit, Hits, Plan, Ruleset, counter_keys, near, plan
from .results import Evaluation, Outcome, Result, Tally, charged, decide, explained, failed, take_pending
from .rules import Action, FailureMode, Mode, Rule, as_rule, check_partition, check_unique_names
from .sentences import sentence

__all__ = [
    "Action",
    "Algorithm",
    "Evaluation",
    "Explanation",
    "FailureMode",
    "Hit",
    "Hits",
    "KeyWriter",
    "Mode",
    "Outcome",
    "Plan",
    "Result",
    "Rule",
    "Ruleset",
    "Tally",
    "as_rule",
    "charged",
    "check_partition",
    "check_unique_names",
    "counter_keys",
    "decide",
    "explain",
    "explained",
    "failed",
    "near",
    "plan",
    "record",
    "sentence",
    "take_pending",
    "trace",
]
