"""Runs the decision vectors (format: vectors/README.md) against a limiter, step by step."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from django_ratelimit_rules import Limiter, exceptions
from django_ratelimit_rules.engine import Result
from django_ratelimit_rules.testing import override_ruleset

FOLDER = Path(__file__).parent / "vectors"


def cases(*files: str) -> list[tuple[str, dict[str, Any]]]:
    """Return (id, case) of the named files, or of all files."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        if not files or path.stem in files:
            found += [(f"{path.stem}: {case['title']}", case) for case in json.loads(path.read_text())]
    return found


class Run:
    """One case on one limiter. ``wait`` lets time pass, and ``now`` returns the store's time in seconds."""

    def __init__(self, case: Mapping[str, Any], wait: Callable[[float], None], now: Callable[[], float]) -> None:
        self.case, self.wait, self.now = case, wait, now
        self.limiter = Limiter(case["limiter"])
        self.setup = {"mode": case.get("mode", "enforce")}
        self.setup |= {"tiers": case["tiers"]} if "tiers" in case else {"rules": case.get("rules", [])}
        self.result: Result | None = None

    def run(self) -> None:
        for number, step in enumerate(self.case["steps"]):
            try:
                self.step(step)
            except AssertionError as error:
                raise AssertionError(f"step {number} {step}: {error}") from error

    def step(self, step: Mapping[str, Any]) -> None:
        if "wait" in step:
            self.wait(step["wait"])
        elif "align" in step:
            self.wait(step["align"] - self.now() % step["align"] + 0.002)
        elif "rules" in step or "tiers" in step or set(step) == {"mode"}:
            if set(step) & {"rules", "tiers"}:
                self.setup = {"mode": self.setup["mode"]}
            self.setup |= step
        else:
            with override_ruleset(self.limiter.name, **self.setup):
                self.call(step)

    def call(self, step: Mapping[str, Any]) -> None:
        verb = next(name for name in ("check", "peek", "charge", "settle", "reset") if name in step)
        if "raises" in step:
            self.expect_raise(step, verb)
            return
        for _ in range(step.get("times", 1)):
            got = self.do(verb, step)
        if verb in ("check", "peek"):
            compare_result(step.get("expect", {}), got)
        elif verb == "reset" and "expect" in step:
            compare(step["expect"]["removed"], got, "removed")

    def do(self, verb: str, step: Mapping[str, Any]) -> Any:
        if verb == "settle":
            return self.limiter.settle(self.result, step["settle"])
        cost = {"cost": step["cost"]} if "cost" in step else {}
        got = getattr(self.limiter, verb)(step[verb], **cost)
        if verb == "check":
            self.result = got
        return got

    def expect_raise(self, step: Mapping[str, Any], verb: str) -> None:
        kinds = tuple(getattr(builtins, name, None) or getattr(exceptions, name) for name in step["raises"])
        with pytest.raises(kinds) as raised:
            self.do(verb, step)
        assert step.get("names", "") in str(raised.value)


def compare_result(expected: Mapping[str, Any], result: Result) -> None:
    for key, value in expected.items():
        if key == "evaluations":
            assert len(result.evaluations) == len(value), f"evaluations: {result.evaluations}"
            for wanted, evaluation in zip(value, result.evaluations, strict=True):
                for name, one in wanted.items():
                    compare(one, getattr(evaluation, name), f"{evaluation.rule}.{name}")
        elif key == "most_restrictive":
            compare(value, result.most_restrictive and result.most_restrictive.rule, key)
        else:
            compare(value, getattr(result, key), key)


def compare(wanted: Any, got: Any, what: str) -> None:
    if isinstance(wanted, dict):
        assert got is not None, f"{what} is None, wanted {wanted}"
        assert wanted["min"] - 0.01 <= got <= wanted["max"] + 0.01, f"{what} is {got}, wanted {wanted}"
    else:
        assert got == wanted, f"{what} is {got!r}, wanted {wanted!r}"
        if type(wanted) is int:
            assert type(got) is int, f"{what} is {got!r}, wanted an int"
