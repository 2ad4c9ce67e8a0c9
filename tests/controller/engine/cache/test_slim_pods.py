"""What the cache keeps of a Pod: everything that decides, in little memory."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import POD_DECODER, Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.core import events
from frameworkcontroller.core.policies import classification, dependencies, readiness
from frameworkcontroller.core.restart import epoch
from frameworkcontroller.engine.cache import slim_pods
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from tests.controller.core.driver import Driver
from tests.controller.core.values import task
from tests.controller.core.world import Plan, World, framework_of
from tests.support.memory import memory
from tests.support.rows import each

UID = "8d3d4d2e-5a53-4a9c-9d7e-6e9a1b1f2a3c"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BYTES = 1200
"""Of a Pod, at most."""


def conditions(*kinds: str, **more: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} | more for kind in kinds]


def ended(code: int, second: int = 0, message: str = "", name: str = "main") -> dict[str, Any]:
    end = {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{second:02d}Z", "message": message}
    return {"name": name, "state": {"terminated": end}}


def ran(start: int, end: int) -> dict[str, Any]:
    found = ended(0, end)
    found["state"]["terminated"]["startedAt"] = f"2026-01-01T00:00:{start:02d}Z"
    return found


def document(index: int = 0, **status: Any) -> dict[str, Any]:
    """A Pod as the API server has it, of which the program decodes a part."""
    of_barrier = names.BARRIER_CONTAINER
    return {
        "metadata": {
            "name": f"training-worker-{index}",
            "namespace": "team",
            "uid": f"{index:08d}{UID[8:]}",
            "resourceVersion": str(1_000_000 + index),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {names.FRAMEWORK_NAME: "training", names.TASK_INDEX: str(index), names.BARRIER_LABEL: "enabled"},
            "annotations": dict.fromkeys(names.POD_ANNOTATIONS, UID)
            | {names.TASK_INDEX: str(index), "network-status": f"{index}" * 500},
            "ownerReferences": [{"kind": "ConfigMap", "name": "training-attempt", "uid": UID, "controller": True}],
        },
        "spec": {"nodeName": f"node-{index % 10}", "initContainers": [{"name": of_barrier}]},
        "status": {
            "phase": "Running",
            "podIP": f"10.1.{index // 256}.{index % 256}",
            "hostIP": f"10.0.0.{index % 10}",
            "conditions": conditions(
                *("PodScheduled", "Initialized", "ContainersReady", "Ready"), lastTransitionTime="2026-01-01T00:00:00Z"
            ),
            "initContainerStatuses": [ended(0, index % 60, name=of_barrier)],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
            **status,
        },
    }


def pod_of(document: dict[str, Any]) -> Pod:
    return POD_DECODER.decode(msgspec.json.encode(document))


def decoded(index: int = 0, **status: Any) -> Pod:
    return pod_of(document(index, **status))


def gate(restarts: int, **last_state: Any) -> list[dict[str, Any]]:
    """The barrier, which runs again."""
    state = {"state": {"running": {}}, "lastState": last_state}
    return [{"name": names.BARRIER_CONTAINER, "restartCount": restarts} | state]


PODS = {
    "running": decoded(),
    "cannot be scheduled": decoded(
        phase="Pending",
        podIP="",
        conditions=conditions("PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes"),
        containerStatuses=[],
    ),
    "cannot pull": decoded(
        phase="Pending",
        containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}],
    ),
    "succeeded": decoded(phase="Succeeded", containerStatuses=[ended(0, 5, "done")]),
    "failed, the second container last": decoded(
        phase="Failed", containerStatuses=[ended(3, 5, "a"), ended(4, 9, "b", "second"), ended(0, 10, "", "third")]
    ),
    "restarting in place": decoded(
        conditions=conditions(names.ALL_CONTAINERS_RESTARTING),
        initContainerStatuses=gate(3),
        containerStatuses=[ended(5, 2, "a", "boom"), ended(143, 3, "b")],
    ),
    "restarted in place": decoded(
        initContainerStatuses=gate(4, terminated={"exitCode": 137, "reason": names.RESTARTING_ALL_CONTAINERS}),
        containerStatuses=[{"name": "main", "lastState": {"terminated": {"exitCode": 7, "message": "x"}}}],
    ),
    "evicted": decoded(phase="Failed", reason="Evicted", message="low on memory", containerStatuses=[]),
}


def decisions(pod: Pod) -> dict[str, object]:
    """Everything that is decided by a Pod, or said of it."""
    waiting, running = (task(state, pod_uid=pod.metadata.uid) for state in (State.PREPARING, State.RUNNING))
    return {
        "failed": classification.failed(pod, classification.CONTAINER_CONTRACT),
        "succeeded": classification.succeeded(pod),
        "arrived": readiness.has_arrived(pod),
        "obstacle": readiness.obstacle_of(waiting, pod),
        "ready": dependencies.is_pod_ready(running, pod),
        "observed": epoch.observe(running.attempt_status, pod, epoch.Gate(2, 0)),
        "ends": (epoch.ends_this_start(pod), epoch.culprit(pod)),
        "applications": epoch.runs_applications(pod),
        "missing barrier": events.of_missing_barrier(pod),
        "place": (pod.spec, pod.status.pod_ip, pod.status.host_ip),
        "controller": pod.metadata.controller,
    }


@pytest.mark.parametrize("whole", PODS.values(), ids=PODS)
def test_whatever_decides_stays(whole: Pod) -> None:
    slim = SlimPods()(whole)
    for field in ("name", "namespace", "uid", "resource_version", "creation_timestamp"):
        assert getattr(slim.metadata, field) == getattr(whole.metadata, field)
    assert slim.metadata.labels.framework == "training"
    assert slim.metadata.annotations[names.FRAMEWORK_UID] == UID
    assert decisions(slim) == decisions(whole)


def test_what_nothing_reads_goes() -> None:
    restarting = {"type": names.ALL_CONTAINERS_RESTARTING, "status": "False"}
    slim = SlimPods()(decoded(conditions=[*conditions("PodScheduled", "Initialized", "Ready"), restarting]))
    assert "network-status" not in slim.metadata.annotations
    assert {one.type for one in slim.status.conditions} == {"PodScheduled", "Ready"}


NULLS = [
    {
        "name": "main",
        "state": {"terminated": {"exitCode": 137, "startedAt": None, "finishedAt": None}},
        "lastState": {"terminated": {"exitCode": 1, "startedAt": None, "finishedAt": None}},
    },
    {"name": "more", "state": {"running": {"startedAt": None}}},
]
"""As a kubelet writes of containers that it has lost (ContainerStatusUnknown): a zero time is null."""
TIMES = {
    "runs": (decoded(), (0, 0, None)),
    "has ended": (decoded(containerStatuses=[ran(3, 9), ran(5, 7)]), (0, 5, 9)),
    "one still runs": (
        decoded(containerStatuses=[ran(3, 9), {"name": "b", "state": {"running": {}}}]),
        (0, None, None),
    ),
    "waits": (decoded(conditions=[], containerStatuses=[]), (None, None, None)),
    "is not scheduled": (PODS["cannot be scheduled"], (None, None, None)),
    "of an unknown end": (decoded(conditions=[], containerStatuses=NULLS), (None, None, None)),
}


@each("whole, times", TIMES.values(), ids=TIMES)
def test_the_times_of_pods_that_a_controller_finds_are_kept_until_its_caches_are_full(
    whole: Pod, times: tuple[int | None, ...]
) -> None:
    keep = SlimPods()
    assert keep(whole).times == tuple(None if second is None else BEGAN + timedelta(seconds=second) for second in times)
    keep.keeps_times = False
    slim = keep(whole)
    assert slim.times is UNSET
    assert b"startedAt" not in (kept := msgspec.json.encode(slim))
    assert b"lastTransitionTime" not in kept


def test_of_conditions_of_one_type_the_first_is_kept() -> None:
    """18,000 of them were 0.7 MiB, and 45 ms for each change of their Pod."""
    many = conditions("Ready", reason="first") + conditions("PodScheduled", *["Ready"] * 1000)
    slim = SlimPods()(decoded(conditions=many))
    assert sorted((one.type, one.reason) for one in slim.status.conditions) == [
        ("PodScheduled", ""),
        ("Ready", "first"),
    ]


def test_what_is_equal_is_in_memory_once() -> None:
    keep = SlimPods()
    one, other = keep(decoded(1)), keep(decoded(11))
    for part in ("labels", "annotations", "owner_references", "namespace", "creation_timestamp"):
        assert getattr(one.metadata, part) is getattr(other.metadata, part), part
    for part in ("conditions", "container_statuses", "init_container_statuses", "host_ip", "phase"):
        assert getattr(one.status, part) is getattr(other.status, part), part
    assert one.spec is other.spec


def test_no_emptiness_takes_the_place_of_another() -> None:
    """A Pod of a user may have the label of a Framework and nothing else: no annotations, owners or containers."""
    identity = {"name": "bare", "namespace": "team", "uid": UID, "resourceVersion": "7"}
    labels = {names.FRAMEWORK_NAME: "training"}
    bare = pod_of({"metadata": {**identity, "labels": labels}})
    for pods in ([bare, decoded()], [decoded(), bare]):
        keep = SlimPods()
        for slim in map(keep, pods):
            assert POD_DECODER.decode(msgspec.json.encode(slim)) == slim
            assert isinstance(slim.metadata.annotations, dict)
            assert isinstance(slim.metadata.owner_references, tuple)
            assert isinstance(slim.status.conditions, tuple)


def test_init_containers_that_decide_nothing_are_not_kept() -> None:
    """Pods of a user with 15,000 of them took 1.3 MiB each."""
    whole, sidecars = document(), [{"name": f"s{place}", "restartPolicy": "Always"} for place in range(15_000)]
    plain = [{"name": f"i{place}", "restartPolicy": ""} for place in range(15_000)]
    whole["spec"]["initContainers"] = [*plain, {"name": names.BARRIER_CONTAINER}, *sidecars]
    slim = SlimPods()(pod_of(whole))
    kept = [one.name for one in slim.spec.init_containers]
    assert kept[:3] == [names.BARRIER_CONTAINER, "s0", "s1"]
    assert len(kept) == slim_pods.MAX_CONTAINERS


def containers(part: str = "containerStatuses", **state: Any) -> dict[str, Any]:
    return {part: [{"name": "c", **state}]}


def said(text: str) -> dict[str, Any]:
    return {"reason": text, "message": text}


# Where whoever may write the status of a Pod may write much.
TEXTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "the phase": lambda text: {"phase": text},
    "the reason": lambda text: {"reason": text},
    "the message": lambda text: {"message": text},
    "the address": lambda text: {"podIP": text},
    "the node's address": lambda text: {"hostIP": text},
    "a condition": lambda text: {"conditions": conditions("Ready", status=text, **said(text))},
    "a container's name": lambda text: containers(name=text, state={"running": {}}),
    "a container that has ended": lambda text: containers(
        "initContainerStatuses", state={"terminated": {"exitCode": 1} | said(text)}
    ),
    "a container that waits": lambda text: containers(state={"waiting": said(text)}),
    "a container that has ended before": lambda text: containers(lastState={"terminated": said(text)}),
}
MANY: dict[str, Callable[[str], dict[str, Any]]] = {
    "20 containers that wait": lambda text: {
        "containerStatuses": [{"name": f"{place}", "state": {"waiting": {"reason": text}}} for place in range(20)]
    },
    "1,000 containers that run": lambda text: {
        "containerStatuses": [{"name": f"{place}{text}", "state": {"running": {}}} for place in range(1000)]
    },
}
LONG = "x" * 2000


@each("part", [*TEXTS.values(), *MANY.values()], ids=[*TEXTS, *MANY])
def test_what_is_remembered_of_pods_that_are_gone_is_counted(
    part: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,500 Pods that came and went, with 200 KB in a condition, left 290 MiB behind."""
    most = 128 * 1024
    monkeypatch.setattr(slim_pods, "MAX_SHARED", most)
    keep = SlimPods()
    documents = [msgspec.json.encode(document(0, **part(f"{number}{LONG}"))) for number in range(30)]
    with memory() as used:
        for one in documents:
            keep(POD_DECODER.decode(one))
            assert keep.size <= most + 32 * 1024
        assert used() < 1.5 * most


@each("status", TEXTS.values(), ids=TEXTS)
def test_a_text_that_no_kubelet_writes_is_cut(status: Callable[[str], dict[str, Any]]) -> None:
    """Of each Pod that was cached, a mebibyte in any of them was kept."""
    whole = decoded(0, **status("x" * 1_000_000))
    assert len(msgspec.json.encode(SlimPods()(whole))) < 16 * 1024
    short = SlimPods()(decoded(0, **status("x" * 256)))
    assert msgspec.json.encode(short).count(b"x" * 256) == msgspec.json.encode(whole).count(b"x" * 1_000_000)


EMOJI = "\U0001f600"
MESSAGES = {
    "of one container": ["x" * 12 * 1024],
    "of one container, with an emoji": ["x" * 4092 + EMOJI],
    "of three containers": ["x" * 4096] * 3,
    "of many containers": ["x" * 48] * 256,
    "of one container, in Chinese": ["\u5b57" * (4096 // 3)],
    "of three containers, in Chinese": ["\u5b57" * (4096 // 3)] * 3,
}


@each("messages", MESSAGES.values(), ids=MESSAGES)
def test_what_a_kubelet_writes_of_the_ends_of_containers_is_kept(messages: list[str]) -> None:
    ends = [ended(1, message=text, name=f"c{place}") for place, text in enumerate(messages)]
    longest = decoded(0, phase="Failed", containerStatuses=ends)
    assert SlimPods()(longest).status.container_statuses == longest.status.container_statuses


MUCH = {"succeeded": ended(0, message="x" * 12_000), "failed": ended(1, message="x" * 4096)}
WIDE = {"succeeded": ended(0, message="x" * 12_000 + EMOJI), "failed": ended(1, message="x" * 4092 + EMOJI)}


@each("ends", [MUCH, WIDE], ids=["narrow", "wide"])
def test_what_failed_containers_say_is_kept_first(ends: dict[str, Any]) -> None:
    succeeded, failed = ends.values()
    whole = decoded(0, phase="Failed", initContainerStatuses=[succeeded], containerStatuses=[succeeded, failed, failed])
    slim = SlimPods()(whole).status
    assert slim.container_statuses[1] == whole.status.container_statuses[1]
    assert len(msgspec.json.encode(slim)) < 18 * 1024


def worst(text: str, number: int) -> dict[str, Any]:
    """As much as anybody can write into the status of a Pod."""
    end = {"terminated": {"exitCode": 7} | said(text * 12 * 1024)}
    ends = [{"name": f"{place}{text * 256}", "state": end} for place in range(number)]
    more = {"conditions": conditions(*["Ready"] * 100, **said(text * 9999)), "initContainerStatuses": ends}
    return {"phase": "Failed", "containerStatuses": ends} | more


WORST = {
    "narrow": ("x", 256),
    "wide": (EMOJI, 256),
    "control characters": ("\x01", 256),
    "quotes": ('"', 256),
    "narrow, of 118 containers": ("x", 59),
}


@each("text, number", WORST.values(), ids=WORST)
def test_the_texts_of_a_pod_take_little_memory(text: str, number: int) -> None:
    """118 messages of 12 KiB with an emoji each took 5.6 MiB."""
    encoded = msgspec.json.encode(document(0, **worst(text, number)))
    with memory() as used:
        slim = SlimPods()(POD_DECODER.decode(encoded))
        assert used() < 512 * 1024
    assert len(slim.status.container_statuses) == number


@each("text, number", WORST.values(), ids=WORST)
def test_a_framework_whose_pod_says_the_worst_completes_with_a_status_that_the_api_server_takes(
    text: str, number: int
) -> None:
    """One of 5.5 MB was refused again and again."""
    pods = "taskRoles: [{name: w, taskNumber: 1, task: {pod: {spec: {containers: [{name: main, image: x}]}}}}]"
    life = Driver(World(framework_of(pods), Plan({"w-0": ["stay"]})))
    life.go_on(5)
    slim = SlimPods()(decoded(0, **worst(text, number)))
    life.world.pods["fw-w-0"] = replace(life.world.pods["fw-w-0"], status=slim.status)
    life.world.frozen.add("fw-w-0")
    life.go_on(30)
    assert life.world.status.state is State.COMPLETED
    assert "StatusTooLarge" not in {one.type for one in life.world.status.conditions or ()}
    assert life.world.stored is not None
    assert len(life.world.stored) < 1.5 * 1024 * 1024


def test_the_large_pods_of_a_namespace_take_little_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 of the worst, which no quota of running Pods counts, took 530 MiB."""
    monkeypatch.setattr(slim_pods, "MOST_LARGE", most := 256 * 1024)
    whole = document(0, **worst(EMOJI, 256))
    whole["spec"]["initContainers"] = [{"name": f"s{place}", "restartPolicy": "Always"} for place in range(256)]
    keep = SlimPods()

    def one(name: int, namespace: str = "team") -> Pod:
        return keep(pod_of(whole | {"metadata": whole["metadata"] | {"name": f"{name}", "namespace": namespace}}))

    with memory() as used:
        pods = [one(number) for number in range(50)]
        assert used() < 2 * most + 50 * 20 * 1024
    numbers = [(len(pod.status.container_statuses), len(pod.spec.init_containers)) for pod in pods]
    assert (numbers[0], numbers[-1]) == ((slim_pods.MAX_CONTAINERS,) * 2, (slim_pods.MAX_CONTAINERS_SHARED,) * 2)
    assert len(one(1, "other").spec.init_containers) == slim_pods.MAX_CONTAINERS
    for pod in pods:
        keep.forget(pod)
    assert len(one(49).status.container_statuses) == slim_pods.MAX_CONTAINERS


@each("name", PODS, ids=PODS)
def test_among_many_large_pods_whatever_decides_about_an_ordinary_one_stays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slim_pods, "MOST_LARGE", 0)
    assert decisions(SlimPods()(PODS[name])) == decisions(PODS[name])


@pytest.mark.parametrize("part", ["containerStatuses", "initContainerStatuses"])
def test_of_what_is_said_of_containers_as_much_is_kept_as_a_pod_may_have(part: str) -> None:
    """A Pod that says 28,000 ends of containers that it does not have was 16 MiB, and 3.4 s of a turn."""
    many = SlimPods()(decoded(0, phase="Failed", **{part: [ended(1, name=f"c{place}") for place in range(5000)]}))
    both = many.status.init_container_statuses + many.status.container_statuses
    assert len(both) == slim_pods.MAX_CONTAINERS
    assert len(msgspec.to_builtins(many.status)[part]) >= slim_pods.MAX_CONTAINERS - 1


def test_what_a_failed_container_says_is_forgotten_with_its_pod() -> None:
    keep = SlimPods()
    keep(decoded(0, containerStatuses=[ended(1, message="x")]))
    before = keep.size
    for number in range(100):
        keep(decoded(0, containerStatuses=[ended(1, message=str(number))]))
    assert keep.size == before


def test_pods_of_a_thousand_frameworks_that_change_in_turn_share_their_parts() -> None:
    def of(framework: int) -> Pod:
        whole = document()
        whole["metadata"]["annotations"] = {key: f"{key} of {framework}" for key in names.POD_ANNOTATIONS}
        return pod_of(whole)

    keep = SlimPods()
    first, second = ([keep(of(framework)) for framework in range(1000)] for _ in range(2))
    assert all(a.metadata.annotations is b.metadata.annotations for a, b in zip(first, second, strict=True))


def test_a_pod_takes_little_memory() -> None:
    keep = SlimPods()
    documents = [msgspec.json.encode(document(index)) for index in range(2000)]
    with memory() as used:
        slim = map(keep, map(POD_DECODER.decode, documents))
        pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in slim}
        assert used() / len(pods) < BYTES
