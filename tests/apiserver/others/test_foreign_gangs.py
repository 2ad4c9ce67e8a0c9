"""Gangs of Jobs and StatefulSets: the real controllers of Kubernetes, real webhook, controller and barriers."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import ControllerProcess
from tests.apiserver.conftest import run
from tests.barrier.cluster import account, start
from tests.barrier.process import Barrier
from tests.injector.replica_processes import called
from tests.support.beside.foreign_gangs import Gangs, becomes, environment, grant, template
from tests.support.beside.kubelet import Kubelet
from tests.support.frameworkctl import Frameworkctl

__all__ = ["account", "start"]  # fixtures

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.chart,
    pytest.mark.turns("injector"),
    pytest.mark.usefixtures("webhook", "keeper"),
]


@pytest.fixture(scope="module")
def webhook(
    cluster: Cluster, raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """An injector that leaves it to the controller to find gangs, which may read their owners."""
    grant(cluster)
    with called(raw, identity, tmp_path_factory.mktemp("injector"), "--foreign-gangs"):
        yield


@pytest.fixture
def keeper(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that keeps the rosters of others' gangs in the test's namespace."""
    folder = tmp_path / "keeper"
    folder.mkdir()
    settings = {"namespaces": [namespace], "foreignGangs": {"enabled": True}}
    yield from run(ControllerProcess(cluster, folder, settings))


@pytest.fixture
def gangs(raw: RawClient, kubelet: Kubelet, namespace: str) -> Gangs:
    return Gangs(raw, kubelet, namespace)


def opened(start: Callable[..., Barrier], pods: list[Json], of: int = 0) -> list[Barrier]:
    """Let the barriers of the last Pods of a gang run to their end: the open gate, with the ranks of their Pods."""
    total = of or len(pods)
    barriers = [start(pod, **environment(pod)) for pod in pods]
    for rank, barrier in enumerate(barriers, total - len(pods)):
        code, last = barrier.ends(60)
        assert (code, f"{total}/{total} Tasks" in last) == (0, True), barrier.lines
        env = barrier.read("env")
        assert f"RANK='{rank}'" in env
        assert f"WORLD_SIZE='{total}'" in env
    return barriers


def test_a_job_is_a_gang_that_starts_when_all_is_there_and_again_after_whatever_befalls_it(
    gangs: Gangs, start: Callable[..., Barrier], ctl: Frameworkctl, cluster: Cluster, account: Path
) -> None:
    raw, path = gangs.raw, f"{gangs.jobs}/train"
    gangs.job("train", 2, suspend=True)
    raw.merge(path, {"spec": {"suspend": False}})
    first = gangs.pods(2)
    early = start(first[0], **environment(first[0]))
    gangs.kubelet.run(first[0])
    becomes(gangs.missing, ["worker-1: Pending: no IP yet"])
    the_command_line_says_whom_it_waits_for(ctl)
    roster = gangs.complete(first)
    assert (roster["generation"], roster["framework"]["name"]) == (1, "train")
    assert early.ends(10)[0] == 0, early.lines
    sees_all(opened(start, first)[0], gangs, first)
    may_read_this_roster_and_nothing_else(RawClient(cluster, (account / "token").read_text()), gangs)

    # One of its Pods is deleted and replaced.
    replaced = gangs.pods(2, after=first[1:])
    becomes(gangs.missing, ["worker-1: Pending: no IP yet"])
    assert gangs.complete(replaced)["generation"] == 2
    opened(start, replaced)

    # It is suspended and resumed: the gate opens for the Pods of the second time.
    raw.merge(path, {"spec": {"suspend": True}})
    gangs.pods(0)
    gangs.end(replaced)
    becomes(gangs.rosters, {})
    raw.merge(path, {"spec": {"suspend": False}})
    second = gangs.pods(2, after=replaced)
    early = start(second[0], **environment(second[0]))
    gangs.complete(second)
    assert early.ends(30)[0] == 0
    opened(start, second)

    # It is scaled.
    raw.merge(path, {"spec": {"completions": 3, "parallelism": 3}})
    three = gangs.pods(3)
    gangs.complete(three)
    opened(start, three[-1:], of=3)

    # It is made again, with a roster of its own, and the old one goes.
    (before,) = gangs.rosters()
    raw.delete(path, {"propagationPolicy": "Background"})
    gangs.end(three)
    becomes(lambda: raw.get(gangs.jobs)["items"], [])
    gangs.job("train", 2)
    again = gangs.pods(2, after=three)
    gangs.complete(again)
    opened(start, again)
    becomes(lambda: (len(gangs.rosters()), before in gangs.rosters()), (1, False))


def test_the_job_of_the_page_is_one_gang_whose_events_say_whom_it_waits_for_and_that_it_is_ready(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.create("Job")
    pods = gangs.pods(4)
    for pod in pods[:3]:
        gangs.kubelet.run(pod)
    becomes(lambda: gangs.is_told("Job", ", not worker-3: Pending: no IP yet", "GangWaiting"), wanted=True)
    gangs.complete(pods)
    opened(start, pods)
    becomes(lambda: gangs.is_told("Job", "All 4 Tasks are ready", "GangReady"), wanted=True)


def the_command_line_says_whom_it_waits_for(ctl: Frameworkctl) -> None:
    ((name, state, ready, *_, waits),) = ctl.ok("gangs").table
    assert (name, state, ready, waits) == ("job/train", "Waiting", "1/2", "worker-1: Pending: no IP yet")
    page = ctl.ok("why job/train").output
    assert page == f"Job {ctl.namespace}/train is waiting, 1/2 ready\nworker-1: Pending: no IP yet\n"
    assert json.loads(ctl.ok("gangs -o json").output)[0]["waitingFor"][0]["task"] == "worker-1"
    absent = ctl("why jobset/train")
    assert absent.code == 1
    assert "there is no roster of jobset/train" in absent.errors


def sees_all(barrier: Barrier, gangs: Gangs, pods: list[Json]) -> None:
    hosts = barrier.read("hosts")
    assert f"{gangs.kubelet.get(pods[0])['status']['podIP']}\t" in hosts
    assert pods[-1]["metadata"]["name"] in hosts


def may_read_this_roster_and_nothing_else(pod_side: RawClient, gangs: Gangs) -> None:
    with contextlib.closing(pod_side):
        (name,) = gangs.rosters()
        assert pod_side.get(f"{gangs.core}/configmaps/{name}")["metadata"]["name"] == name
        for path in (f"{gangs.core}/configmaps", f"{gangs.core}/pods", f"{gangs.jobs}/train"):
            with pytest.raises(ApiStatusError, match="HTTP 403"):
                pod_side.get(path)


def test_a_stateful_set_is_a_gang_that_starts_when_all_is_there_and_again_with_other_pods(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.stateful_set("train", 3)
    pods = gangs.pods(3)
    early = start(pods[0], **environment(pods[0]))
    for pod in pods[:2]:
        gangs.kubelet.run(pod)
    becomes(gangs.missing, ["worker-2: Pending: no IP yet"])
    roster = gangs.complete(pods)
    assert (roster["generation"], roster["framework"]["name"]) == (1, "train")
    assert early.ends(10)[0] == 0, early.lines
    sees_all(opened(start, pods)[0], gangs, pods)
    after = gangs.pods(3, after=pods[1:2])
    assert gangs.complete(after)["generation"] == 2
    opened(start, after)
    gangs.raw.merge(f"{gangs.sets}/train", {"spec": {"replicas": 1}})
    one = gangs.pods(1)
    gangs.complete(one)
    opened(start, one)

    # It is deleted, and another one of its name made at once.
    gangs.raw.delete(f"{gangs.sets}/train", {"propagationPolicy": "Background"})
    gangs.stateful_set("train", 2)
    again = gangs.pods(2, after=one)
    gangs.complete(again)
    becomes(gangs.owners, [gangs.raw.get(f"{gangs.sets}/train")["metadata"]["uid"]])
    opened(start, again)


def test_gangs_of_one_namespace_do_not_meet_and_annotations_name_the_role_or_say_all(
    gangs: Gangs, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    gangs.job("one", 2, annotations={"roles": "trainer=2"})
    gangs.job("two", 2)
    gangs.stateful_set("one", 2)
    gangs.stateful_set("two", 2)
    for key, name, role in (
        *(("batch.kubernetes.io/job-name", "one", "trainer"), ("batch.kubernetes.io/job-name", "two", "worker")),
        *(("app", "one", "worker"), ("app", "two", "worker")),
    ):
        pods = gangs.pods(2, **{key: name})
        assert gangs.complete(pods)["taskRoles"][0]["name"] == role
        opened(start, pods)
    for index in range(2):
        said = {"gang": "run-7", "gang-role": "trainer", "gang-index": str(index), "gang-size": "trainer=2"}
        body = {"apiVersion": "v1", "kind": "Pod", **template("Never", **said)}
        body["metadata"]["name"] = f"mine-{index}"
        raw.create(f"{gangs.core}/pods", body)
    bare = [raw.get(f"{gangs.core}/pods/mine-{index}") for index in range(2)]
    assert gangs.complete(bare)["taskRoles"][0]["name"] == "trainer"
    barrier = start(bare[1], **environment(bare[1]))
    assert barrier.ends(30)[0] == 0, barrier.lines
    # All of them own the roster.
    name = "gang-pod.run-7-attempt"
    owners = raw.get(f"{gangs.core}/configmaps/{name}")["metadata"]["ownerReferences"]
    expected = {("Pod", "mine-0", False), ("Pod", "mine-1", False)}
    assert {(one["kind"], one["name"], one["controller"]) for one in owners} == expected
    gangs.end(bare)
    becomes(lambda: name in gangs.rosters(), wanted=False)


@pytest.mark.parametrize(("kind", "field"), [("Job", "spec.parallelism is 1"), ("StatefulSet", "set Parallel")])
def test_what_can_never_be_complete_is_said_at_once_and_the_barrier_ends_with_210(
    kind: str, field: str, gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    if kind == "Job":
        gangs.job("train", 2, parallelism=1)
    else:
        gangs.stateful_set("train", 2, "OrderedReady")
    (pod,) = gangs.pods(1)
    code, last = start(pod, **environment(pod)).ends(30)
    assert code == 210
    assert field in last
    becomes(lambda: gangs.is_told(kind, field), wanted=True)


@pytest.mark.parametrize("make", [Gangs.job, Gangs.stateful_set], ids=["Job", "StatefulSet"])
def test_the_controller_may_be_away_or_die_at_any_time(
    make: Callable[..., None], gangs: Gangs, keeper: ControllerProcess, start: Callable[..., Barrier]
) -> None:
    keeper.kill()
    make(gangs, "train", 3)
    # While Pods are created.
    keeper.start()
    keeper.kill()
    pods = gangs.pods(3)
    early = start(pods[0], **environment(pods[0]))
    early.reports("waiting")
    keeper.start()
    becomes(lambda: len(gangs.rosters()), 1)
    for pod in pods:
        keeper.kill()
        gangs.kubelet.run(pod)
        keeper.start()
    gangs.complete(pods)
    assert early.ends(30)[0] == 0, early.lines
    keeper.kill()
    for pod in pods:
        gangs.kubelet.run(pod)
    keeper.start()
    opened(start, pods)
