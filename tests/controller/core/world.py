"""A world for one Framework in memory: what the API server, the garbage collector and a kubelet would do, without time.

It proves nothing about Kubernetes (the suite under tests/apiserver does). It makes every order of events repeatable, so
that a run can be cut at each effect and must still end in the same place. What the controller may not do is asserted at
the moment when it does it.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec.structs import replace

from frameworkcontroller.api import names
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

from . import checks

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG_MAP = "attempt"
"""How a plan calls the ConfigMap; a Pod is called by ``role-index``."""
TERMINAL = {"Succeeded", "Failed"}


def framework_of(text: str) -> dict[str, Any]:
    """A Framework manifest from its spec in YAML."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "fw", "namespace": "ns", "uid": "framework-uid", "generation": 1},
        "spec": yaml.safe_load(text),
    }


@dataclass
class Plan:
    """What becomes of requests and Pods, by the name of the object."""

    ends: dict[str, list[int | str]] = field(default_factory=dict)
    """An exit code or "stay", for each retry of Framework and Task."""
    refuse: dict[str, list[int]] = field(default_factory=dict)
    """The first attempts' creations are refused with these status codes, however often they are asked for."""
    sick: dict[str, int] = field(default_factory=dict)
    """So many first creations fail without an effect."""
    lose: dict[str, int] = field(default_factory=dict)
    """So many first creations that succeed are answered by nothing."""
    hide: dict[str, int] = field(default_factory=dict)
    """So many first instances never show up in a watch; a list has them."""
    slow: set[str] = field(default_factory=set)
    """Pods that take some seconds to start."""
    stuck: set[str] = field(default_factory=set)
    """Pods that do not end when they are deleted while they run."""

    def end(self, slot: str, attempt: int) -> int | str:
        ends = self.ends.get(slot, [0])
        return ends[min(attempt, len(ends) - 1)]


class World:
    """The objects of one Framework, with what acts on them."""

    def __init__(self, manifest: dict[str, Any], plan: Plan | None = None, config: CoreConfig | None = None) -> None:
        self.manifest = manifest
        self.plan = plan or Plan()
        self.config = config or CoreConfig()
        self.now = START
        self.exists = True
        self.stored: bytes | None = None
        self.config_map: Partial | None = None
        self.pods: dict[str, Pod] = {}
        self.running: dict[str, Pod] = {}
        """What really runs on nodes, by Pod UID: it may outlive its Pod object only by force."""
        self.roster: dict[str, Any] | None = None
        self.accounts: tuple[str, ...] = ()
        self.history: Counter[str] = Counter()
        self.made: dict[str, list[str]] = {}
        """The UIDs of all instances so far, by the name that a plan uses."""
        self.recorded: set[str] = set()
        """The UIDs of all Pods that a status has shown."""
        self.interfered = False
        """Whether somebody else has deleted the ConfigMap or the Framework: a creation under way may come after it."""
        self.notes: dict[str, Any] = {}
        """What a script keeps for itself."""
        self._failed: Counter[str] = Counter()
        self._uids = itertools.count(1)
        self._version = 1
        self._members_shown: set[tuple[object, ...]] = set()

    # --- what is seen ------------------------------------------------------------------------------------------------

    @property
    def stamp(self) -> datetime:
        """Now, as Kubernetes writes it."""
        return self.now.replace(microsecond=0)

    @property
    def framework(self) -> Framework:
        meta = self.manifest["metadata"] | {"resourceVersion": str(self._version)}
        seen = FRAMEWORK_DECODER.decode(msgspec.json.encode(self.manifest | {"metadata": meta}))
        return replace(seen, status=msgspec.Raw(self.stored or b""))

    @property
    def status(self) -> FrameworkStatus:
        assert self.stored is not None
        return STATUS_DECODER.decode(self.stored)

    def is_hidden(self, name: str, uid: str) -> bool:
        """Whether no watch ever tells of this instance."""
        key = name.removeprefix("fw-")
        return uid in self.made.get(key, [])[: self.plan.hide.get(key, 0)]

    def reconciler(self) -> FrameworkReconciler:
        return FrameworkReconciler(self.framework, self.config, new_uid=self.uid, draw=random.Random(7).random)

    def uid(self) -> str:
        return f"{next(self._uids):04d}-uid"

    # --- the API server ----------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> Outcome:  # noqa: PLR0911 - one for each effect
        self.history[type(effect).__name__] += 1
        if not self.exists:
            return Missing()
        match effect:
            case WriteStatus():
                return self._write_status(effect)
            case CreateConfigMap():
                return self._create(CONFIG_MAP, effect.attempt_id, self._create_config_map)
            case DeleteConfigMap():
                return self._delete_config_map(effect)
            case CreatePod():
                attempts = effect.attempt_id + effect.template._attempt.framework_attempt_id
                return self._create(f"{effect.role}-{effect.index}", attempts, lambda: self._create_pod(effect))
            case DeletePod():
                return self._delete_pod(effect)
            case WriteRoster():
                return self._write_roster(effect)
            case GrantRosterAccess():
                self.accounts = effect.service_accounts
                return Done()
            case DeleteFramework():
                self.delete_framework()
                return Done()

    def _write_status(self, effect: WriteStatus) -> Outcome:
        if effect.resource_version != str(self._version):
            return Outpaced()
        before = None if self.stored is None else self.status
        self.stored = msgspec.json.encode(effect.status)
        self._version += 1
        checks.history(before, self.status)
        for role in self.status.attempt_status.task_role_statuses or ():
            for task in role.task_statuses:
                attempt = task.attempt_status
                self.recorded.add(attempt.pod_uid or "")
                member = (role.name, task.index, attempt.id, (attempt.pod_uid or "")[:8], attempt.pod_ip)
                self._members_shown.add(member)
        return Done(resource_version=str(self._version))

    def _create(self, key: str, attempt: int, create: Callable[[], str]) -> Outcome:
        self._failed[key] += 1
        if self._failed[key] <= self.plan.sick.get(key, 0):
            return Failed("the server is sick")
        refusals = self.plan.refuse.get(key, [])
        if attempt < len(refusals):
            code = refusals[attempt]
            if key == CONFIG_MAP:
                # No attempt ends for that: it is refused so many times.
                self.plan.refuse[key] = refusals[1:]
            return Refused(code, "refused")
        if (self.config_map is not None) if key == CONFIG_MAP else (f"fw-{key}" in self.pods):
            return Failed("the name is in use")
        uid = create()
        instances = self.made.setdefault(key, [])
        instances.append(uid)
        if len(instances) <= self.plan.lose.get(key, 0):
            return Failed("no answer")
        return Done(uid=uid)

    def _create_config_map(self) -> str:
        uid = self.uid()
        owner = OwnerReference(kind="Framework", name="fw", uid="framework-uid", controller=True)
        self.config_map = Partial(
            Meta("fw-attempt", uid, "1", creation_timestamp=self.stamp, owner_references=(owner,))
        )
        return uid

    def _create_pod(self, effect: CreatePod) -> str:
        body = msgspec.json.decode(effect.body())
        body["metadata"] |= {"uid": self.uid(), "resourceVersion": "1", "creationTimestamp": self.stamp}
        pod = POD_DECODER.decode(msgspec.json.encode(body))
        self.pods[pod.metadata.name] = pod
        return pod.metadata.uid

    def _delete_pod(self, effect: DeletePod) -> Outcome:
        name = names.pod_name("fw", effect.role, effect.index)
        pod = self.pods.get(name)
        if pod is None or pod.metadata.uid != effect.uid:
            return Missing()
        assert pod.metadata.controller is not None, "this is somebody else's Pod"
        if effect.grace_seconds == 0:
            # At the cost of the guarantee, as its user wants; whatever still runs there is no matter of ours.
            del self.pods[name]
            self.running.pop(effect.uid, None)
        else:
            self.terminate(name)
        return Done()

    def terminate(self, name: str) -> None:
        """What the API server does on a deletion: at once if nothing runs any more, else the kubelet has the word."""
        pod = self.pods[name]
        if pod.status.phase in TERMINAL:
            del self.pods[name]
        elif pod.metadata.deletion_timestamp is None:
            meta = replace(
                pod.metadata, deletion_timestamp=self.stamp + timedelta(seconds=30), deletion_grace_period_seconds=30
            )
            self.pods[name] = replace(pod, metadata=meta)

    def _delete_config_map(self, effect: DeleteConfigMap) -> Outcome:
        if self.config_map is None or self.config_map.metadata.uid != effect.uid:
            return Missing()
        self.delete_config_map()
        return Done()

    def _write_roster(self, effect: WriteRoster) -> Outcome:
        if self.config_map is None or self.config_map.metadata.uid != effect.config_map_uid:
            return Missing()
        meta = replace(self.config_map.metadata, annotations={names.ROSTER_ANNOTATION: effect.annotation})
        self.config_map, self.roster = Partial(meta), msgspec.json.decode(effect.document)
        assert self.roster is not None
        for role in self.roster.get("taskRoles", ()):
            for index, ip, uid8, attempt, *_ in role["tasks"]:
                # The roster speaks only of what the status has shown.
                assert (role["name"], index, attempt, uid8, ip) in self._members_shown
        return Done()

    # --- users -------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> dict[str, Any]:
        """The spec, to be changed in place; call `edited` after that."""
        spec = self.manifest["spec"]
        assert isinstance(spec, dict)
        return spec

    def edited(self) -> None:
        """The user has changed the spec."""
        self.manifest["metadata"]["generation"] += 1

    def stop(self) -> None:
        """The user wants it to end."""
        if self.spec.get("executionType") != "Stop":
            self.spec["executionType"] = "Stop"
            self.edited()

    def delete_framework(self) -> None:
        """Foreground."""
        self.manifest["metadata"].setdefault("deletionTimestamp", self.stamp)

    def delete_config_map(self) -> None:
        """Foreground, as its finalizer says."""
        if self.config_map is not None and self.config_map.metadata.deletion_timestamp is None:
            self.config_map = Partial(replace(self.config_map.metadata, deletion_timestamp=self.stamp))

    # --- everybody else ----------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """A second passes: Pods move on, deletions end, garbage is collected. Returns whether anything changed."""
        self.now += timedelta(seconds=1)
        moved = [self.live(name) for name in list(self.pods)]
        return any([*moved, self.collect()])

    def collect(self) -> bool:
        """The garbage collector looks at everything once."""
        changed = False
        if "deletionTimestamp" in self.manifest["metadata"] and self.exists:
            if self.config_map is None:
                self.exists, changed = False, True
            elif self.config_map.metadata.deletion_timestamp is None:
                self.delete_config_map()
                changed = True
        owner = self.config_map
        for name, pod in list(self.pods.items()):
            controller = pod.metadata.controller
            if controller is None:
                continue
            orphan = owner is None or controller.uid != owner.metadata.uid
            going = owner is not None and owner.metadata.deletion_timestamp is not None
            if (orphan or going) and pod.metadata.deletion_timestamp is None:
                self.terminate(name)
                changed = True
        held = any(pod.metadata.controller is not None for pod in self.pods.values())
        if owner is not None and owner.metadata.deletion_timestamp is not None and not held:
            self.config_map, changed = None, True
        return changed

    def live(self, name: str) -> bool:
        """The kubelet of this Pod does its next thing."""
        pod = self.pods[name]
        slot = name.removeprefix("fw-")
        if pod.metadata.deletion_timestamp is not None:
            if slot in self.plan.stuck and pod.metadata.uid in self.running:
                return False
            self.running.pop(pod.metadata.uid, None)
            del self.pods[name]
            return True
        annotations = pod.metadata.annotations
        if pod.metadata.controller is None:
            return False
        attempts = int(annotations[names.FRAMEWORK_ATTEMPT_ID]) + int(annotations[names.TASK_ATTEMPT_ID])
        end = self.plan.end(slot, attempts)
        if pod.status.phase == "Pending":
            if slot in self.plan.slow and self.now < (pod.metadata.creation_timestamp or START) + timedelta(seconds=4):
                return False
            status = PodStatus(phase="Running", pod_ip=f"10.0.0.{len(slot)}", host_ip="10.1.0.1")
            self.running[pod.metadata.uid] = pod
        elif pod.status.phase == "Running" and isinstance(end, int):
            finished = Terminated(exit_code=end, finished_at=self.stamp)
            containers = (ContainerStatus("main", ContainerState(terminated=finished)),)
            status = replace(pod.status, phase="Failed" if end else "Succeeded", container_statuses=containers)
            self.running.pop(pod.metadata.uid, None)
        else:
            return False
        self.pods[name] = replace(pod, status=status)
        return True
