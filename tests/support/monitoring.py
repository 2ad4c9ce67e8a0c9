"""The alerts and the dashboard, as the chart has them."""

import json
from typing import Any, Final

import yaml

from frameworkrelease.chart import CHART

RULES: Final = CHART / "files" / "rules.yaml"
DASHBOARD: Final = CHART / "files" / "dashboard.json"
GROUPS: Final[list[dict[str, Any]]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: Final[dict[str, dict[str, Any]]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
MODEL: Final[dict[str, Any]] = json.loads(DASHBOARD.read_text())


def panels() -> dict[str, str]:
    """Return the queries of the dashboard, by the titles of their panels and their legends."""
    return {
        f"{panel['title']}: {target['legendFormat']}": target["expr"]
        for panel in MODEL["panels"]
        for target in panel.get("targets", ())
    }
