"""Algorithms: one row for each way in which a counter counts. Rules, keys, counters, replays and messages use the row.

A new algorithm is a row in :data:`ALGORITHMS`, its branch in ``counters/hit.lua``, and its reader and writer in
``counters/memory.py``. It also needs a migration, because the database checks the names. A replay counts it by that
reader and writer. A class in ``replay/fast_counters.py`` makes that faster.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

from .messages import _


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Algorithm(str):
    """An algorithm is the string in rules and in the database, with everything else that depends on it.

    ``code`` is its part of a counter's key. It must be unique and never change, or live counters restart. ``wire``
    is its number in a call of the script, unique as well. ``label`` and ``help`` are messages for the admin.
    ``public_note`` is a message for the clients of a site. It is empty if they need to know nothing.

    ``tallies_refusals``: the counter adds the cost of refused calls to ``count``, except during a ban.
    ``full_until_reset``: a full counter rejects every call until its reset time, so a refusal may be cached.
    ``counts_distinct``: rules may combine it with ``count_distinct``.
    """

    FIXED_WINDOW: ClassVar[Algorithm]
    SLIDING_WINDOW: ClassVar[Algorithm]
    TOKEN_BUCKET: ClassVar[Algorithm]

    value: str
    _: KW_ONLY
    code: str
    wire: int
    label: str
    help: str = ""
    public_note: str = ""
    tallies_refusals: bool = False
    full_until_reset: bool = False
    counts_distinct: bool = False

    def __new__(cls, value: str, **_: object) -> Self:
        return str.__new__(cls, value)

    def __reduce__(self) -> str:
        """Return the name of this row's constant, so that a copy or an unpickled rule refers to the same row."""
        return self.value.upper()


FIXED_WINDOW = Algorithm(
    "fixed_window",
    code="f",
    wire=0,
    label=_("fixed window"),
    help=_("fixed window: starts with the first call and ends one period later."),
    tallies_refusals=True,
    full_until_reset=True,
    counts_distinct=True,
)
SLIDING_WINDOW = Algorithm(
    "sliding_window",
    code="s",
    wire=1,
    label=_("sliding window"),
    help=_("sliding window: smoother at the edges."),
)
TOKEN_BUCKET = Algorithm(
    "token_bucket",
    code="t",
    wire=2,
    label=_("token bucket"),
    help=_("token bucket: refills evenly, allows bursts up to the limit."),
    public_note=_("refills evenly"),
)
# Rules choose it by `count_distinct`, not by name.
DISTINCT_VALUES = Algorithm("distinct_values", code="d", wire=3, label=_("distinct values"))

DEFAULT = FIXED_WINDOW
# The algorithms that a rule may name, in the order of the admin's choices.
ALGORITHMS: dict[str, Algorithm] = {row.value: row for row in (FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET)}

Algorithm.FIXED_WINDOW, Algorithm.SLIDING_WINDOW, Algorithm.TOKEN_BUCKET = FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET
