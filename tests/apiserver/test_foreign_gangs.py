"""Gangs of Jobs and StatefulSets: the real controllers of Kubernetes, real webhook, controller and barriers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError, RawClient
from testkit.frameworks import ControllerProcess
from testkit.waiting import eventually
from tests.apiserver.conftest import stop_cleanly
from tests.barrier.cluster import account, start
from tests.injector.replica_processes import called
from tests.support.foreign_gangs import Gangs, environment, grant, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import Json
    from tests.barrier.process import Barrier
    from tests.support.frameworkctl import Frameworkctl
    from tests.support.kubelet import Kubelet

__all__ = ["account", "start"]  # fixtures

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector"), pytest.mark.usefixtures("webhook", "keeper")]


@pytest.fixture(scope="module")
def webhook(raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An injector that leaves it to the controller to find gangs."""
    with called(raw, identity, tmp_path_factory.mktemp("injector"), "--foreign-gangs"):
        yield


@pytest.fixture
def keeper(cluster: Cluster, raw: RawClient, namespace: str, tmp_path: Path) -> Iterator[ControllerProcess]:
    """A controller that keeps the rosters of others' gangs in the test's namespace."""
    grant(raw)
    folder = tmp_path / "keeper"
    folder.mkdir()
    process = ControllerProcess(cluster, folder, {"namespaces": [namespace], "foreignGangs": {"enabled": True}})
    process.start()
    yield process
    stop_cleanly(process)


@pytest.fixture
def gangs(raw: RawClient, kubelet: Kubelet, namespace: str) -> Gangs:
    """The gangs of the test's namespace."""
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


@pytest.mark.parametrize("kind", ["job", "stateful_set"])
def test_one_label_and_a_preset_start_a_gang_whose_barriers_see_it_by_one_object(
    kind: str, gangs: Gangs, start: Callable[..., Barrier], namespace: str, cluster: Cluster, account: Path
) -> None:
    getattr(gangs, kind)("train", 3)
    pods = gangs.pods("train", 3)
    waiting = start(pods[0], **environment(pods[0]))
    gangs.run(pods[:2])
    eventually(lambda: _says(gangs.rosters(), "worker-2", "Pending: no IP yet"), 30)
    gangs.run(pods[2:])
    roster = gangs.complete(pods)
    assert (roster["generation"], roster["framework"]["name"]) == (1, "train")
    assert waiting.ends(10)[0] == 0, waiting.lines
    (barrier, *_) = opened(start, pods)
    assert f"{gangs.kubelet.get(pods[0])['status']['podIP']}\t" in barrier.read("hosts")
    assert pods[2]["metadata"]["name"] in barrier.read("hosts")


def test_a_pod_that_is_deleted_is_replaced_in_the_roster_and_its_barrier_opens_for_the_others(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.stateful_set("train", 3)
    pods = gangs.pods("train", 3)
    gangs.run(pods)
    gangs.complete(pods)
    gangs.end(pods[1])
    after = gangs.pods("train", 3)
    assert after[1]["metadata"]["uid"] != pods[1]["metadata"]["uid"]
    gangs.run(after[1:2])
    assert gangs.complete(after)["generation"] == 2
    opened(start, after)


def test_a_job_that_is_made_again_has_a_roster_of_its_own_and_the_old_one_goes(
    gangs: Gangs, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    gangs.job("train", 2)
    pods = gangs.pods("train", 2)
    gangs.run(pods)
    gangs.complete(pods)
    (before,) = gangs.rosters()
    raw.delete(f"{gangs.jobs}/train", {"propagationPolicy": "Background"})
    for pod in pods:
        gangs.end(pod)
    eventually(lambda: _refused(404, lambda: raw.get(f"{gangs.jobs}/train")), 30)
    gangs.job("train", 2)
    again = gangs.pods("train", 2, frozenset(pod["metadata"]["uid"] for pod in pods))
    gangs.run(again)
    gangs.complete(again)
    opened(start, again)

    def is_alone() -> None:
        assert len(gangs.rosters()) == 1
        assert before not in gangs.rosters()

    eventually(is_alone, 30)


def test_a_job_that_is_suspended_and_resumed_opens_for_the_pods_of_the_second_time(
    gangs: Gangs, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    gangs.job("train", 2, suspend=True)
    raw.merge(f"{gangs.jobs}/train", {"spec": {"suspend": False}})
    pods = gangs.pods("train", 2)
    gangs.run(pods)
    gangs.complete(pods)
    raw.merge(f"{gangs.jobs}/train", {"spec": {"suspend": True}})
    gangs.pods("train", 0)
    for pod in pods:
        gangs.end(pod)
    eventually(lambda: _empty(gangs.rosters()), 30)
    raw.merge(f"{gangs.jobs}/train", {"spec": {"suspend": False}})
    again = gangs.pods("train", 2, frozenset(pod["metadata"]["uid"] for pod in pods))
    early = start(again[0], **environment(again[0]))
    gangs.run(again)
    gangs.complete(again)
    assert early.ends(30)[0] == 0
    opened(start, again)


@pytest.mark.parametrize("kind", ["job", "stateful_set"])
def test_a_gang_that_is_scaled_has_the_new_size(
    kind: str, gangs: Gangs, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    getattr(gangs, kind)("train", 2)
    gangs.run(gangs.pods("train", 2))
    path = f"{gangs.jobs if kind == 'job' else gangs.sets}/train"

    def scale(number: int) -> None:
        raw.merge(
            path, {"spec": {"completions": number, "parallelism": number} if kind == "job" else {"replicas": number}}
        )

    number = 3 if kind == "job" else 1
    scale(number)
    pods = gangs.pods("train", number)
    gangs.run(pods)
    gangs.complete(pods)
    opened(start, pods[-1:], of=number)


def test_two_gangs_of_one_namespace_do_not_meet_and_annotations_name_the_role(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.job("one", 2, annotations={"roles": "trainer=2"})
    gangs.job("two", 2)
    for name in ("one", "two"):
        gangs.run(gangs.pods(name, 2))
        roster = gangs.complete(gangs.pods(name, 2))
        assert roster["taskRoles"][0]["name"] == ("trainer" if name == "one" else "worker")
    opened(start, gangs.pods("two", 2))


@pytest.mark.parametrize(("kind", "field"), [("job", "spec.parallelism is 1"), ("stateful_set", "set Parallel")])
def test_what_can_never_be_complete_is_said_at_once_and_the_barrier_ends_with_210(
    kind: str, field: str, gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    if kind == "job":
        gangs.job("train", 2, parallelism=1)
    else:
        gangs.stateful_set("train", 2, "OrderedReady")
    pods = gangs.pods("train", 1)
    code, last = start(pods[0], **environment(pods[0])).ends(30)
    assert code == 210
    assert field in last

    def is_told() -> None:
        owner = "Job" if kind == "job" else "StatefulSet"
        assert any(one.startswith(f"{owner} GangImpossible") and field in one for one in gangs.events())

    eventually(is_told, 30)


def test_the_controller_may_be_away_or_die_at_any_time(
    gangs: Gangs, keeper: ControllerProcess, start: Callable[..., Barrier]
) -> None:
    keeper.kill()
    gangs.job("train", 3)
    pods = gangs.pods("train", 3)
    early = start(pods[0], **environment(pods[0]))
    early.reports("waiting")
    keeper.start()
    eventually(lambda: _filled(gangs.rosters()), 30)
    for pod in pods:
        keeper.kill()
        gangs.run([pod])
        keeper.start()
    gangs.complete(pods)
    assert early.ends(30)[0] == 0, early.lines
    keeper.kill()
    for pod in pods:
        gangs.kubelet.run(pod)
    keeper.start()
    opened(start, pods)


def test_the_pods_own_account_may_read_this_roster_and_nothing_else(
    gangs: Gangs, cluster: Cluster, account: Path, start: Callable[..., Barrier]
) -> None:
    gangs.job("train", 1)
    pods = gangs.pods("train", 1)
    gangs.run(pods)
    gangs.complete(pods)
    opened(start, pods)
    pod_side = RawClient(cluster, (account / "token").read_text())
    (name,) = gangs.rosters()
    assert pod_side.get(f"{gangs.core}/configmaps/{name}")["metadata"]["name"] == name
    for path in (f"{gangs.core}/configmaps", f"{gangs.core}/pods", f"{gangs.jobs}/train"):
        _refused(403, lambda path=path: pod_side.get(path))
    pod_side.close()


def _refused(code: int, request: Callable[[], object]) -> None:
    with pytest.raises(ApiStatusError) as error:
        request()
    assert error.value.status == code


def _empty(found: Json) -> None:
    assert not found


def _says(rosters: Json, task: str, why: str) -> None:
    assert [each for one in rosters.values() for each in one["waitingFor"]] == [{"task": task, "why": why}]


def _filled(found: Json) -> None:
    assert found


def test_bare_pods_that_say_all_are_a_gang_whose_roster_all_of_them_own(
    gangs: Gangs, raw: RawClient, start: Callable[..., Barrier]
) -> None:
    for index in range(2):
        said = {"gang": "run-7", "gang-role": "trainer", "gang-index": str(index), "gang-size": "trainer=2"}
        body = {"apiVersion": "v1", "kind": "Pod", **template("Never", **said)}
        body["metadata"]["name"] = f"mine-{index}"
        raw.create(f"{gangs.core}/pods", body)
    pods = [raw.get(f"{gangs.core}/pods/mine-{index}") for index in range(2)]
    gangs.run(pods)
    assert gangs.complete(pods)["taskRoles"][0]["name"] == "trainer"
    barrier = start(pods[1], **environment(pods[1]))
    assert barrier.ends(30)[0] == 0, barrier.lines
    config_map = raw.get(f"{gangs.core}/configmaps/gang-pod.run-7-attempt")
    owners = {(one["kind"], one["name"], one["controller"]) for one in config_map["metadata"]["ownerReferences"]}
    assert owners == {("Pod", "mine-0", False), ("Pod", "mine-1", False)}
    for pod in pods:
        gangs.end(pod)
    eventually(lambda: _empty(gangs.rosters()), 30)


def test_the_command_line_says_whom_a_gang_waits_for(gangs: Gangs, ctl: Frameworkctl) -> None:
    gangs.job("train", 2)
    pods = gangs.pods("train", 2)
    gangs.run(pods[:1])
    eventually(lambda: _says(gangs.rosters(), "worker-1", "Pending: no IP yet"), 30)
    ((name, state, ready, *_, waits),) = ctl.ok("gangs").table
    assert (name, state, ready, waits) == ("job/train", "Waiting", "1/2", "worker-1: Pending: no IP yet")
    page = ctl.ok("why job/train").output
    assert page == f"Job {ctl.namespace}/train is waiting, 1/2 ready\nworker-1: Pending: no IP yet\n"
    assert json.loads(ctl.ok("gangs -o json").output)[0]["waitingFor"][0]["task"] == "worker-1"
    absent = ctl("why jobset/train")
    assert absent.code == 1
    assert "there is no roster of jobset/train" in absent.errors
