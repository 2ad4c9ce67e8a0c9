"""The dashboard for Grafana: rows of panels, each with a few queries.

Source: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from frameworkrelease.monitoring.alerts import WAITS

UID: Final = "frameworkcontroller"
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WINDOW: Final = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        title: Above it.
        queries: In PromQL, by their legends.
        unit: As Grafana names it: `s`, `short`, `reqps`, `percentunit`, `bytes`.
        kind: `timeseries` or `stat`.
        stacked: Whether the series are added up.
    """

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False


def _quantiles(metric: str, by: str = "", window: str = _WINDOW) -> dict[str, str]:
    labels, legend = (f"le, {by}", f"{{{{{by}}}}} ") if by else ("le", "")
    return {
        f"{legend}p{percent}": f"histogram_quantile(0.{percent}, sum by ({labels}) (rate({metric}_bucket[{window}])))"
        for percent in ("50", "99")
    }


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[{_WINDOW}]))"


ROWS: Final = {
    "Gangs": (
        Panel("Gangs by phase", {"{{phase}}": "sum by (phase) (frameworkcontroller_gangs)"}, stacked=True),
        Panel("Longest wait of a gang", {"wait": WAITS}, "s"),
        Panel(
            "Tasks that gangs wait for",
            {"{{reason}}": "sum by (reason) (frameworkcontroller_gang_missing_tasks)"},
            stacked=True,
        ),
        Panel("Start of a gang, by phase", _quantiles("frameworkcontroller_gang_start_seconds", "phase"), "s"),
        Panel("Release of a gang", _quantiles("frameworkcontroller_gang_release_seconds"), "s"),
        Panel("Tasks of roles that wait for others", {"Tasks": "sum(frameworkcontroller_waiting_tasks)"}),
    ),
    "Frameworks": (
        Panel("Frameworks by state", {"{{state}}": "sum by (state) (frameworkcontroller_frameworks)"}, stacked=True),
        Panel("Tasks by state", {"{{state}}": "sum by (state) (frameworkcontroller_tasks)"}, stacked=True),
        Panel("Attempts that start", {"{{kind}}": _rate("frameworkcontroller_attempts_total", "kind")}, "ops"),
        Panel(
            "Attempts that end",
            {"{{kind}} {{phrase}}": _rate("frameworkcontroller_attempt_completions_total", "kind, phrase")},
            "ops",
        ),
    ),
    "Controller": (
        Panel("Leader", {"{{pod}}": "max by (pod) (leader_election_master_status)"}, kind="stat"),
        Panel("In quarantine", {"Frameworks": "max(frameworkcontroller_quarantined_frameworks)"}, kind="stat"),
        Panel(
            "Unreadable",
            {"{{resource}}": "max by (resource) (frameworkcontroller_undecodable_objects)"},
            kind="stat",
        ),
        Panel("Dropped Events", {"Events": "sum(frameworkcontroller_events_dropped)"}, kind="stat"),
        Panel("Queue: Frameworks that wait", {"depth": "sum(workqueue_depth)"}),
        Panel("Queue: time to a decision", _quantiles("workqueue_queue_duration_seconds"), "s"),
        Panel("Time of a decision", _quantiles("controller_runtime_reconcile_time_seconds"), "s"),
        Panel("Decisions", {"{{result}}": _rate("controller_runtime_reconcile_total", "result")}, "ops"),
        Panel(
            "Statuses that were not written",
            {"{{outcome}} {{code}}": _rate("frameworkcontroller_status_write_failures_total", "outcome, code")},
            "ops",
        ),
        Panel(
            "Requests to the API server",
            {"{{method}} {{code}}": _rate("rest_client_requests_total", "method, code")},
            "reqps",
        ),
        Panel("Latency of the API server", _quantiles("rest_client_request_duration_seconds", "verb"), "s"),
        Panel("Memory", {"{{pod}}": "max by (pod) (process_resident_memory_bytes)"}, "bytes"),
    ),
    "Injector": (
        Panel("Reviews", {"{{outcome}}": _rate("frameworkinjector_requests_total", "outcome")}, "reqps"),
        Panel(
            "Refused and rejected",
            {"{{reason}}": _rate('frameworkinjector_requests_total{outcome=~"refused|rejected"}', "reason")},
            "reqps",
        ),
        Panel("Time of a review", _quantiles("frameworkinjector_request_duration_seconds"), "s"),
        Panel(
            "Connections",
            {
                "open": "sum(frameworkinjector_connections)",
                "closed {{reason}}": _rate("frameworkinjector_connections_closed_total", "reason"),
            },
        ),
        Panel(
            "Certificate expires in",
            {"{{pod}}": "min by (pod) (frameworkinjector_certificate_expiry_timestamp_seconds) - time()"},
            "s",
            kind="stat",
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Return the JSON model."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            _placed({"type": "row", "title": title, "collapsed": False, "panels": []}, len(panels), 0, top, 1)
        )
        top += 1
        for place, panel in enumerate(row):
            left = place % 3 * (_COLUMNS // 3)
            panels.append(_placed(_panel(panel), len(panels), left, top + place // 3 * _HEIGHT, _HEIGHT))
        top += -(-len(row) // 3) * _HEIGHT
    return {
        "uid": UID,
        "title": "FrameworkController",
        "tags": ["frameworkcontroller", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }


def _placed(content: dict[str, Any], before: int, left: int, top: int, height: int) -> dict[str, Any]:
    width = _COLUMNS if content["type"] == "row" else _COLUMNS // 3
    return {"id": before + 1, "gridPos": {"x": left, "y": top, "w": width, "h": height}, **content}


def _panel(panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"fillOpacity": 10}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        defaults["custom"] = custom
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }
