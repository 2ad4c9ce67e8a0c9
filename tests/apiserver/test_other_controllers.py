"""What the real controllers of JobSets and LeaderWorkerSets write on Pods; `-s` shows all of it."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from testkit.operators import JobSet, LeaderWorkerSet
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from localcluster.client import Json, RawClient

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.long,
    pytest.mark.turns("controllers"),
    pytest.mark.usefixtures("operators"),
]
INDEX = "batch.kubernetes.io/job-completion-index"
POD = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


@pytest.fixture(scope="module")
def operators(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both run at once."""
    with contextlib.ExitStack() as stack:
        for kind in (JobSet, LeaderWorkerSet):
            made = kind(cluster, tmp_path_factory.mktemp(kind.name))
            made.install()
            stack.callback(made.stop)
            made.start()
        yield


def pods_of(raw: RawClient, namespace: str, number: int) -> list[Json]:
    """Wait for so many Pods, print what is on them, and return their metadata."""

    def found() -> list[Json]:
        items: list[Json] = raw.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert len(items) == number, [one["metadata"]["name"] for one in items]
        return [one["metadata"] for one in items]

    pods = eventually(found, 60)
    for pod in pods:
        shown = {key: pod.get(key) for key in ("name", "uid", "labels", "annotations", "ownerReferences")}
        print(json.dumps(shown, indent=1))
    return pods


def test_pods_of_a_job_set_say_which_they_are(raw: RawClient, namespace: str) -> None:
    jobs = [
        {"name": name, "replicas": replicas, "template": {"spec": {"completions": 1, "template": POD}}}
        for name, replicas in (("ps", 1), ("worker", 2))
    ]
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "training"},
        "spec": {"replicatedJobs": jobs, "coordinator": {"replicatedJob": "ps"}},
    }
    uid = raw.create(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", body)["metadata"]["uid"]
    pods = pods_of(raw, namespace, 3)
    keys = ("jobset-name", "jobset-uid", "replicatedjob-name", "job-index", "restart-attempt", "coordinator")
    expected = [
        ["training", uid, *row, "0", "training-ps-0-0.training", "0"]
        for row in (("ps", "0"), ("worker", "0"), ("worker", "1"))
    ]
    for kind in ("labels", "annotations"):
        rows = [[*(pod[kind][f"jobset.sigs.k8s.io/{key}"] for key in keys), pod[kind][INDEX]] for pod in pods]
        assert sorted(rows) == expected


def test_pods_of_a_leader_worker_set_say_which_they_are(raw: RawClient, namespace: str) -> None:
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serving"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": POD}},
    }
    raw.create(f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets", body)
    pods = pods_of(raw, namespace, 6)
    prefix = "leaderworkerset.sigs.k8s.io/"
    places = {
        pod["name"]: [pod["labels"][prefix + key] for key in ("name", "group-index", "worker-index")] for pod in pods
    }
    leaders = {f"serving-{group}": ["serving", group, "0"] for group in "01"}
    workers = {f"serving-{group}-{worker}": ["serving", group, worker] for group in "01" for worker in "12"}
    assert places == leaders | workers
    assert {pod["annotations"][f"{prefix}size"] for pod in pods} == {"3"}
    assert len({pod["labels"][f"{prefix}template-revision-hash"] for pod in pods}) == 1
    groups = {(pod["labels"][f"{prefix}group-index"], pod["labels"][f"{prefix}group-key"]) for pod in pods}
    assert len(groups) == len(dict(groups)) == 2
