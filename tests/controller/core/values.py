"""Plain values for tables: Tasks, attempts, Pods and their contexts, each with only what a test speaks of."""

import gzip
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import FAILED, PERMANENT, SUCCEEDED, TRANSIENT, TRANSIENT_CONFLICT
from frameworkcontroller.api.meta import Meta, OwnerReference, Partial
from frameworkcontroller.api.pod import POD_DECODER, Pod
from frameworkcontroller.api.pod_group import NONE, GangScheduling
from frameworkcontroller.api.spec import FrameworkSpec, RetryPolicy, TaskRoleSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import (
    CompletionType,
    FrameworkAttemptStatus,
    FrameworkCompletion,
    FrameworkStatus,
    RetryPolicyStatus,
    TaskAttemptStatus,
    TaskCompletion,
    TaskRoleStatus,
    TaskStatus,
)
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import CreatePod
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.machines.attempt import Action, Status, Step
from frameworkcontroller.core.machines.framework import AttemptFacts
from frameworkcontroller.core.machines.task import TaskFacts
from frameworkcontroller.core.policies.classification import CONTAINER_CONTRACT
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.status.reports import Report

Value = TypeVar("Value")
Seen = TypeVar("Seen", Pod, Partial)

START = datetime(2026, 1, 1, tzinfo=UTC)
FRAMEWORK_UID = "framework-uid"
CONFIG_MAP_UID = "config-map-uid"
POD_UID = "pod-uid"

TYPES = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "transient": TRANSIENT,
    "conflict": TRANSIENT_CONFLICT,
    "permanent": PERMANENT,
}


def core_config(**changes: Any) -> CoreConfig:
    """The settings that the documentation gives as defaults, but for these changes."""
    values: dict[str, Any] = {
        "object_local_cache_creation_timeout_sec": 300,
        "framework_completed_retain_sec": 30 * 24 * 3600,
        "framework_min_retry_delay_sec": 60,
        "framework_max_retry_delay_sec": 900,
        "grant_roster_access": True,
        "crash_loop_pause": False,
        "kueue": False,
        "kueue_manages_all": False,
        "gang_scheduling": GangScheduling(NONE),
        "group_schedulers": ("kubernetes",),
        "rank_topology": False,
        "ask_progress": True,
        "history": False,
        "codes": CONTAINER_CONTRACT,
    }
    return CoreConfig(**(values | changes))


def at(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def moment(seconds: float) -> Now:
    """So many seconds after the start, on both clocks."""
    return Now(at(seconds), at(seconds))


def known(value: Value | None) -> Value:
    """The value, which has to be there."""
    assert value is not None
    return value


@dataclass(frozen=True)
class Row(Generic[Status, Seen, Action]):
    """An attempt and its object as the API server shows it, what else its next step depends on, and what is shown."""

    was: Status
    seen: Seen | None
    facts: dict[str, Any]
    expected: tuple[State, int | None, Action | None, datetime | None]


def row(
    was: Status,
    seen: Seen | None,
    then: State | Action | None = None,
    *,
    code: int | None = None,
    wake_at: datetime | None = None,
    **facts: Any,
) -> Row[Status, Seen, Action]:
    """A row: the attempt moves to the state `then`, or that is to be done. Of what is not given, nothing changes."""
    state, action = (then, None) if isinstance(then, State) else (was.state, then)
    if code is None and was.completion is not None:
        code = was.completion.code
    if action is not None and was.state is State.ATTEMPT_COMPLETED:
        state, code = State.CREATION_PENDING, None  # the next attempt begins
    return Row(was, seen, facts, (state, code, action, wake_at))


def shown(done: Step[Status, Action]) -> tuple[State, int | None, Action | None, datetime | None]:
    """The state after a step, the code of the end if there is one, what is to be done, and when to step again."""
    end = done.status.completion
    return done.status.state, None if end is None else end.code, done.action, done.wake_at


def ended(code: int = 0, kind: str | CompletionType | None = None) -> TaskCompletion:
    """The end of a Task attempt; without a kind, 0 is a success and everything else a failure of unknown kind."""
    if kind is None:
        kind = "failed" if code else "succeeded"
    return TaskCompletion(
        code=code,
        phrase=f"Phrase{code}",
        type=TYPES[kind] if isinstance(kind, str) else kind,
        diagnostics=f"ended with {code}",
    )


def task(
    state: State = State.CREATION_PENDING,
    completion: TaskCompletion | None = None,
    *,
    index: int = 0,
    since: float = 0,
    completed: float | None = None,
    role: str = "worker",
    ip: str | None = None,
    pod_uid: str | None = None,
    attempt: int = 0,
    retries: RetryPolicyStatus | None = None,
    deletion_pending: bool = False,
    instance: str = "task-uid",
) -> TaskStatus:
    """A Task; whatever its state implies is set."""
    has_pod = state is not State.CREATION_PENDING
    place = None if state in {State.CREATION_PENDING, State.CREATION_REQUESTED} else ""
    run = at(since) if state is State.RUNNING else None
    return TaskStatus(
        index=index,
        instance_uid=instance,
        start_time=START,
        run_time=run,
        completion_time=at(since if completed is None else completed) if state is State.COMPLETED else None,
        state=state,
        transition_time=at(since),
        deletion_pending=deletion_pending,
        retry_policy_status=retries or RetryPolicyStatus(attempt, attempt),
        attempt_status=TaskAttemptStatus(
            id=attempt,
            start_time=START,
            run_time=run,
            pod_name=names.pod_name("fw", role, index),
            pod_uid=(pod_uid or POD_UID) if has_pod else None,
            instance_uid=f"{attempt}_{pod_uid or POD_UID}" if has_pod else None,
            pod_node_name=place,
            pod_ip=place if ip is None else ip,
            pod_host_ip=place,
            completion_status=completion,
        ),
    )


def packed(roles: tuple[TaskRoleStatus, ...]) -> str:
    """These roles as a large status holds them."""
    return b64encode(gzip.compress(msgspec.json.encode(roles))).decode()


def task_facts(**changes: Any) -> TaskFacts:
    """The context of a Task of a Framework that runs."""
    values: dict[str, Any] = {
        "now": at(1000),
        "retry_policy": retry_policy(),
        "graceful_timeout_sec": None,
        "creation_timeout": timedelta(seconds=300),
        "codes": CONTAINER_CONTRACT,
        "attempt_ending": False,
        "config_map_name": "fw-attempt",
        "framework_uid": FRAMEWORK_UID,
    }
    return TaskFacts(**(values | changes))


def creation(role: str = "worker", index: int = 0, *, size: int = 0) -> CreatePod:
    """The creation of a Pod of so many bytes, which nobody renders."""
    source: Any = SimpleNamespace(size=size)
    return CreatePod(role, index, "task-uid", 0, source)


def retry_policy(count: int = 0, *, fancy: bool = False) -> RetryPolicy:
    """A retry policy."""
    return RetryPolicy(fancy_retry_policy=fancy, max_retry_count=count)


def pod(
    phase: str = "Pending",
    *,
    uid: str = POD_UID,
    name: str = "fw-worker-0",
    deleted: float | None = None,
    grace: int = 30,
    foreign: bool = False,
    sidecars: tuple[str, ...] = (),
    created: float | None = None,
    barrier: bool = False,
    **status: Any,
) -> Pod:
    """A Pod as the API server shows it. `deleted` is when its deletion began, `status` is in JSON's names."""
    barriers = [{"name": names.BARRIER_CONTAINER}] if barrier else []
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": "1",
        "annotations": {names.FRAMEWORK_UID: "another" if foreign else FRAMEWORK_UID},
        "ownerReferences": [{"kind": "ConfigMap", "name": "fw-attempt", "uid": CONFIG_MAP_UID, "controller": True}],
    }
    if created is not None:
        meta["creationTimestamp"] = at(created)
    if deleted is not None:
        meta["deletionTimestamp"] = at(deleted + grace)
        meta["deletionGracePeriodSeconds"] = grace
    spec = {
        "nodeName": status.pop("nodeName", ""),
        "initContainers": barriers + [{"name": name, "restartPolicy": "Always"} for name in sidecars],
    }
    document = {"metadata": meta, "spec": spec, "status": {"phase": phase} | status}
    return POD_DECODER.decode(msgspec.json.encode(document))


def terminated(name: str, code: int, **more: Any) -> dict[str, Any]:
    """A containerStatus of a container that has ended; `finished` in seconds after the start."""
    if "finished" in more:
        more["finishedAt"] = at(more.pop("finished"))
    return {"name": name, "state": {"terminated": {"exitCode": code} | more}}


def role(name: str, number: int, **more: Any) -> TaskRoleSpec:
    """A TaskRole of a spec."""
    return TaskRoleSpec(name=name, task_number=number, **more)


def role_of(name: str, tasks: Iterable[TaskStatus]) -> RoleState:
    """A role with these Tasks, all of which are persisted."""
    made = RoleState(name, f"{name}-uid", None)
    for one in tasks:
        made.append(one, 0)
    return made


def spec(*roles: TaskRoleSpec, **more: Any) -> FrameworkSpec:
    """A Framework's spec."""
    return FrameworkSpec(task_roles=roles, **more)


def framework(
    state: State = State.CREATION_PENDING,
    completion: FrameworkCompletion | None = None,
    *,
    since: float = 0,
    retries: RetryPolicyStatus | None = None,
) -> FrameworkStatus:
    """A Framework's own part of its status; whatever its state implies is set."""
    has_config_map = state is not State.CREATION_PENDING
    return FrameworkStatus(
        start_time=START,
        state=state,
        transition_time=at(since),
        retry_policy_status=retries or RetryPolicyStatus(),
        attempt_status=FrameworkAttemptStatus(
            id=retries.total_retried_count if retries else 0,
            start_time=START,
            config_map_name="fw-attempt",
            config_map_uid=CONFIG_MAP_UID if has_config_map else None,
            instance_uid=f"0_{CONFIG_MAP_UID}" if has_config_map else None,
            completion_status=completion,
        ),
    )


def framework_end(code: int = 0, kind: str | None = None) -> FrameworkCompletion:
    """The end of a Framework attempt."""
    cause = ended(code, kind)
    return FrameworkCompletion(code=code, phrase=cause.phrase, type=cause.type, diagnostics=cause.diagnostics)


def attempt_facts(**changes: Any) -> AttemptFacts:
    """The context of a Framework attempt; `execution` is short for a spec with only that execution type."""
    execution = changes.pop("execution", "Start")
    values: dict[str, Any] = {
        "now": at(1000),
        "name": "fw",
        "uid": FRAMEWORK_UID,
        "spec": spec(role("worker", 1), execution_type=execution),
        "being_deleted": False,
        "held_back": False,
        "creation_timeout": timedelta(seconds=300),
        "completed_retain": timedelta(days=30),
        "conflict_delay_sec": 0,
        "requests_in_flight": False,
        "creates_pods": False,
        "retains_pods": False,
        "config_map_gone": False,
        "has_pods": False,
    }
    return AttemptFacts(**(values | changes))


def config_map(
    *, uid: str = CONFIG_MAP_UID, owner: str = FRAMEWORK_UID, deleted: bool = False, created: float = 0
) -> Partial:
    """A ConfigMap as the API server shows it."""
    owners = (OwnerReference(kind="Framework", name="fw", uid=owner, controller=True),) if owner else ()
    meta = Meta("fw-attempt", uid, "1", namespace="ns", creation_timestamp=at(created), owner_references=owners)
    return Partial(replace(meta, deletion_timestamp=at(1)) if deleted else meta)


def events_in(reports: Iterable[Report]) -> list[KubeEvent]:
    """The Events of some reports."""
    return [report for report in reports if isinstance(report, KubeEvent)]
