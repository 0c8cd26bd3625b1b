"""A Grafana dashboard: a row for all limiters, and a collapsed row for each limiter.

The dashboard is in Grafana's classic JSON model, schema version 42, which Grafana 12 and newer write. Queries
group by rule if possible, so that new rules need no new dashboard.
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
    """One chart. ``queries`` are pairs of an expression and the legend of its series."""

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
    """Yield the rows with their panels. The panels of a single limiter are collapsed inside its row."""
    number, y = 1, 0
    for title, panels, folded in _rows(limiters, expressions):
        row = {"id": number, "type": "row", "title": title, "collapsed": folded, "panels": []}
        row["gridPos"] = {"h": 1, "w": WIDTH * PANELS_A_LINE, "x": 0, "y": y}
        inside = [_panel(panel, number + 1 + place, y + 1, place) for place, panel in enumerate(panels)]
        number += 1 + len(inside)
        # Do not count the lines of collapsed panels. Grafana moves the rows below when it expands them.
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
    yield Panel("Checks", "Checks per second, by limiter.", "reqps", [(ask.calls(WINDOW), by_limiter)])
    yield Panel(
        "Refused", "Share of the checks that were blocked.", "percentunit", [(ask.refused_share(WINDOW), by_limiter)]
    )
    yield Panel(
        "Bypassed",
        "Share of the checks that a skip rule allowed.",
        "percentunit",
        [(ask.bypass_rate(WINDOW), by_limiter)],
    )
    yield Panel(
        "Errors", "Checks that failed. The failure mode decided them.", "reqps", [(ask.errors(WINDOW), by_limiter)]
    )
    yield Panel("Latency, p99", "Duration of a check.", "s", [(ask.latency(0.99, WINDOW), by_limiter)])
    yield Panel(
        "Divergence from the legacy limiter",
        "Share of the comparisons in which the two disagreed. The target is below 0.5 %.",
        "percentunit",
        [(ask.divergence(WINDOW), by_limiter)],
    )


def _of_limiter(watched: Watched, ask: Expressions) -> Iterator[Panel]:
    name = watched.limiter
    yield Panel(
        f"{name}: checks",
        "Checks per second, by the result that the caller received.",
        "reqps",
        [(ask.calls(WINDOW, name), "{{result}}")],
    )
    if watched.limits:
        yield Panel(
            f"{name}: blocks per rule",
            "Blocked calls by the rule that blocked them. Later rules do not see these calls.",
            "reqps",
            [(ask.blocks(WINDOW, name), "{{rule}}")],
        )
    if watched.counts:
        yield Panel(
            f"{name}: shadow impact",
            "Share of a rule's calls that were over the limit but allowed, by a log rule or in a dry run. If enforced,"
            " the rule would block them.",
            "percentunit",
            [(ask.shadow_impact(WINDOW, name), "{{rule}}")],
        )
        yield Panel(
            f"{name}: near the limit",
            "Calls that brought a counter to its rule's warn_at, by default 80 % of the limit. These clients may be"
            " blocked next.",
            "reqps",
            [(ask.near(WINDOW, name), "{{rule}}")],
        )
    if watched.skips:
        yield Panel(
            f"{name}: bypasses",
            "Calls that a skip rule allowed uncounted.",
            "reqps",
            [(ask.bypasses(WINDOW, name), "{{rule}}")],
        )
    queries = [(ask.latency(quantile, WINDOW, name), label) for label, quantile in QUANTILES.items()]
    yield Panel(f"{name}: latency", "Duration of a check.", "s", queries)
    yield Panel(f"{name}: errors", "Checks that failed.", "reqps", [(ask.errors(WINDOW, name), "failed")])
    yield Panel(
        f"{name}: divergence",
        "Share of the comparisons with the legacy limiter in which the two disagreed. boundary is true within a second"
        " of a clock-aligned edge of the window, where limiters with other windows are bound to disagree.",
        "percentunit",
        [(ask.divergence_at_boundary(WINDOW, name), "boundary: {{boundary}}")],
    )
    if watched.counts:
        yield Panel(f"{name}: limits in force", "The limit of each rule.", "short", [(ask.limits(name), "{{rule}}")])


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
    """Yield every expression of a dashboard, including collapsed panels."""
    yield from _expressions(board["panels"])


def _expressions(panels: Iterable[Json]) -> Iterator[str]:
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", ()))
        yield from _expressions(panel.get("panels", ()))
