"""Pods of JobSets, LeaderWorkerSets and TrainJobs on a real node: their controllers, our chart, what the page has."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.errors import LocalClusterError
from localcluster.images import images
from testkit.waiting import eventually
from tests.e2e.onenamespace import chart_node, install_chart
from tests.support.beside.foreign_gangs import MANIFESTS, operated
from tests.support.waiting import becomes

pytestmark = [pytest.mark.node, pytest.mark.chart, pytest.mark.long]
STAYS = 'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"; exec sleep 600'


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node with the controllers of others, and then our programs by the chart."""
    with chart_node(pytestconfig, "others") as node, operated(node, tmp_path_factory):
        install_chart(node, "--set=foreignGangs.enabled=true")
        yield node


class Pods:
    """The Pods of a namespace, and what their applications say."""

    def __init__(self, cluster: Cluster, raw: RawClient, namespace: str) -> None:
        self._cluster, self._raw, self.namespace = cluster, raw, namespace

    def create(self, kind: str, command: str = "", **spec: object) -> str:
        """Create the object of the page with an image that is here, and return its path."""
        found = MANIFESTS[kind]
        path = f"/apis/{found['apiVersion']}/namespaces/{self.namespace}/{kind.lower()}s"
        self._raw.create(path, found | {"spec": _here(found["spec"] | spec, command)})
        return f"{path}/{found['metadata']['name']}"

    def suspend(self, path: str, *, suspend: bool) -> None:
        self._raw.merge(path, {"spec": {"suspend": suspend}})

    def delete(self, name: str) -> None:
        self._raw.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    def say(self, number: int, after: dict[str, str] | None = None) -> dict[str, str]:
        """Wait until so many Pods, none of those of before, have said their ranks; return their names by UID."""

        def said() -> dict[str, str]:
            listed = self._raw.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
            found = {one["metadata"]["uid"]: one["metadata"] for one in listed if one["status"]["phase"] != "Failed"}
            there = {uid: meta["name"] for uid, meta in found.items() if "deletionTimestamp" not in meta}
            assert len(there) == number
            assert not there.keys() & (after or {}).keys()
            ranks = sorted(found for name in there.values() for found in self._ranks(name))
            groups = number // int(ranks[0][1]) if ranks else 0
            assert len(ranks) == number, ranks
            assert ranks == sorted((str(rank), ranks[0][1]) for rank in range(int(ranks[0][1])) for _ in range(groups))
            return there

        return eventually(said, 180, 1)

    def _ranks(self, pod: str) -> list[tuple[str, str]]:
        """Return what a Pod has said of its rank; nothing while it starts."""
        with contextlib.suppress(LocalClusterError):
            return re.findall(r"^rank (\d+) of (\d+)", self._cluster.kubectl("logs", pod, f"-n={self.namespace}"))
        return []


def _here(spec: object, command: str) -> object:
    """Return a spec whose containers have the barrier's image, which is on the node, and this command."""
    if isinstance(spec, list):
        return [_here(one, command) for one in spec]
    if not isinstance(spec, dict):
        return spec
    found: Json = {key: _here(value, command) for key, value in spec.items()}
    if "image" in found:
        found |= {"image": images.reference("barrier"), "imagePullPolicy": "IfNotPresent"}
        found |= {"command": ["sh", "-c", command]} if command else {}
    return found


@pytest.fixture
def pods(cluster: Cluster, raw: RawClient, namespace: str) -> Pods:
    return Pods(cluster, raw, namespace)


def test_a_jobset_starts_as_a_gang_again_after_a_pod_is_gone_and_after_a_suspension(pods: Pods) -> None:
    path = pods.create("JobSet", STAYS)
    first = pods.say(4)
    pods.delete(min(first.values()))
    second = pods.say(4, after=first)
    pods.suspend(path, suspend=True)
    pods.suspend(path, suspend=False)
    pods.say(4, after=second)


def test_each_group_of_a_leader_worker_set_starts_as_a_gang_and_again_as_one(pods: Pods) -> None:
    pods.create("LeaderWorkerSet", STAYS)
    first = pods.say(6)
    pods.delete("serve-0-1")
    pods.say(6, after={uid: name for uid, name in first.items() if name.startswith("serve-0")})


def test_a_train_job_runs_to_its_end_as_a_gang(pods: Pods, raw: RawClient) -> None:
    pods.create("TrainingRuntime")
    path = pods.create("TrainJob")
    pods.say(4)
    becomes(
        lambda: [one["type"] for one in raw.get(path)["status"]["conditions"] if one["status"] == "True"],
        ["Complete"],
        60,
    )
