"""A world for one Framework in memory: what the API server, the garbage collector and a kubelet would do, without time.

It proves nothing about Kubernetes (the suite under tests/apiserver does). It makes every order of events repeatable, so
that a run can be cut at each effect and must still end in the same place.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.states import NEXT, State
from frameworkcontroller.api.types import (
    FRAMEWORK_DECODER,
    POD_DECODER,
    STATUS_DECODER,
    ContainerState,
    ContainerStatus,
    Framework,
    FrameworkStatus,
    Meta,
    OwnerReference,
    Partial,
    Pod,
    PodStatus,
    Terminated,
)
from frameworkcontroller.core.config import CoreConfig
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    GrantRosterAccess,
    Missing,
    Outcome,
    Outpaced,
    Refused,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.reconciler import FrameworkReconciler

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 1, tzinfo=UTC)


def framework_of(text: str) -> dict[str, Any]:
    """A Framework manifest from its spec in YAML."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": "fw",
            "namespace": "ns",
            "uid": "framework-uid",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": yaml.safe_load(text),
    }


@dataclass
class Plan:
    """What becomes of Pods: by ``role-index``, an exit code or "stay" for each retry of Framework and Task."""

    ends: dict[str, list[int | str]] = field(default_factory=dict)
    refuse: dict[str, int] = field(default_factory=dict)
    """Creation of these Pods is refused with this status code."""

    def end(self, slot: str, attempt: int) -> int | str:
        ends = self.ends.get(slot, [0])
        return ends[min(attempt, len(ends) - 1)]


class World:
    """The objects of one Framework, with what acts on them."""

    def __init__(self, manifest: dict[str, Any], plan: Plan | None = None) -> None:
        self.manifest = manifest
        self.plan = plan or Plan()
        self.now = START
        self.exists = True
        self.stored: bytes | None = None
        self.config_map: Partial | None = None
        self.pods: dict[str, Pod] = {}
        self.roster: dict[str, Any] | None = None
        self.accounts: tuple[str, ...] = ()
        self.history: list[str] = []
        self._versions = itertools.count(2)
        self._uids = itertools.count(1)
        self._version = 1
        self._members_shown: set[tuple[object, ...]] = set()

    # --- what is seen ------------------------------------------------------------------------------------------------

    @property
    def framework(self) -> Framework:
        document = self.manifest | {"metadata": self.manifest["metadata"] | {"resourceVersion": str(self._version)}}
        seen = FRAMEWORK_DECODER.decode(msgspec.json.encode(document))
        return replace(seen, status=msgspec.Raw(self.stored or b""))

    def seen_config_map(self) -> Partial | None:
        return self.config_map

    @property
    def status(self) -> FrameworkStatus:
        assert self.stored is not None
        return STATUS_DECODER.decode(self.stored)

    def reconciler(self) -> FrameworkReconciler:
        draw = random.Random(7).random
        return FrameworkReconciler(self.framework, CoreConfig(), new_uid=self._uid, draw=draw)

    def _uid(self) -> str:
        return f"uid-{next(self._uids):04d}"

    # --- the API server ----------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> Outcome:  # noqa: PLR0911 - one for each effect
        self.history.append(type(effect).__name__)
        match effect:
            case WriteStatus():
                return self._write_status(effect)
            case CreateConfigMap():
                if self.config_map is not None:
                    return Failed("configmap already exists")
                uid = self._uid()
                owner = OwnerReference(kind="Framework", name="fw", uid="framework-uid", controller=True)
                self.config_map = Partial(
                    Meta("fw-attempt", uid, "1", creation_timestamp=self.now, owner_references=(owner,))
                )
                return Done(uid=uid)
            case DeleteConfigMap():
                return self._delete_config_map(effect)
            case CreatePod():
                return self._create_pod(effect)
            case DeletePod():
                return self._delete_pod(effect)
            case WriteRoster():
                if self.config_map is None or self.config_map.metadata.uid != effect.config_map_uid:
                    return Missing()
                meta = replace(self.config_map.metadata, annotations={names.ROSTER_ANNOTATION: effect.annotation})
                self.config_map, self.roster = Partial(meta), msgspec.json.decode(effect.document)
                self._check_roster()
                return Done()
            case GrantRosterAccess():
                self.accounts = effect.service_accounts
                return Done()
            case DeleteFramework():
                self.exists = False
                return Done()

    def _write_status(self, effect: WriteStatus) -> Outcome:
        if effect.resource_version != str(self._version):
            return Outpaced()
        before = None if self.stored is None else self.status
        self.stored = msgspec.json.encode(effect.status)
        self._version = next(self._versions)
        check_history(before, self.status)
        for role in self.status.attempt_status.task_role_statuses or ():
            for task in role.task_statuses:
                attempt = task.attempt_status
                member = (role.name, task.index, attempt.id, (attempt.pod_uid or "")[:8], attempt.pod_ip)
                self._members_shown.add(member)
        return Done(resource_version=str(self._version))

    def _create_pod(self, effect: CreatePod) -> Outcome:
        pod = POD_DECODER.decode(
            msgspec.json.encode(
                document := msgspec.json.decode(effect.body()) | {"status": {"phase": "Pending"}}
            ).replace(b'"metadata":{', f'"metadata":{{"uid":"{self._uid()}","resourceVersion":"1",'.encode(), 1)
        )
        del document
        name = pod.metadata.name
        slot = f"{effect.role}-{effect.index}"
        if slot in self.plan.refuse:
            return Refused(self.plan.refuse[slot], "refused")
        if name in self.pods:
            return Failed("pod already exists")
        self._check_creation(effect)
        self.pods[name] = pod
        return Done(uid=pod.metadata.uid)

    def _check_creation(self, effect: CreatePod) -> None:
        """Persist before act: the stored status announces exactly this attempt of this Task, under this ConfigMap."""
        status = self.status
        assert status.state in {State.PREPARING, State.RUNNING}
        assert self.config_map is None or status.attempt_status.config_map_uid == self.config_map.metadata.uid
        role = next(r for r in status.attempt_status.task_role_statuses or () if r.name == effect.role)
        task = role.task_statuses[effect.index]
        assert (task.state, task.instance_uid, task.attempt_status.id) == (
            State.CREATION_PENDING,
            effect.task_uid,
            effect.attempt_id,
        )

    def _delete_pod(self, effect: DeletePod) -> Outcome:
        name = names.pod_name("fw", effect.role, effect.index)
        pod = self.pods.get(name)
        if pod is None or pod.metadata.uid != effect.uid:
            return Missing()
        if effect.recorded and not effect.confirm and effect.grace_seconds is None:
            role = next(r for r in self.status.attempt_status.task_role_statuses or () if r.name == effect.role)
            shown = role.task_statuses[effect.index]
            assert shown.state is State.DELETION_PENDING
            assert shown.completion is not None
        if effect.grace_seconds == 0:
            del self.pods[name]
        else:
            self._terminate(name)
        return Done()

    def _terminate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.metadata.deletion_timestamp is None:
            meta = replace(
                pod.metadata, deletion_timestamp=self.now + timedelta(seconds=30), deletion_grace_period_seconds=30
            )
            self.pods[name] = replace(pod, metadata=meta)

    def _delete_config_map(self, effect: DeleteConfigMap) -> Outcome:
        if self.config_map is None or self.config_map.metadata.uid != effect.uid:
            return Missing()
        self.config_map = Partial(replace(self.config_map.metadata, deletion_timestamp=self.now))
        return Done()

    def _check_roster(self) -> None:
        """The roster speaks only of what the status has shown."""
        assert self.roster is not None
        for role in self.roster.get("taskRoles", ()):
            for index, ip, uid8, attempt, *_ in role["tasks"]:
                assert (role["name"], index, attempt, uid8, ip) in self._members_shown

    # --- everybody else ----------------------------------------------------------------------------------------------

    def delete_pod_externally(self, slot: str) -> None:
        self._terminate(f"fw-{slot}")

    def delete_config_map_externally(self) -> None:
        assert self.config_map is not None
        self.config_map = Partial(replace(self.config_map.metadata, deletion_timestamp=self.now))

    def tick(self) -> list[str]:
        """A second passes: Pods move on, deletions end, garbage is collected. Returns which Pods changed."""
        self.now += timedelta(seconds=1)
        changed = []
        for name, pod in list(self.pods.items()):
            owner = pod.metadata.controller
            owned = self.config_map is not None and owner is not None and owner.uid == self.config_map.metadata.uid
            if pod.metadata.deletion_timestamp is not None:
                del self.pods[name]
                changed.append(name)
            elif not owned or (self.config_map and self.config_map.metadata.deletion_timestamp):
                self._terminate(name)
                changed.append(name)
            elif (moved := self._live(name, pod)) is not None:
                self.pods[name] = moved
                changed.append(name)
        if self.config_map is not None and self.config_map.metadata.deletion_timestamp and not self.pods:
            self.config_map = None
            changed.append("")
        return changed

    def _live(self, name: str, pod: Pod) -> Pod | None:
        slot = name.removeprefix("fw-")
        annotations = pod.metadata.annotations
        attempts = int(annotations[names.FRAMEWORK_ATTEMPT_ID]) + int(annotations[names.TASK_ATTEMPT_ID])
        end = self.plan.end(slot, attempts)
        if pod.status.phase == "Pending":
            status = PodStatus(phase="Running", pod_ip=f"10.0.0.{len(slot)}", host_ip="10.1.0.1")
        elif pod.status.phase == "Running" and isinstance(end, int):
            finished = Terminated(exit_code=end, finished_at=self.now)
            containers = (ContainerStatus("main", ContainerState(terminated=finished)),)
            status = replace(pod.status, phase="Failed" if end else "Succeeded", container_statuses=containers)
        else:
            return None
        return replace(pod, status=status)


class WorldView:
    """The world through caches that are up to date."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.framework = world.framework

    def config_map(self) -> Partial | None:
        return self._world.config_map

    def pod(self, name: str) -> Pod | None:
        return self._world.pods.get(name)


class Cut(BaseException):
    """The process dies here."""


@dataclass
class Run:
    """A controller that works on a world until nothing is left to do, dying where it is told to.

    ``cuts`` are numbers of effects, counted over the whole run: n before the n-th is performed, -n right after it.
    ``script`` is called after every second with its number, to interfere.
    """

    world: World
    cuts: frozenset[int] = frozenset()
    script: Callable[[World, int], None] | None = None
    effects: int = 0
    transitions: list[str] = field(default_factory=list)
    limit: int = 200

    def to_the_end(self) -> FrameworkStatus:
        reconciler = self.world.reconciler()
        seconds = 0
        while seconds < self.limit:
            try:
                self._work(reconciler)
            except Cut:
                reconciler = self.world.reconciler()
                continue
            if reconciler.outpaced:
                reconciler = self.world.reconciler()
                continue
            if reconciler.state is State.COMPLETED and reconciler.quiet and not self.world.pods:
                break
            if self.script is not None:
                self.script(self.world, seconds)
            seconds += 1
            for name in self.world.tick():
                if name:
                    reconciler.touch_pod(name)
            reconciler.touch_config_map()
        return self.world.status

    def _work(self, reconciler: FrameworkReconciler) -> None:
        view = WorldView(self.world)
        while True:
            decision = reconciler.reconcile(self.world.now, view)
            self.transitions += [f"{t.subject}: {t.after}" for t in decision.transitions]
            if not decision.effects:
                return
            for effect in decision.effects:
                self.effects += 1
                if self.effects in self.cuts:
                    raise Cut
                outcome = self.world.perform(effect)
                if -self.effects in self.cuts:
                    raise Cut
                reconciler.settle(effect, outcome, self.world.now)
                if isinstance(effect, CreatePod | DeletePod):
                    reconciler.touch_pod(names.pod_name("fw", effect.role, effect.index))


def check_history(before: FrameworkStatus | None, after: FrameworkStatus) -> None:
    """What no two statuses in a row may contradict (guarantees of the Framework API, section 3 and 9)."""
    if before is None:
        assert after.state is State.CREATION_PENDING
        return
    assert after.attempt_status.id >= before.attempt_status.id
    if after.attempt_status.id != before.attempt_status.id:
        return
    assert before.completion is None or before.completion == after.completion
    assert before.attempt_status.config_map_uid in {None, after.attempt_status.config_map_uid}
    olds = {role.name: role for role in before.attempt_status.task_role_statuses or ()}
    for role in after.attempt_status.task_role_statuses or ():
        old_role = olds.get(role.name)
        if old_role is None or old_role.instance_uid != role.instance_uid:
            continue
        for old, new in zip(old_role.task_statuses, role.task_statuses, strict=False):
            if old.instance_uid != new.instance_uid:
                assert old.deletion_pending
                assert old.state is State.COMPLETED
                continue
            assert new.attempt_status.id >= old.attempt_status.id
            assert old.deletion_pending <= new.deletion_pending
            if new.attempt_status.id == old.attempt_status.id:
                assert old.attempt_status.pod_uid in {None, new.attempt_status.pod_uid}
                assert old.completion is None or old.completion == new.completion
                assert reachable(old.state, new.state), f"{old.state} -> {new.state}"
            else:
                assert old.state is State.ATTEMPT_COMPLETED


def reachable(before: State, after: State) -> bool:
    """Whether legal changes lead from one state to the other within an attempt."""
    seen, todo = {before}, [before]
    while todo:
        for following in NEXT[todo.pop()]:
            if following is not State.CREATION_PENDING and following not in seen:
                seen.add(following)
                todo.append(following)
    return after in seen


def place(status: FrameworkStatus) -> dict[str, Any]:
    """Where a run has ended, without what differs from run to run (UIDs and times)."""
    return {
        "state": status.state,
        "code": status.completion.code if status.completion else None,
        "trigger": status.completion.trigger.message if status.completion and status.completion.trigger else None,
        "retried": (
            status.retry_policy_status.total_retried_count,
            status.retry_policy_status.accountable_retried_count,
        ),
        "tasks": {
            f"{role.name}-{task.index}": (
                task.state,
                task.completion.code if task.completion else None,
                task.retry_policy_status.total_retried_count,
                task.retry_policy_status.accountable_retried_count,
                task.deletion_pending,
            )
            for role in status.attempt_status.task_role_statuses or ()
            for task in role.task_statuses
        },
    }
