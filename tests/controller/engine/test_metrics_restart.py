"""The metrics of gangs that restart in place."""

from __future__ import annotations

from frameworkcontroller.core.context import Milestone
from frameworkcontroller.engine.metrics import Metrics


def test_restarts_are_counted_by_reason_and_timed_by_phase() -> None:
    metrics = Metrics()
    metrics.gang_restarted("Exited")
    for phase, seconds in (("restart-open", 1.5), ("restart-running", 3.0), ("open", 7.0), ("released", 0.2)):
        metrics.milestone_reached(Milestone(phase, seconds))
    text = metrics.text().decode()
    for line in (
        'frameworkcontroller_gang_restarts_total{reason="Exited"} 1.0',
        'frameworkcontroller_gang_restart_seconds_sum{phase="open"} 1.5',
        'frameworkcontroller_gang_restart_seconds_sum{phase="running"} 3.0',
        'frameworkcontroller_gang_start_seconds_sum{phase="open"} 7.0',
        "frameworkcontroller_gang_release_seconds_sum 0.2",
    ):
        assert line in text
