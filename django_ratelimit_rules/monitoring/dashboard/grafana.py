"""A Grafana dashboard: a row for all limiters, and one to unfold for each.

Limiters go in, the dashboard comes out as Grafana imports it (classic JSON model, schema version 42, which Grafana 12
and newer write). Panels ask by rule wherever they can, so that a rule that comes or goes needs no new dashboard.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .promql import Expressions
from .watched import Watched

SCHEMA_VERSION = 42
WINDOW = "$__rate_interval"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, PANELS_A_LINE = 8, 8, 3
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Query = tuple[str, str]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart. ``queries`` are pairs of an expression and how its series are named."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]


def dashboard(limiters: Sequence[Watched], expressions: Expressions, title: str = "Rate limits") -> Json:
    """Return the dashboard. The same title always gets the same uid, so that a new import replaces the old one."""
    digest = hashlib.sha256(json.dumps([title, dict(expressions.labels)]).encode()).hexdigest()
    return {
        "uid": f"rate-limits-{digest[:12]}",
        "title": title,
        "description": "Written by manage.py ratelimit_dashboard.",
        "tags": ["rate limits", "django"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource()]},
        "panels": list(_laid_out(limiters, expressions)),
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
    }


def _laid_out(limiters: Sequence[Watched], expressions: Expressions) -> Iterator[Json]:
    """Yield the rows with their panels; those of one limiter lie folded inside its row."""
    number, y = 1, 0
    for title, panels, folded in _rows(limiters, expressions):
        row = {"id": number, "type": "row", "title": title, "collapsed": folded, "panels": []}
        row["gridPos"] = {"h": 1, "w": WIDTH * PANELS_A_LINE, "x": 0, "y": y}
        inside = [_panel(panel, number + 1 + place, y + 1, place) for place, panel in enumerate(panels)]
        number += 1 + len(inside)
        # The lines that folded panels will take are not counted: Grafana moves what is below when it unfolds them.
        y += 1 if folded else 1 + -(-len(inside) // PANELS_A_LINE) * HEIGHT
        if folded:
            row["panels"] = inside
        yield row
        yield from [] if folded else inside


def _rows(limiters: Sequence[Watched], expressions: Expressions) -> Iterator[tuple[str, list[Panel], bool]]:
    yield "All limiters", list(_overview(expressions)), False
    for watched in limiters:
        yield watched.limiter, list(_of_limiter(watched, expressions)), True


def _overview(ask: Expressions) -> Iterator[Panel]:
    by_limiter = "{{rate_limiter}}"
    yield Panel("Checks", "Calls that asked a limiter.", "reqps", [(ask.calls(WINDOW), by_limiter)])
    yield Panel(
        "Refused", "Share of the checks that was refused.", "percentunit", [(ask.refused_share(WINDOW), by_limiter)]
    )
    yield Panel(
        "Bypassed", "Share that a skip rule let through.", "percentunit", [(ask.bypass_rate(WINDOW), by_limiter)]
    )
    yield Panel(
        "Errors", "Checks that failed; the failure mode answered them.", "reqps", [(ask.errors(WINDOW), by_limiter)]
    )
    yield Panel("Latency, p99", "How long a check takes.", "s", [(ask.latency(0.99, WINDOW), by_limiter)])
    yield Panel(
        "Divergence from the legacy limiter",
        "Share of the comparisons in which the two disagreed; the target is below 0.5 %.",
        "percentunit",
        [(ask.divergence(WINDOW), by_limiter)],
    )


def _of_limiter(watched: Watched, ask: Expressions) -> Iterator[Panel]:
    name = watched.limiter
    yield Panel(f"{name}: checks", "By what the caller was told.", "reqps", [(ask.calls(WINDOW, name), "{{result}}")])
    if watched.limits:
        yield Panel(
            f"{name}: blocks per rule",
            "Refusals; rules behind the one that refused are not asked.",
            "reqps",
            [(ask.blocks(WINDOW, name), "{{rule}}")],
        )
    if watched.counts:
        yield Panel(
            f"{name}: shadow impact",
            "Share of what a rule counted that was over its limit and let through: by a log rule, or in a dry run. This"
            " much it would have refused.",
            "percentunit",
            [(ask.shadow_impact(WINDOW, name), "{{rule}}")],
        )
        yield Panel(
            f"{name}: near the limit",
            "Calls that took a counter to its rule's warn_at, 80 % of the limit where none is stated: who comes next.",
            "reqps",
            [(ask.near(WINDOW, name), "{{rule}}")],
        )
    if watched.skips:
        yield Panel(
            f"{name}: bypasses",
            "Calls that a skip rule let through, uncounted.",
            "reqps",
            [(ask.bypasses(WINDOW, name), "{{rule}}")],
        )
    queries = [(ask.latency(quantile, WINDOW, name), label) for label, quantile in QUANTILES.items()]
    yield Panel(f"{name}: latency", "How long a check takes.", "s", queries)
    yield Panel(f"{name}: errors", "Checks that failed.", "reqps", [(ask.errors(WINDOW, name), "failed")])
    yield Panel(
        f"{name}: divergence",
        "Share of the comparisons with the legacy limiter in which the two disagreed; boundary: within a second of a"
        " clock-aligned edge of the window, where limiters that start their windows elsewhere must disagree.",
        "percentunit",
        [(ask.divergence_at_boundary(WINDOW, name), "boundary: {{boundary}}")],
    )
    if watched.counts:
        yield Panel(f"{name}: limits in force", "As edited in the admin.", "short", [(ask.limits(name), "{{rule}}")])


def _panel(panel: Panel, number: int, top: int, place: int) -> Json:
    y, x = divmod(place, PANELS_A_LINE)
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x * WIDTH, "y": top + y * HEIGHT},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def queries(board: Json) -> Iterator[str]:
    """Yield every expression of a dashboard, folded ones too."""
    yield from _expressions(board["panels"])


def _expressions(panels: Iterable[Json]) -> Iterator[str]:
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", ()))
        yield from _expressions(panel.get("panels", ()))
