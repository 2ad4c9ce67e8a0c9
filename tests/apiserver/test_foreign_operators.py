"""Gangs of the real controllers of JobSets and LeaderWorkerSets, as the page says, with real barriers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from testkit.operators import rendered
from testkit.waiting import eventually
from tests.apiserver.test_foreign_gangs import gangs, keeper, opened, webhook
from tests.apiserver.test_other_controllers import operators
from tests.barrier.cluster import account, start
from tests.support.foreign_gangs import RULES, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster import Cluster
    from localcluster.client import Json, RawClient
    from tests.barrier.process import Barrier
    from tests.support.foreign_gangs import Gangs

__all__ = ["account", "gangs", "keeper", "operators", "start", "webhook"]  # fixtures

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.long,
    pytest.mark.turns("injector"),
    pytest.mark.usefixtures("operators", "webhook", "keeper"),
]
PAGE = (Path(__file__).parents[2] / "docs" / "others.md").read_text()
MANIFESTS = {
    found["kind"]: found
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    if "kind" in (found := yaml.safe_load(text))
}
PATHS = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets",
}
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
RANK = {
    "JobSet": "batch.kubernetes.io/job-completion-index",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/worker-index",
}


class Others:
    """The Pods of one such object."""

    def __init__(self, raw: RawClient, gangs: Gangs, namespace: str) -> None:
        self._raw, self.gangs, self._namespace = raw, gangs, namespace

    def create(self, kind: str, **spec: object) -> None:
        """Create the object of the page, with these fields of its spec instead."""
        document = MANIFESTS[kind] | {"spec": MANIFESTS[kind]["spec"] | spec}
        self._raw.create(PATHS[kind].format(self._namespace), document)

    def merge(self, kind: str, name: str, change: Json) -> None:
        """Change the object."""
        self._raw.merge(f"{PATHS[kind].format(self._namespace)}/{name}", change)

    def pods(self, kind: str, number: int, **labels: str) -> list[Json]:
        """Wait until there are so many Pods with these labels that stay, and return them by role, Job and rank."""
        return eventually(lambda: self._pods(kind, number, labels), 90)

    def again(self, kind: str, before: list[Json], **labels: str) -> list[Json]:
        """Let Pods be gone, and wait until there are as many others."""
        known = {pod["metadata"]["uid"] for pod in before}

        def are_there() -> list[Json]:
            for pod in before:
                self.gangs.end(pod)
            found = self._pods(kind, len(before), labels)
            assert known.isdisjoint(pod["metadata"]["uid"] for pod in found)
            return found

        return eventually(are_there, 90)

    def _pods(self, kind: str, number: int, labels: dict[str, str]) -> list[Json]:
        found = [
            one
            for one in self._raw.get(f"{self.gangs.core}/pods")["items"]
            if "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] != "Failed"
            if labels.items() <= one["metadata"]["labels"].items() and RANK[kind] in one["metadata"]["labels"]
        ]
        assert len(found) == number
        return sorted(found, key=lambda pod: (_role(pod), int(pod["metadata"]["labels"][RANK[kind]])))


def _role(pod: Json) -> tuple[str, int, str]:
    labels = pod["metadata"]["labels"]
    prefix = "jobset.sigs.k8s.io/"
    group = labels.get("leaderworkerset.sigs.k8s.io/group-index", "")
    return labels.get(f"{prefix}replicatedjob-name", ""), int(labels.get(f"{prefix}job-index", "0")), group


@pytest.fixture
def others(raw: RawClient, gangs: Gangs, namespace: str) -> Others:
    """What the controllers of others make in the test's namespace."""
    return Others(raw, gangs, namespace)


def replicated(name: str, replicas: int, pods: int, **more: object) -> Json:
    """A replicated job like that of the page."""
    job = MANIFESTS["JobSet"]["spec"]["replicatedJobs"][0]
    spec = job["template"]["spec"] | {"parallelism": pods, "completions": pods}
    return job | {"name": name, "replicas": replicas, "template": {"spec": spec}} | more


def test_a_jobset_of_the_page_starts_as_one_gang(others: Others, start: Callable[..., Barrier]) -> None:
    others.create("JobSet")
    pods = others.pods("JobSet", 4)
    early = start(pods[3], **environment(pods[3]))
    others.gangs.run(pods)
    roster = others.gangs.complete(pods)
    assert (roster["framework"]["name"], roster["framework"]["attemptID"]) == ("train", 0)
    assert early.ends(30)[0] == 0
    opened(start, pods)


def test_two_jobs_of_a_role_are_numbered_through_and_the_coordinator_is_first(
    others: Others, start: Callable[..., Barrier]
) -> None:
    head = {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 0}
    others.create("JobSet", replicatedJobs=[replicated("driver", 1, 1), replicated("worker", 2, 2)], coordinator=head)
    pods = others.pods("JobSet", 5)
    others.gangs.run(pods)
    roster = others.gangs.complete(pods[1:] + pods[:1])
    assert [(role["name"], len(role["tasks"])) for role in roster["taskRoles"]] == [("worker", 4), ("driver", 1)]
    barrier = start(pods[3], **environment(pods[3]))
    assert barrier.ends(30)[0] == 0, barrier.lines
    assert "RANK='0'" in barrier.read("env")


def test_a_jobset_that_restarts_opens_for_the_pods_of_its_next_attempt_alone(
    others: Others, start: Callable[..., Barrier]
) -> None:
    others.create("JobSet", replicatedJobs=[replicated("worker", 1, 3)])
    first = others.pods("JobSet", 3, **{ATTEMPT: "0"})
    others.gangs.run(first)
    others.gangs.complete(first)
    others.gangs.kubelet.fail(first[1])
    others.pods("JobSet", 0, **{ATTEMPT: "0"})
    for pod in first:
        others.gangs.end(pod)
    second = others.pods("JobSet", 3, **{ATTEMPT: "1"})
    early = start(second[0], **environment(second[0]))
    others.gangs.run(second)
    roster = others.gangs.complete(second)
    assert roster["framework"]["attemptID"] == 1
    assert early.ends(30)[0] == 0
    opened(start, second)

    def is_alone() -> None:
        assert [one["framework"]["attemptID"] for one in others.gangs.rosters().values()] == [1]

    eventually(is_alone, 60)


def test_a_jobset_that_is_suspended_and_resumed_opens_again(others: Others, start: Callable[..., Barrier]) -> None:
    others.create("JobSet", suspend=True)
    others.merge("JobSet", "train", {"spec": {"suspend": False}})
    first = others.pods("JobSet", 4)
    others.gangs.run(first)
    others.gangs.complete(first)
    others.merge("JobSet", "train", {"spec": {"suspend": True}})
    others.pods("JobSet", 0)
    for pod in first:
        others.gangs.end(pod)
    others.merge("JobSet", "train", {"spec": {"suspend": False}})
    second = others.pods("JobSet", 4)
    others.gangs.run(second)
    others.gangs.complete(second)
    opened(start, second)


def test_each_group_of_a_leader_worker_set_is_a_gang_and_starts_again_as_one(
    others: Others, start: Callable[..., Barrier]
) -> None:
    others.create("LeaderWorkerSet")
    key = "leaderworkerset.sigs.k8s.io/group-index"
    groups = [others.pods("LeaderWorkerSet", 3, **{key: str(group)}) for group in (0, 1)]
    for pods in groups:
        others.gangs.run(pods)
        others.gangs.complete(pods)
        opened(start, pods)
    again = others.again("LeaderWorkerSet", groups[0], **{key: "0"})
    others.gangs.run(again)
    others.gangs.complete(again)
    opened(start, again)


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (
            "JobSet",
            {
                "replicatedJobs": [replicated("driver", 1, 1), replicated("worker", 1, 2)],
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
            },
            "spec.startupPolicy.startupPolicyOrder is InOrder",
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    replicated("driver", 1, 1),
                    replicated("worker", 1, 2, dependsOn=[{"name": "driver", "status": "Ready"}]),
                ]
            },
            "spec.replicatedJobs[worker].dependsOn names driver",
        ),
        ("LeaderWorkerSet", {"startupPolicy": "LeaderReady"}, "spec.startupPolicy is LeaderReady"),
    ],
    ids=["InOrder", "dependsOn", "LeaderReady"],
)
def test_what_can_never_be_complete_is_said_at_once(
    kind: str, spec: Json, field: str, others: Others, start: Callable[..., Barrier]
) -> None:
    others.create(kind, **spec)
    pods = others.pods(kind, 1 if kind == "JobSet" else 2)
    code, last = start(pods[0], **environment(pods[0])).ends(60)
    assert code == 210
    assert field in last
    eventually(lambda: _told(others.gangs.events(), f"{kind} GangImpossible", field), 30)


def _told(events: list[str], subject: str, field: str) -> None:
    assert any(one.startswith(subject) and field in one for one in events), events


def test_the_chart_lets_the_controller_read_what_is_installed(cluster: Cluster) -> None:
    chart, installed = Path(__file__).parents[2] / "charts" / "frameworkcontroller", "jobset.x-k8s.io/v1alpha2"
    found = rendered(
        cluster, "fc", chart, "fc-system", "--set=foreignGangs.enabled=true", f"--api-versions={installed}"
    )
    rules = [rule for one in found if one["kind"] == "ClusterRole" for rule in one["rules"]]
    assert [rule in rules for rule in RULES] == [True, True, True, False]
