"""The rules of a long ruleset that may match, found by look-ups instead of by trying each rule.

The index is built once per snapshot. For an identifier it yields the positions of the rules to try, in order. It is
lazy: a property is read only when the first rule that depends on it is reached. A rule is found by an equality
condition, or else by a network or a pattern. The patterns of one property are in one RE2 set. A rule with further
conditions is still tried as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import re2

from .matching import Ends, Matcher, Members, Networks, Search, ValueOf, encoded, parse_address
from .properties import facts_of

# In shorter rulesets, trying each rule is faster than the look-ups.
FEWEST = 12
# RE2 stops matching without an error when its memory is used up. Each pattern gets the memory of a set of its own.
MEMORY_PER_PATTERN = 8 << 20
PATTERNS_PER_SET = 1024


class Candidates:
    """The rules of a ruleset, by position, as an index."""

    __slots__ = ("_lookups", "_tried", "decided")

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self._tried: list[int] = []
        # By position: whether a rule that is found matches without another check.
        self.decided = [matcher.always for matcher in matchers]
        lookups: dict[str, Lookup] = {}
        for position, matcher in enumerate(matchers):
            condition_to_index = _indexed(matcher) if len(matchers) >= FEWEST else None
            if condition_to_index is None:
                self._tried.append(position)
            else:
                name, condition = condition_to_index
                lookups.setdefault(name, Lookup(name, position)).add(position, condition)
                self.decided[position] = len(matcher.alternatives[0]) == 1
        for lookup in lookups.values():
            lookup.compile()
        self._lookups = list(lookups.values())

    def of(self, value_of: ValueOf) -> Iterable[int]:
        """Return the positions of the rules that may match, in order."""
        if not self._lookups:
            return self._tried
        return (step for step in self._steps(value_of) if type(step) is int)

    def asking(self, value_of: ValueOf) -> Iterator[int | str]:
        """Yield the same positions, and each property right before a look-up reads it."""
        return self._steps(value_of)

    def _steps(self, value_of: ValueOf) -> Iterator[int | str]:
        waiting: Sequence[int] = self._tried
        at = 0
        for lookup in self._lookups:
            # Yield the rules before the first that this property decides, because they may end the chain. Then the
            # property is not read.
            while at < len(waiting) and waiting[at] < lookup.first:
                yield waiting[at]
                at += 1
            yield lookup.name
            found = lookup.find(value_of(lookup.name))
            if found:
                waiting = sorted([*waiting[at:], *found])
                at = 0
        yield from waiting[at:]


class Lookup:
    """The rules that one property decides."""

    __slots__ = ("_by_network", "_by_pattern", "_by_text", "_sets", "first", "name")

    def __init__(self, name: str, first: int) -> None:
        self.name = name
        self.first = first
        self._by_text: dict[str, list[int]] = {}
        self._by_pattern: dict[str, list[int]] = {}
        # By IP version and number of host bits, which an address loses to become the number of its network.
        self._by_network: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._sets: list[tuple[re2.Set, list[list[int]]]] = []

    def add(self, position: int, condition: Members | Networks | str) -> None:
        """Add a rule under its strings, its networks or its pattern."""
        if isinstance(condition, str):
            self._by_pattern.setdefault(condition, []).append(position)
            return
        if isinstance(condition, Networks):
            for network in condition.networks:
                bits = network.max_prefixlen - network.prefixlen
                numbers = self._by_network.setdefault((network.version, bits), {})
                numbers.setdefault(int(network.network_address) >> bits, []).append(position)
            return
        for text in condition:
            if text is not None:
                self._by_text.setdefault(text, []).append(position)

    def compile(self) -> None:
        """Make the RE2 sets of all patterns."""
        for start in range(0, len(self._by_pattern), PATTERNS_PER_SET):
            chunk = list(self._by_pattern)[start : start + PATTERNS_PER_SET]
            options = re2.Options()
            options.log_errors = False
            options.max_mem = MEMORY_PER_PATTERN * (len(chunk) + 1)
            patterns = re2.Set.SearchSet(options)
            for pattern in chunk:
                patterns.Add(pattern)
            patterns.Compile()
            self._sets.append((patterns, [self._by_pattern[pattern] for pattern in chunk]))

    def find(self, text: str | None) -> list[int]:
        """Return the positions of the rules that may match a string, in no order."""
        if text is None:
            return []
        found = self._by_text.get(text, [])
        if self._by_network:
            found = found + self._around(text)
        if self._sets:
            raw = encoded(text)
            found = found[:]
            for patterns, positions in self._sets:
                for index in patterns.Match(raw) or ():
                    found += positions[index]
        return found

    def _around(self, text: str) -> list[int]:
        """Return the positions of the rules with a network that contains an address."""
        address = parse_address(text)
        found: list[int] = []
        if address is not None:
            number = int(address)
            for (version, bits), numbers in self._by_network.items():
                if version == address.version:
                    found += numbers.get(number >> bits, ())
        return found


def _indexed(matcher: Matcher) -> tuple[str, Members | Networks | str] | None:
    """Return the condition to find a rule by, None if no look-up can find it.

    For example, no look-up finds a rule that matches a missing value.
    """
    if len(matcher.alternatives) != 1:
        return None
    others: list[tuple[str, Networks | str]] = []
    conditions = matcher.in_order[0]
    for name, condition in conditions:
        if facts_of(conditions[0][0]).cheap and not facts_of(name).cheap:
            # Read an expensive property only for requests that meet the conditions on cheap properties.
            break
        if isinstance(condition, Members) and None not in condition:
            return name, condition
        if isinstance(condition, (Ends, Search)) and condition.pattern is not None:
            others.append((name, condition.pattern))
        elif isinstance(condition, Networks):
            others.append((name, condition))
    return next(iter(others), None)
