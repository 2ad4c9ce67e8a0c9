"""Microsoft's controller is stopped with Frameworks in every state, and the chart installs this one: each goes on.

The commands are the steps of docs/migrate/frameworkcontroller.md, typed with the real helm and kubectl. The Pods of the
programs are played; the controller runs as a process, with the permissions and the configuration that the chart made.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3
import yaml

from frameworkcontroller.api.names import CRD_NAME
from frameworkcontroller.api.states import State
from frameworkrelease.chart import NAMESPACE
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess, Frameworks
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.microsoft import Left, Task, Thing, leave
from tests.support.beside.player import Player
from tests.support.clusters import own_cluster
from tests.support.pages import blocks, typed
from tests.support.waiting import has

pytestmark = [pytest.mark.apiserver, pytest.mark.chart]

PAGE: Final = "docs/migrate/frameworkcontroller.md"
DEFINITION: Final = Path(__file__).with_name("microsoft-definition.yaml")
SETTINGS: Final = """\
workerNumber: 100
frameworkCompletedRetainSec: 2592000
podFailureSpec:
- code: 143
  phrase: Terminated
  type: {attributes: [Transient]}
  podPatterns:
  - containers: [{codeRange: {min: 143, max: 143}}]
"""
NOT_YET = Task(State.CREATION_PENDING)
UNRECORDED = Task(State.CREATION_PENDING, Thing.UNRECORDED)
SUCCEEDED = Task(State.COMPLETED, Thing.GONE, code=0)
FAILED = Task(State.COMPLETED, Thing.GONE, code=1)
TRANSIENT = Task(State.COMPLETED, Thing.GONE, code=200)
STOPPED = Task(State.COMPLETED, Thing.GONE, code=-220)
RUNS = Task(State.RUNNING, Thing.RUNNING)
EACH_TASK_STATE = (
    Task(State.CREATION_PENDING, attempt=1),
    Task(State.CREATION_REQUESTED, Thing.THERE),
    Task(State.PREPARING, Thing.THERE),
    RUNS,
    Task(State.DELETION_PENDING, Thing.SUCCEEDED, code=0),
    Task(State.DELETION_REQUESTED, Thing.GONE, code=0),
    Task(State.DELETING, Thing.DELETING, code=-101),
    Task(State.ATTEMPT_COMPLETED, Thing.GONE, code=1),
    SUCCEEDED,
    # A rescale wants one less.
    Task(State.DELETION_PENDING, Thing.RUNNING, code=-230, deletion_pending=True),
)
CREATE, STOP = {"executionType": "Create"}, {"executionType": "Stop"}
BARRIER = {"name": "frameworkbarrier", "image": "frameworkcontroller/frameworkbarrier"}


def going(state: State) -> Task:
    return Task(state, Thing.RUNNING, code=-220)


@dataclass(frozen=True)
class End:
    """How a Framework ends, as Microsoft's controller would have ended it.

    Attributes:
        code: Its completion code; None if it does not end now.
        retried: `totalRetriedCount` and `accountableRetriedCount`.
        tasks: The completion code and the number of the last attempt of Tasks, by index.
        kept: The Tasks that end in the Pod that they had.
        state: Its last state; None if it is deleted.
    """

    code: int | None = 0
    retried: tuple[int, int] = (0, 0)
    tasks: dict[int, tuple[int, int]] = field(default_factory=dict)
    kept: tuple[int, ...] = ()
    state: State | None = State.COMPLETED


THERE, DELETING, GONE = {"config_map": Thing.THERE}, {"config_map": Thing.DELETING}, {"config_map": Thing.GONE}
CASES: Final[dict[str, tuple[Left, End]]] = {
    "unseen": (Left(None, (NOT_YET,)), End(tasks={0: (0, 0)})),
    "pending": (Left(State.CREATION_PENDING, (NOT_YET,), attempt=1, retries=1), End(retried=(1, 1))),
    "held": (Left(State.CREATION_PENDING, (NOT_YET,), more=CREATE), End(None, state=State.CREATION_PENDING)),
    "unrecorded": (Left(State.CREATION_PENDING, (NOT_YET,), Thing.UNRECORDED), End()),
    "requested": (Left(State.CREATION_REQUESTED, (NOT_YET,), **THERE), End()),
    "preparing": (
        Left(State.PREPARING, (NOT_YET, *EACH_TASK_STATE[1:3], UNRECORDED), **THERE),
        End(tasks=dict.fromkeys(range(4), (0, 0)), kept=(1, 2)),
    ),
    "running": (
        Left(State.RUNNING, EACH_TASK_STATE, **THERE, fancy=True, retries=1, number=9),
        End(
            tasks={0: (0, 1), **dict.fromkeys((1, 2, 3, 4, 5, 8), (0, 0)), 6: (0, 1), 7: (0, 1)},
            kept=(1, 2, 3, 4, 5, 8),
        ),
    ),
    "packed": (
        Left(State.RUNNING, (*[RUNS] * 12, NOT_YET), **THERE, compressed=True),
        End(tasks=dict.fromkeys(range(13), (0, 0)), kept=tuple(range(12))),
    ),
    "gang": (Left(State.RUNNING, (RUNS, RUNS), **THERE, init=(BARRIER,)), End(kept=(0, 1))),
    "killed": (
        Left(State.RUNNING, (Task(State.RUNNING, Thing.KILLED), RUNS), **THERE, fancy=True),
        End(tasks={0: (0, 1), 1: (0, 0)}, kept=(1,)),
    ),
    "stopped": (Left(State.RUNNING, (RUNS,), **THERE, more=STOP), End(-210, kept=(0,))),
    "taken": (Left(State.RUNNING, (RUNS,), **DELETING, fancy=True), End(retried=(1, 0))),
    "vanished": (Left(State.RUNNING, (Task(State.RUNNING, Thing.GONE),), **GONE), End(-100)),
    "failing": (
        Left(State.DELETION_PENDING, (FAILED, going(State.DELETION_PENDING)), **THERE, code=1),
        End(1, tasks={0: (1, 0), 1: (-220, 0)}, kept=(0, 1)),
    ),
    "retrying": (
        Left(State.DELETION_REQUESTED, (TRANSIENT, going(State.DELETION_REQUESTED)), **DELETING, code=200, fancy=True),
        End(retried=(1, 0)),
    ),
    "stopping": (
        Left(State.DELETING, (going(State.DELETING),), **DELETING, code=-210, more=STOP),
        End(-210, tasks={0: (-220, 0)}, kept=(0,)),
    ),
    "undecided": (Left(State.ATTEMPT_COMPLETED, (FAILED, STOPPED), **GONE, code=1, retries=1), End(retried=(1, 1))),
    "delayed": (
        Left(State.ATTEMPT_COMPLETED, (FAILED,), **GONE, code=201, delay=60, fancy=True),
        End(retried=(1, 0)),
    ),
    "waiting": (
        Left(State.ATTEMPT_COMPLETED, (FAILED,), **GONE, code=201, delay=7200, fancy=True),
        End(201, state=State.ATTEMPT_COMPLETED),
    ),
    "spent": (Left(State.ATTEMPT_COMPLETED, (FAILED,), **GONE, code=1, attempt=1, retries=1), End(1, retried=(1, 1))),
    "succeeded": (Left(State.COMPLETED, (SUCCEEDED,), **GONE, code=0), End(kept=(0,))),
    "failed": (Left(State.COMPLETED, (FAILED, STOPPED), **GONE, code=1), End(1, kept=(0, 1))),
    "expired": (Left(State.COMPLETED, (SUCCEEDED,), **GONE, code=0, age=timedelta(days=31)), End(state=None)),
    "deleted": (Left(State.RUNNING, (RUNS,), **THERE, foreground_deletion=True), End(state=None)),
}


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A control plane of its own, because the definition of Frameworks changes."""
    with own_cluster(pytestconfig, Depth.CONTROL_PLANE, "migration") as found:
        yield found


def test_every_state_is_among_the_cases() -> None:
    lefts = [left for left, _ in CASES.values()]
    assert {left.state for left in lefts} == {None, *State}
    assert {task.state for left in lefts for task in left.tasks} == set(State)


def install_microsofts(cluster: Cluster) -> None:
    """Install what Microsoft's instructions make, without the image."""
    cluster.kubectl("apply", "-f", str(DEFINITION))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD_NAME}")
    make_older(cluster)
    name = "frameworkcontroller"
    account = f"--user=system:serviceaccount:default:{name}"
    cluster.kubectl("create", "serviceaccount", name)
    cluster.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", account)
    cluster.kubectl("create", "configmap", f"{name}-config", f"--from-literal={name}.yaml={SETTINGS}")
    container = {"name": name, "image": f"{name}/{name}"}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"serviceAccountName": name, "containers": [container]}}
    spec = {"serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": pod}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(stateful))
    cluster.kubectl("rollout", "status", f"statefulset/{name}")


def make_older(cluster: Cluster) -> None:
    """Let the definition be stored as apiextensions.k8s.io/v1beta1 has made it; no API server takes such a one now."""
    etcd = f"http://127.0.0.1:{cluster.port('etcd')}/v3/kv"
    key = b64encode(f"/registry/apiextensions.k8s.io/customresourcedefinitions/{CRD_NAME}".encode()).decode()
    (stored,) = urllib3.request("POST", f"{etcd}/range", json={"key": key}).json()["kvs"]
    definition = json.loads(b64decode(stored["value"]))
    definition["spec"]["preserveUnknownFields"] = True
    value = b64encode(json.dumps(definition).encode()).decode()
    assert urllib3.request("POST", f"{etcd}/put", json={"key": key, "value": value}).status == 200
    has(lambda: cluster.kubectl("get", "crd", CRD_NAME, "-o", "yaml"), "preserveUnknownFields")


def check(frameworks: Frameworks, name: str, before: dict[str, Any], pods: dict[int, str]) -> None:
    """Check that a Framework has come to its end, and by which Pods."""
    left, end = CASES[name]
    names = {one["metadata"]["name"] for one in frameworks.raw.get(frameworks.path)["items"]}
    assert (name in names) == (end.state is not None), name
    if end.state is None:
        return
    status = frameworks.status(name)
    # The column READY: the new controller has taken it over.
    assert status.get("ready"), name
    attempt, retried = status["attemptStatus"], status["retryPolicyStatus"]
    assert status["state"] == end.state, (name, status["state"])
    assert (attempt["completionStatus"] or {}).get("code") == end.code, (name, attempt["completionStatus"])
    assert (retried["totalRetriedCount"], retried["accountableRetriedCount"]) == end.retried, name
    tasks = {int(key.rpartition("-")[2]): task["attemptStatus"] for key, task in frameworks.tasks(name).items()}
    ends = {index: ((task["completionStatus"] or {}).get("code"), task["id"]) for index, task in tasks.items()}
    assert not end.tasks or ends == end.tasks, (name, ends)
    assert {index: tasks[index]["podUID"] for index in end.kept} == {index: pods[index] for index in end.kept}, name
    if left.state is end.state:
        assert before.items() <= status.items(), f"what had ended, or waits, has changed: {name}"


def test_frameworks_in_every_state_go_on_to_their_ends(
    cluster: Cluster, raw: RawClient, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    frameworks = Frameworks(raw, namespace)
    player = Player(kubelet, frameworks, {"taken-0": ["stay", 0]})
    player.plan |= {key: ["stay"] for key in ("gang-0", "gang-1", "stopped-0", "deleted-0")}
    with Kubelet(raw, "default").autopilot(), Kubelet(raw, NAMESPACE).autopilot():
        install_microsofts(cluster)
        pods = {name: leave(raw, kubelet, namespace, name, left) for name, (left, _) in CASES.items()}
        before = {name: frameworks.get(name).get("status") for name in CASES}
        steps = [block for block in blocks(PAGE) if block.heading[:1].isdigit() and block.kind == "sh"]
        assert len({block.heading for block in steps}) == 5
        for block in steps:
            typed(cluster, block.text, tmp_path)
        assert "frameworkcontroller" not in cluster.kubectl("get", "statefulsets,serviceaccounts,configmaps")

    def has_a_roster() -> None:
        data = frameworks.config_map("gang").get("data") or {}
        roster = json.loads(data.get("roster", "{}"))
        assert roster.get("complete"), roster
        listed = [entry[2] for entry in roster["taskRoles"][0]["tasks"]]
        assert listed == [uid[:8] for uid in pods["gang"].values()]
        bound = raw.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")["items"]
        assert [one["metadata"]["name"] for one in bound] == ["gang-roster"]

    # The chart has made it of the old one.
    made = raw.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/frameworkcontroller-config")["data"]
    configuration = yaml.safe_load(made["frameworkcontroller.yaml"])
    assert configuration["podFailureSpec"][0]["phrase"] == "Terminated"
    controller = ControllerProcess(cluster, tmp_path, configuration)
    with ends_cleanly(controller), player.playing():
        controller.start()
        eventually(has_a_roster, timeout=30)
        player.plan |= {"gang-0": [0], "gang-1": [0]}
        for name in CASES:
            eventually(lambda name=name: check(frameworks, name, before[name], pods[name]), timeout=60)
