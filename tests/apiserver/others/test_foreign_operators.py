"""Gangs of the real controllers of JobSets, LeaderWorkerSets and TrainJobs, as the page says, with real barriers."""

import contextlib
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from localcluster import Cluster
from localcluster.client import Json
from testkit.frameworks import ControllerProcess
from testkit.waiting import eventually
from tests.apiserver.others.test_foreign_gangs import gangs, keeper, opened, webhook
from tests.barrier.cluster import account, start
from tests.barrier.process import Barrier
from tests.support.background import in_background
from tests.support.beside.foreign_gangs import MANIFESTS, Gangs, becomes, environment, operated
from tests.support.beside.kubelet import ignore_vanished
from tests.support.beside.proxy import Fault, Proxy, Request

__all__ = ["account", "gangs", "keeper", "start", "webhook"]  # fixtures

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.chart,
    pytest.mark.long,
    pytest.mark.turns("injector"),
    pytest.mark.usefixtures("operators", "webhook", "keeper"),
]
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"


@pytest.fixture(scope="module")
def operators(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with operated(cluster, tmp_path_factory):
        yield


def replicated(name: str, replicas: int, pods: int, completions: int = 0, **more: object) -> Json:
    """A replicated job like that of the page; as many Pods are to succeed as run at once, where it is not said."""
    job = MANIFESTS["JobSet"]["spec"]["replicatedJobs"][0]
    spec = job["template"]["spec"] | {"parallelism": pods, "completions": completions or pods}
    return job | {"name": name, "replicas": replicas, "template": {"spec": spec}} | more


def resumed(gangs: Gangs, path: str, pods: list[Json]) -> list[Json]:
    """Suspend and resume an object, and return the Pods of its next start."""
    gangs.raw.merge(path, {"spec": {"suspend": True}})
    gangs.pods(0)
    gangs.end(pods)
    gangs.raw.merge(path, {"spec": {"suspend": False}})
    return gangs.pods(len(pods), after=pods)


def test_a_jobset_of_the_page_starts_as_one_gang_and_again_when_it_is_resumed_and_when_it_restarts(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    path = gangs.create("JobSet", suspend=True)
    gangs.raw.merge(path, {"spec": {"suspend": False}})
    first = gangs.pods(4)
    early = start(first[3], **environment(first[3]))
    roster = gangs.complete(first)
    assert (roster["framework"]["name"], roster["framework"]["attemptID"]) == ("train", 0)
    assert early.ends(30)[0] == 0
    opened(start, first)
    becomes(lambda: gangs.is_told("JobSet", "All 4 Tasks are ready", "GangReady"), wanted=True)

    second = resumed(gangs, path, first)
    gangs.complete(second)
    opened(start, second)

    # The barriers of the next attempt open for its Pods alone.
    gangs.kubelet.fail(second[1])
    gangs.pods(0, **{ATTEMPT: "0"})
    gangs.end(second)
    third = gangs.pods(4, **{ATTEMPT: "1"})
    early = start(third[0], **environment(third[0]))
    assert gangs.complete(third)["framework"]["attemptID"] == 1
    assert early.ends(30)[0] == 0
    opened(start, third)
    becomes(lambda: [one["framework"]["attemptID"] for one in gangs.rosters().values()], [1])


def test_a_train_job_is_the_gang_of_its_jobset_and_starts_again_when_it_is_resumed(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.create("TrainingRuntime")
    path = gangs.create("TrainJob")
    first = gangs.pods(4)
    roster = gangs.complete(first)
    assert (roster["framework"]["name"], [role["name"] for role in roster["taskRoles"]]) == ("train", ["node"])
    opened(start, first)
    second = resumed(gangs, path, first)
    gangs.complete(second)
    opened(start, second)


def test_two_jobs_of_a_role_are_numbered_through_and_the_coordinator_is_first(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    head = {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 0}
    jobs = [replicated("driver", 1, 1), replicated("worker", 2, 2)]
    gangs.create("JobSet", replicatedJobs=jobs, coordinator=head)
    pods = gangs.pods(5)
    roster = gangs.complete(pods[1:] + pods[:1])
    assert [(role["name"], len(role["tasks"])) for role in roster["taskRoles"]] == [("worker", 4), ("driver", 1)]
    barrier = start(pods[3], **environment(pods[3]))
    assert barrier.ends(30)[0] == 0, barrier.lines
    assert "RANK='0'" in barrier.read("env")


def test_each_group_of_a_leader_worker_set_is_a_gang_and_starts_again_as_one(
    gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    path = gangs.create("LeaderWorkerSet")
    groups = [gangs.pods(3, **{GROUP: group}) for group in "01"]
    for pods in groups:
        gangs.complete(pods)
        opened(start, pods)
    again = gangs.pods(3, after=groups[0], **{GROUP: "0"})
    gangs.complete(again)
    opened(start, again)

    # It is scaled: the next group is one more gang, and those that go leave no roster.
    gangs.raw.merge(path, {"spec": {"replicas": 3}})
    third = gangs.pods(3, **{GROUP: "2"})
    gangs.complete(third)
    opened(start, third)
    gangs.raw.merge(path, {"spec": {"replicas": 1}})
    for group, pods in (("1", groups[1]), ("2", third)):
        gangs.pods(0, after=pods, **{GROUP: group})
    becomes(lambda: [roster["complete"] for roster in gangs.rosters().values()], [True])

    # It is deleted, and another one of its name made at once.
    gangs.raw.delete(path, {"propagationPolicy": "Background"})
    gangs.create("LeaderWorkerSet", replicas=1)
    last = gangs.pods(3, after=again)
    gangs.complete(last)
    becomes(gangs.owners, [gangs.raw.get(path)["metadata"]["uid"]])
    opened(start, last)


DRIVER = replicated("driver", 1, 1)
AFTER_DRIVER = replicated("worker", 1, 2, dependsOn=[{"name": "driver", "status": "Ready"}])
IN_ORDER = {
    "replicatedJobs": [DRIVER, replicated("worker", 1, 2)],
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
}


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("JobSet", IN_ORDER, "spec.startupPolicy.startupPolicyOrder is InOrder"),
        ("JobSet", {"replicatedJobs": [DRIVER, AFTER_DRIVER]}, "spec.replicatedJobs[worker].dependsOn names driver"),
        (
            "JobSet",
            {"replicatedJobs": [replicated("worker", 1, 1, completions=2)]},
            "spec.replicatedJobs[worker].template.spec.parallelism is 1 and",
        ),
        ("LeaderWorkerSet", {"startupPolicy": "LeaderReady"}, "spec.startupPolicy is LeaderReady"),
    ],
    ids=["InOrder", "dependsOn", "parallelism", "LeaderReady"],
)
def test_what_can_never_be_complete_is_said_at_once(
    kind: str, spec: Json, field: str, gangs: Gangs, start: Callable[..., Barrier]
) -> None:
    gangs.create(kind, **spec)
    pods = gangs.pods(1 if kind == "JobSet" else 2)
    code, last = start(pods[0], **environment(pods[0])).ends(60)
    assert code == 210
    assert field in last
    becomes(lambda: gangs.is_told(kind, field), wanted=True)


JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train"}
GANGS = ((4, JOBSET), (3, {GROUP: "0"}), (3, {GROUP: "1"}))
"""Those of the page's JobSet and LeaderWorkerSet: how many Pods each has, and their label."""


@contextlib.contextmanager
def dying(cluster: Cluster, keeper: ControllerProcess) -> Iterator[None]:
    """Let the controller die at a write about rosters, unsent: at its first, the next one at its second, and so on."""
    writes, is_due, before = Counter[int](), threading.Event(), keeper.starts

    def choose(request: Request) -> Fault | None:
        is_write = request.method != "GET" and re.search(r"/(configmaps|roles|rolebindings)\b", request.target)
        writes[keeper.starts] += bool(is_write)
        if not is_write or writes[keeper.starts] < keeper.starts - before:
            return None
        is_due.set()
        return Fault("hang")

    def live() -> None:
        if is_due.wait(0.1):
            keeper.kill()
            is_due.clear()
            keeper.start(works=False)

    with Proxy(cluster, choose) as proxy:
        keeper.kill()
        keeper.server = proxy.url
        keeper.start(works=False)
        with in_background(live):
            yield
    assert keeper.starts > before + 2, "the test must have done what it says"


def listed(gangs: Gangs) -> list[list[str]]:
    """Return whom each roster lists."""
    found = [one.get("taskRoles", ()) for one in gangs.rosters().values()]
    return sorted([task[2] for role in roles for task in role["tasks"]] for roles in found)


def gathered(gangs: Gangs, before: list[Json]) -> list[Json]:
    """Let the next Pods of the gangs run until each gang has one roster, of these, and there is no other."""

    def check() -> list[Json]:
        found = [gangs.pods(number, after=before, **label) for number, label in GANGS]
        pods = [*itertools.chain(*found)]
        for pod in (pod for pod in pods if "podIP" not in pod["status"]):
            with ignore_vanished():
                gangs.kubelet.run(pod)
        assert listed(gangs) == sorted([pod["metadata"]["uid"][:8] for pod in gang] for gang in found)
        return pods

    return eventually(check, 120, 1)


def test_each_gang_has_its_one_right_roster_however_often_the_controller_dies_and_where_it_is_away(
    cluster: Cluster, gangs: Gangs, keeper: ControllerProcess, start: Callable[..., Barrier]
) -> None:
    access = gangs.core.replace("/api/", "/apis/rbac.authorization.k8s.io/")
    starts, seen = list[list[Json]](), list[list[str]]()
    with in_background(lambda: seen.extend(listed(gangs)), every=0.2):
        with dying(cluster, keeper):
            jobset, serving = gangs.create("JobSet"), gangs.create("LeaderWorkerSet")
            starts.append(gathered(gangs, []))
        with dying(cluster, keeper):
            # The JobSet restarts, and each group is made again.
            gangs.kubelet.fail(starts[0][1])
            starts.append(gathered(gangs, starts[0]))
        # It is away while they are suspended.
        gangs.raw.merge(jobset, {"spec": {"suspend": True}})
        gangs.raw.merge(serving, {"spec": {"replicas": 0}})
        gangs.pods(0, **JOBSET)  # where one is gone earlier, its Job fails
        gangs.pods(0, after=starts[1])
        with dying(cluster, keeper):
            becomes(gangs.rosters, {})
            becomes(lambda: gangs.raw.get(f"{access}/roles")["items"], [])
            becomes(lambda: gangs.raw.get(f"{access}/rolebindings")["items"], [])
            gangs.raw.merge(jobset, {"spec": {"suspend": False}})
            gangs.raw.merge(serving, {"spec": {"replicas": 2}})
            starts.append(gathered(gangs, starts[1]))
        # It is away while the next Pods are created.
        gangs.kubelet.fail(starts[2][1])
        for number, label in GANGS:
            gangs.pods(number, after=starts[2], **label)
        with dying(cluster, keeper):
            starts.append(gathered(gangs, starts[2]))
            for gang in (starts[3][:4], starts[3][4:7], starts[3][7:]):
                opened(start, gang)
    start_of = {pod["metadata"]["uid"][:8]: number for number, pods in enumerate(starts) for pod in pods}
    assert all(len({start_of[uid] for uid in one if uid in start_of}) <= 1 for one in seen)
