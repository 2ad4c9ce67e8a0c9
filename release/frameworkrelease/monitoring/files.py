"""The files of alerts and dashboard: `deploy/monitoring`, those of the chart, and the table of the manual."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from frameworkrelease import yamltext
from frameworkrelease.chart import CHART, REPOSITORY
from frameworkrelease.monitoring import alerts
from frameworkrelease.monitoring.dashboard import dashboard

if TYPE_CHECKING:
    from pathlib import Path

MANUAL: Final = REPOSITORY / alerts.RUNBOOK
_FOLDER: Final = REPOSITORY / "deploy" / "monitoring"
_SOURCE: Final = "release/frameworkrelease/monitoring"
_BEGIN: Final = "<!-- written by `make manifests` -->\n"
_END: Final = "\n<!-- end -->"


def files() -> dict[Path, str]:
    """Return each file with its text, the manual with a new table."""
    head, _, rest = MANUAL.read_text().partition(_BEGIN)
    rules, board = yamltext.dump(alerts.rules(), _SOURCE), json.dumps(dashboard(), indent=2) + "\n"
    return {
        _FOLDER / "rules.yaml": rules,
        _FOLDER / "prometheusrule.yaml": yamltext.dump(alerts.prometheus_rule(), _SOURCE),
        _FOLDER / "dashboard.json": board,
        CHART / "files" / "rules.yaml": rules,
        CHART / "files" / "dashboard.json": board,
        MANUAL: f"{head}{_BEGIN}\n{alerts.table()}\n{_END}{rest.partition(_END)[2]}",
    }
