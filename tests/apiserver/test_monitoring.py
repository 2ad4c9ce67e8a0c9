"""Each metric that an alert, the dashboard or a document names is one that the programs serve."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from frameworkdemo.manifests import REPOSITORY
from localcluster.ports import free_port
from testkit.frameworks import ControllerProcess, role
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually
from tests.injector.replica_processes import called
from tests.support.http import fetch
from tests.support.monitoring import ALERTS, DASHBOARD, MODEL, RULES, panels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from testkit.frameworks import Frameworks
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

PREFIXES = (
    "frameworkcontroller|frameworkinjector|workqueue|controller_runtime|rest_client|leader_election|process_resident"
)
NAME = re.compile(rf"(?<![A-Za-z0-9_/.-])(?:{PREFIXES})_[a-z0-9_]+(?:\*|(?![A-Za-z0-9_-]))")
SELECTOR = re.compile(r"([a-z_]+)\{([^{}]*)\}")
LABEL = re.compile(r'([a-z]+)(=~|!~|!=|=)"')
GROUPING = re.compile(r"by \(([a-z, ]+)\)")


@pytest.fixture
def scraped(
    cluster: Cluster,
    raw: RawClient,
    identity: Path,
    namespace: str,
    frameworks: Frameworks,
    player: Player,
    tmp_path: Path,
) -> Iterator[str]:
    """What both programs serve after some work: a Framework that fails once, a gang that restarts, an injected Pod."""
    port = free_port()
    settings = {
        "namespaces": [namespace],
        "leaderElection": {"enabled": True, "namespace": "frameworkcontroller-system"},
    }
    controller = ControllerProcess(cluster, tmp_path, settings, health_port=port)
    controller.start()
    try:
        with called(raw, identity, tmp_path) as replica:
            player.plan = {"worker-0": [3, 0]}
            frameworks.create("fw", role("worker", 2, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
            with player.playing():
                frameworks.wait("fw", "Completed")
            restart(RestartingGang(frameworks, "gang", 2))

            def counted() -> str:
                text = fetch(port, "/metrics")[1]
                assert 'gang_start_seconds_count{phase="open"} 2.0' in text
                assert "frameworkcontroller_gang_release_seconds_count 2.0" in text
                assert 'gang_restart_seconds_count{phase="open"} 1.0' in text
                return text

            yield eventually(counted) + replica.health("/metrics")[1]
    finally:
        controller.stop()


def restart(gang: RestartingGang) -> None:
    """Start a gang, and start it again after the end of an instance."""
    gang.create()
    eventually(gang.has_pods)
    gang.report_all(0)
    eventually(lambda: gang.is_open(0))
    gang.report(0, 0, restarting=True)
    eventually(lambda: gang.is_closed(1))
    gang.report_all(1)
    eventually(lambda: gang.is_open(1))


def families(text: str) -> set[str]:
    """Return the names that a query may use: those of the samples, also where there is none yet."""
    found = set(re.findall(r"^([a-z_]+)(?:\{.*\})? \S+$", text, re.MULTILINE))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found |= {name + suffix for suffix in suffixes}
    return found


def labels(text: str, name: str) -> set[str]:
    """Return the labels of the samples of a metric, and those that Prometheus adds."""
    samples = re.findall(rf"^{name}\{{(.*)\}} \S+$", text, re.MULTILINE)
    return {label for sample in samples for label in re.findall(r'([a-z_]+)="', sample)} | {"pod"}


def queries() -> dict[str, str]:
    """Return the expressions of all alerts and panels, by the names of these."""
    return {name: alert["expr"] for name, alert in ALERTS.items()} | panels()


def documents() -> dict[str, str]:
    files = [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "README.md", RULES, DASHBOARD]
    return {str(file.relative_to(REPOSITORY)): file.read_text() for file in files}


def test_each_metric_that_is_named_exists_with_its_labels(scraped: str) -> None:
    served = families(scraped)
    without_samples = {name for name in served if not re.search(rf"^{name}[ {{]", scraped, re.MULTILINE)}
    assert {name for name in without_samples if not name.endswith("_created")} == {
        "frameworkcontroller_status_write_failures_total"
    }
    used = set()
    for where, text in {**queries(), **documents()}.items():
        for name in NAME.findall(text):
            if name.endswith("*"):
                assert any(one.startswith(name[:-1]) for one in served), f"{where}: {name}"
            else:
                # A document may name a histogram without the suffix of a series.
                assert {name, f"{name}_count"} & served, f"{where}: {name}"
                used.add(name)
    for where, query in queries().items():
        names = NAME.findall(query)
        assert names, where
        known = {label for name in names for label in labels(scraped, name)}
        asked = {label for _, inside in SELECTOR.findall(query) for label, _ in LABEL.findall(inside)}
        asked |= {label.strip() for group in GROUPING.findall(query) for label in group.split(",")}
        if not {*names} & without_samples:
            assert asked <= known, where
    ours = {name for name in served if name.startswith("framework") and not name.endswith(("_sum", "_created"))}
    documented = {name for name in ours if name.removesuffix("_bucket").removesuffix("_count") in used or name in used}
    assert ours == documented, "each metric of ours is explained in a document"


def test_the_dashboard_is_a_model_that_grafana_can_import() -> None:
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= {*MODEL}
    ids = [panel["id"] for panel in MODEL["panels"]]
    assert len(ids) == len({*ids})
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in MODEL["panels"]}
    assert len(places) == len(ids)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in MODEL["panels"])
