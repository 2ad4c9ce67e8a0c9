"""Each metric that an alert, the dashboard or a document names is one that the programs serve."""

import re
from pathlib import Path

import pytest

from frameworkdemo.manifests import REPOSITORY
from localcluster import Cluster
from localcluster.client import RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.restarting_gang import RestartingGang
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.injector.replica_processes import called
from tests.support.beside.player import Player
from tests.support.history import HistoryProcess
from tests.support.http import fetch
from tests.support.monitoring import ALERTS, DASHBOARD, MODEL, RULES, panels

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

PREFIXES = "|".join(
    (
        *("frameworkcontroller", "frameworkinjector", "frameworkhistory"),
        *("workqueue", "controller_runtime", "rest_client", "leader_election", "process_resident"),
    )
)
NAME = re.compile(rf"(?<![A-Za-z0-9_/.-])(?:{PREFIXES})_[a-z0-9_]+(?:\*|(?![A-Za-z0-9_-]))")
SELECTOR = re.compile(r"([a-z_]+)\{([^{}]*)\}")
LABEL = re.compile(r'([a-z]+)(=~|!~|!=|=)"')
GROUPING = re.compile(r"by \(([a-z, ]+)\)")


COUNTED = (
    'frameworkcontroller_frameworks{state="Completed"} 1.0',
    'frameworkcontroller_tasks{state="Completed"} 0.0',  # it is at rest
    "frameworkcontroller_waiting_tasks 0.0",
    'frameworkcontroller_attempts_total{kind="framework"} 1.0',
    'frameworkcontroller_attempts_total{kind="task"} 3.0',
    'attempt_completions_total{code="other",kind="task",phrase="ContainerUnrecognizedFailed"} 1.0',
    'frameworkcontroller_attempt_completions_total{code="0",kind="framework",phrase="Succeeded"} 1.0',
    'frameworkcontroller_gang_start_seconds_count{phase="created"} 1.0',
    'frameworkcontroller_gang_start_seconds_count{phase="addressed"} 1.0',
    'workqueue_depth{controller="framework",name="framework"} 0.0',
    'controller_runtime_reconcile_total{controller="framework",result="error"} 0.0',
    'rest_client_requests_total{code="201"',
)
"""After a Framework of two Tasks one of which fails once."""
RESTARTED = (
    'gang_start_seconds_count{phase="open"} 2.0',
    "frameworkcontroller_gang_release_seconds_count 2.0",
    'gang_restart_seconds_count{phase="open"} 1.0',
)
"""After a gang that restarts beside it."""


def scraped(port: int, lines: tuple[str, ...]) -> str:
    """Wait until the controller serves these lines, and return all that it serves."""

    def check() -> str:
        text = fetch(port, "/metrics")[1]
        for line in lines:
            assert line in text, line
        return text

    return eventually(check)


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


def test_metrics_count_what_has_happened_and_each_that_is_named_exists_with_its_labels(
    cluster: Cluster, raw: RawClient, identity: Path, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    election = {"enabled": True, "namespace": "frameworkcontroller-system"}
    settings = {"namespaces": [frameworks.namespace], "leaderElection": election}
    controller = ControllerProcess(cluster, tmp_path, settings, health_port=free_port())
    history = HistoryProcess(cluster, tmp_path, (frameworks.namespace,))
    with ends_cleanly(controller), history.running(), called(raw, identity, tmp_path) as injector:
        controller.start()
        player.plan = {"worker-0": [3, 0]}
        frameworks.create("fw", role("worker", 2, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))
        with player.playing():
            frameworks.wait("fw", "Completed")
        scraped(controller.health_port, COUNTED)
        gang = RestartingGang(frameworks, "gang", 2)
        gang.create()
        eventually(gang.has_pods)
        gang.report_all(0)
        eventually(lambda: gang.is_open(0))
        gang.report(0, 0, restarting=True)
        eventually(lambda: gang.is_closed(1))
        gang.report_all(1)
        eventually(lambda: gang.is_open(1))
        text = scraped(controller.health_port, RESTARTED) + injector.health("/metrics")[1]
        text += fetch(history.internal_port, "/metrics")[1]
    served = families(text)
    without_samples = {name for name in served if not re.search(rf"^{name}[ {{]", text, re.MULTILINE)}
    assert {name for name in without_samples if not name.endswith("_created")} == {
        "frameworkcontroller_status_write_failures_total"
    }
    queries = {name: alert["expr"] for name, alert in ALERTS.items()} | panels()
    files = [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "README.md", RULES, DASHBOARD]
    used = set()
    for where, said in [*queries.items(), *((str(file), file.read_text()) for file in files)]:
        for name in NAME.findall(said):
            if name.endswith("*"):
                assert any(one.startswith(name[:-1]) for one in served), f"{where}: {name}"
            else:
                # A document may name a histogram without the suffix of a series.
                assert {name, f"{name}_count"} & served, f"{where}: {name}"
                used.add(name)
    for where, query in queries.items():
        names = NAME.findall(query)
        assert names, where
        known = {label for name in names for label in labels(text, name)}
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
