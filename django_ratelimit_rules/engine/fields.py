"""The fields of a rule: one specification for each, from which all lists of fields are derived.

Derived are the checks of :class:`Rule`, the columns and the order in YAML. The form derives its fields, their labels
and help, and the fields that it hides. A field of a kind that exists needs its row here, its attribute in
:class:`Rule` and its column. A new kind also needs a check. If its value is not plain, it needs a column value and a
form field as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from .algorithms import ALGORITHMS, DEFAULT
from .messages import _, gettext_noop, spaced


class Kind(StrEnum):
    """The type of a field's value, hashed as a string because an Enum's own hash is a Python call."""

    __hash__ = str.__hash__

    NAME = "name"
    CHOICE = "choice"
    CONDITIONS = "conditions"
    PROPERTIES = "properties"
    PROPERTY = "property"
    COUNT = "count"
    DURATION = "duration"
    PERCENT = "percent"
    FLAG = "flag"
    MOMENT = "moment"
    # A string for people. It decides nothing.
    NOTE = "note"


class Section(StrEnum):
    """A section of the form. Its value is its heading in English, by which its translation is found."""

    # On the rule's line, which shows before the rule is opened.
    HEAD = "head"
    MAIN = ""
    RARE = gettext_noop("Rarely needed: algorithm, distinct values, bans, charging by the answer, warnings")
    ORIGIN = gettext_noop("Origin, and expiry")


class Requirement(NamedTuple):
    """A field's need that another field has one of the values that ``allowed`` returns.

    ``reason`` is the template of the message that rejects the rule. Its placeholders are ``value``, the other field's
    value, and ``allowed``, the values that it may have.
    """

    field: str
    allowed: Callable[[], Sequence[object]]
    reason: str


def _distinct_algorithms() -> list[str]:
    return [name for name, row in ALGORITHMS.items() if row.counts_distinct]


def _none() -> tuple[None]:
    return (None,)


ALL = ("limit", "log", "skip")
COUNTING = ("limit", "log")
# A line of the form after all numbered ones.
OWN_LINE = 99


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a rule.

    ``default`` is its value in a rule that does not state it. Rules of the ``actions`` take it. A rule of another
    action may state it only if it is ``harmless`` there. ``required``: rules of the ``actions`` need it. ``computed``:
    code may give a function.

    ``phrase`` is a template for the sentence of a rule whose value is not the default. Its placeholders are ``rule``,
    the sentence before it, and ``value``. ``said`` fields are in the sentence anyway. ``help_text`` is HTML. ``label``
    and ``help_text`` are messages.

    Fields of a ``section`` with the same ``line`` are side by side. ``size`` is the width of the input in characters,
    0 for the usual width. ``multiline`` is for notes.
    """

    name: str
    kind: Kind
    default: Any = None
    actions: tuple[str, ...] = ALL
    harmless: bool = False
    required: bool = False
    computed: bool = False
    requirements: tuple[Requirement, ...] = ()
    phrase: str = ""
    said: bool = False
    label: str = ""
    help_text: str = ""
    section: Section = Section.RARE
    line: int = OWN_LINE
    size: int = 0
    multiline: bool = False
    # Whether the field is checked first, because other fields depend on it.
    is_first: bool = field(init=False)
    # Whether a rule of another action must not state the field.
    is_option: bool = field(init=False)

    def __post_init__(self) -> None:
        option = self.actions != ALL and not self.harmless
        first = self.kind in (Kind.NAME, Kind.CHOICE)
        object.__setattr__(self, "is_first", first)
        object.__setattr__(self, "is_option", option)

    @property
    def title(self) -> str:
        """The label. It is made of the name if the specification has none."""
        return self.label or self.name.replace("_", " ").capitalize()

    def make_default(self) -> Any:
        """Return the default, as an object of its own if it can be changed."""
        return copy.copy(self.default)


SPECS: dict[str, FieldSpec] = {
    spec.name: spec
    for spec in (
        FieldSpec(
            "name",
            Kind.NAME,
            default="",
            said=True,
            label=_("Name"),
            help_text=_("Lower-case letters, digits and underscores. Renaming a rule resets its counts."),
            section=Section.MAIN,
            line=1,
        ),
        FieldSpec(
            "action",
            Kind.CHOICE,
            default="limit",
            said=True,
            label=_("Action"),
            help_text=_(
                "limit blocks above the limit. log only counts and blocks no request. skip allows the request at once, "
                "without an evaluation of the rules below."
            ),
            section=Section.MAIN,
            line=1,
        ),
        FieldSpec(
            "match",
            Kind.CONDITIONS,
            default={},
            said=True,
            label=_("Match"),
            help_text=_(
                "The requests that it applies to, as JSON. Every condition must hold. <code>{}</code> is every "
                'request. <code>{"path": {"prefix": "/api/"}, "plan": ["free", "trial"]}</code>. In a list of such '
                "objects, at least one object must hold."
            ),
            section=Section.MAIN,
            line=4,
        ),
        FieldSpec(
            "characteristics",
            Kind.PROPERTIES,
            default=(),
            actions=COUNTING,
            harmless=True,
            said=True,
            label=_("Characteristics"),
            help_text=_(
                "The properties that it counts by, in order, with commas between them: <code>ip</code>, or <code>user, "
                "header.x-team</code>. Each combination of their values has a counter of its own. Empty: one counter "
                "for everyone together."
            ),
            section=Section.MAIN,
            line=3,
        ),
        FieldSpec(
            "limit",
            Kind.COUNT,
            actions=COUNTING,
            required=True,
            computed=True,
            said=True,
            label=_("Limit"),
            help_text=_("Calls allowed per period. 0 blocks every call. Leave empty for a skip rule."),
            section=Section.MAIN,
            line=2,
            size=12,
        ),
        FieldSpec(
            "period",
            Kind.DURATION,
            actions=COUNTING,
            required=True,
            computed=True,
            said=True,
            label=_("Period"),
            help_text=_("30s, 5m, 2h or 1d. A bare number means seconds. Leave empty for a skip rule."),
            section=Section.MAIN,
            line=2,
        ),
        FieldSpec(
            "algorithm",
            Kind.CHOICE,
            default=DEFAULT,
            actions=COUNTING,
            said=True,
            label=_("Algorithm"),
            help_text=spaced([row.help for row in ALGORITHMS.values()]),
        ),
        FieldSpec(
            "count_distinct",
            Kind.PROPERTY,
            actions=COUNTING,
            requirements=(
                Requirement(
                    "algorithm", _distinct_algorithms, gettext_noop("works with %(allowed)s only, not %(value)s")
                ),
            ),
            said=True,
            label=_("Count distinct"),
            help_text=_(
                "Count the different values of this property instead of requests: with <code>post.username</code>, "
                "the number of accounts that a client tries. Empty: count requests."
            ),
            size=40,
        ),
        FieldSpec(
            "ban_for",
            Kind.DURATION,
            actions=COUNTING,
            requirements=(
                Requirement(
                    "count_distinct",
                    _none,
                    gettext_noop("does not go with count_distinct: a value already seen must always pass"),
                ),
            ),
            phrase=gettext_noop("%(rule)s, then ban for %(value)s"),
            label=_("Ban for"),
            help_text=_("A client that exceeds the limit stays blocked for this time: 15m, 1h. Empty: no ban."),
        ),
        FieldSpec(
            "response",
            Kind.CONDITIONS,
            actions=COUNTING,
            said=True,
            label=_("Response"),
            help_text=_(
                'Count only requests with a matching response, as JSON: <code>{"status": 401}</code>, '
                '<code>{"login": "failed"}</code>, <code>{"header.x-cache": "miss"}</code>. Empty: count every request.'
            ),
        ),
        FieldSpec(
            "warn_at",
            Kind.PERCENT,
            default=80,
            actions=COUNTING,
            label=_("Warn at"),
            help_text=_("Send a warning when a client reaches this percentage of the limit. 0 disables it."),
            size=5,
        ),
        FieldSpec("enabled", Kind.FLAG, default=True, label=_("Enabled"), section=Section.HEAD),
        FieldSpec(
            "expires_at",
            Kind.MOMENT,
            label=_("Expires at"),
            help_text=_("From this moment the rule is ignored."),
            section=Section.ORIGIN,
            line=3,
        ),
        FieldSpec(
            "description",
            Kind.NOTE,
            default="",
            label=_("Description"),
            help_text=_("The purpose of this rule, for your colleagues."),
            section=Section.MAIN,
            line=5,
            multiline=True,
        ),
        FieldSpec(
            "owner",
            Kind.NOTE,
            default="",
            label=_("Owner"),
            help_text=_("The person or team to ask before a change."),
            section=Section.ORIGIN,
            line=1,
        ),
        FieldSpec(
            "reason",
            Kind.NOTE,
            default="",
            label=_("Reason"),
            help_text=_("The reason why the rule was created."),
            section=Section.ORIGIN,
            line=2,
            multiline=True,
        ),
        FieldSpec(
            "ticket",
            Kind.NOTE,
            default="",
            label=_("Ticket"),
            help_text=_("The number or URL of the ticket that explains the rule."),
            section=Section.ORIGIN,
            line=1,
            size=40,
        ),
    )
}


def of_kind(*kinds: Kind) -> tuple[str, ...]:
    """Return the names of the fields of these kinds."""
    return tuple(spec.name for spec in SPECS.values() if spec.kind in kinds)


def lines_of(section: Section) -> tuple[tuple[str, ...], ...]:
    """Return the lines of a section of the form, each the names of the fields that are side by side."""
    numbered: dict[int, list[str]] = {}
    for spec in SPECS.values():
        if spec.section is section:
            numbered.setdefault(spec.line, []).append(spec.name)
    own = numbered.pop(OWN_LINE, [])
    return (*(tuple(names) for _, names in sorted(numbered.items())), *((name,) for name in own))
