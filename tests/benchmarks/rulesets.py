"""Time planning in long rulesets: 2,000 rules of which 5 match against 5 rules that all match.

Run by hand: ``python -m tests.benchmarks.rulesets``. Python alone; no store is asked.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

from django_ratelimit_rules.engine import KeyWriter, Rule, Ruleset, plan

ROUNDS, CALLS = 40, 500


def main() -> None:
    identifier = {"user": "42", "plan": "p42", "path": "/p42/x", "ip": "203.0.113.7"}
    five = [rule(f"r{n}", {}) for n in range(5)]
    subjects = {
        "5 rules, all match": five,
        "2,000 by equality, 5 match": [rule(f"e{n}", {"plan": f"p{n % 400}"}) for n in range(2000)],
        "2,000 by 3 properties, 5 match": [
            rule(f"m{n}", {("plan", "user", "path")[n % 3]: f"p{n % 400 if n % 3 == 0 else n}"}) for n in range(2000)
        ][:1995]
        + five,
        "2,000 by regex, 5 match": [rule(f"x{n}", {"path": {"regex": f"^/p{n % 400}/"}}) for n in range(2000)],
        "2,000 by prefix, 5 match": [rule(f"x{n}", {"path": {"prefix": f"/p{n % 400}/"}}) for n in range(2000)],
    }
    calls = {name: partial(plan, ruleset(rules), identifier.get) for name, rules in subjects.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        print(f"{name:32} {len(call().hits)} hits")
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - started) / CALLS)
    floor = times["5 rules, all match"]
    print(f"{ROUNDS} interleaved rounds of {CALLS} calls, median microseconds a plan")
    for name, values in times.items():
        ratio = statistics.median(a / b for a, b in zip(values, floor, strict=True))
        print(f"{name:32} {statistics.median(values) * 1e6:7.1f}   {ratio:5.2f} x")


def rule(name: str, match: dict[str, object]) -> Rule:
    return Rule(name, match=match, characteristics=["user"], limit=10, period=60)


def ruleset(rules: list[Rule]) -> Ruleset:
    return Ruleset("bench", tuple(rules), keys=KeyWriter(b"secret"))


if __name__ == "__main__":
    main()
