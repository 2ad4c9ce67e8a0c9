"""A world for one Framework in memory: what the API server, the garbage collector and a kubelet would do, without time.

It proves nothing about Kubernetes (the suite under tests/apiserver does). It makes every order of events repeatable, so
that a run can be cut at each effect and must still end in the same place. What the controller may not do is asserted at
the moment when it does it.
"""

import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from frameworkbarrier.source import roster as barrier_roster
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.meta import Labels, Meta, OwnerReference, Partial
from frameworkcontroller.api.pod import (
    POD_DECODER,
    ContainerState,
    ContainerStatus,
    InitContainerStatus,
    LastState,
    Pod,
    PodCondition,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from frameworkcontroller.api.status import STATUS_DECODER, FrameworkStatus
from frameworkcontroller.api.stored_roles import roles_of
from frameworkcontroller.core.effects import (
    WORKLOAD,
    AskLogs,
    AskProgress,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    FindConfigMap,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    Missing,
    NameTaken,
    OfCompanion,
    Outcome,
    Refused,
    RetainPod,
    SetFinalizers,
    StaleStatus,
    Told,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.machines.retention import has_ended
from frameworkcontroller.core.pods.template import TemplateError
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.requests import status_encoding
from tests.controller.core import checks
from tests.controller.core.archive import Archive
from tests.controller.core.groups import Groups
from tests.controller.core.inplace import HUNG, InPlace, verdict_of
from tests.controller.core.kueue import Kueue
from tests.controller.core.values import core_config, known

Ends = dict[str, list[int | str]]
"""An exit code or "stay" by the name of a Task, for each retry of Framework and Task."""
START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG_MAP = "attempt"
"""The name of the ConfigMap in a plan; a Pod's is `role-index`."""
TERMINAL = {"Succeeded", "Failed"}
OWNER = OwnerReference(kind="Framework", name="fw", uid="framework-uid", controller=True)


def framework_of(text: str) -> dict[str, Any]:
    """A Framework manifest from its spec in YAML."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "fw", "namespace": "ns", "uid": "framework-uid", "generation": 1},
        "spec": msgspec.json.decode(_as_json(text)),
    }


@functools.cache
def _as_json(text: str) -> bytes:
    """Read a spec once: each life begins with one of its own."""
    return msgspec.json.encode(yaml.safe_load(text))


@functools.lru_cache(maxsize=4)
def _status_of(stored: bytes) -> FrameworkStatus:
    """Read a status as it is stored, which is asked for again and again until the next one is written."""
    status = STATUS_DECODER.decode(stored)
    attempt = replace(
        status.attempt_status, task_role_statuses=roles_of(status), task_role_statuses_compressed=msgspec.UNSET
    )
    return replace(status, attempt_status=attempt)


@dataclass
class Plan:
    """What becomes of requests and Pods, by the name of the object."""

    ends: Ends = field(default_factory=dict)
    refuse: dict[str, list[int]] = field(default_factory=dict)
    """The first attempts' creations are refused with these status codes, however often they are asked for."""
    sick: dict[str, int] = field(default_factory=dict)
    """So many first creations fail without an effect."""
    lose: dict[str, int] = field(default_factory=dict)
    """So many first creations that succeed are answered by nothing."""
    hide: dict[str, int] = field(default_factory=dict)
    """So many first instances never appear in a watch; a list has them."""
    slow: set[str] = field(default_factory=set)
    """Pods that take some seconds to start."""
    no_node: dict[str, float] = field(default_factory=dict)
    """For so many seconds these Pods find no node."""
    unready: set[str] = field(default_factory=set)
    """Pods that run and are not Ready."""
    stuck: set[str] = field(default_factory=set)
    """Pods that do not end when they are deleted while they run."""
    keep_none: set[str] = field(default_factory=set)
    """Pods that the controller may not let go."""
    capacity: int = 100
    """Pods that Kueue has room for in the beginning."""
    away: bool = False
    """The archive answers nothing, and lets nothing go."""
    read_seconds: int = 0
    """What the archive takes to read a log."""
    gives_up: dict[str, list[int]] = field(default_factory=dict)
    """The first attempts' barriers exit with these codes, however often the kubelet restarts them; 0 is open."""

    def end(self, task_key: str, attempt: int) -> int | str:
        ends = self.ends.get(task_key, [0])
        return ends[min(attempt, len(ends) - 1)]

    def barrier_exit(self, task_key: str, attempt: int) -> int:
        exits = self.gives_up.get(task_key, [])
        return exits[attempt] if attempt < len(exits) else 0


def is_ready(pod: Pod) -> bool:
    """Whether the kubelet says so."""
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


class World:
    """The objects of one Framework, with what acts on them."""

    def __init__(self, manifest: dict[str, Any], plan: Plan | None = None, config: CoreConfig | None = None) -> None:
        self.manifest = manifest
        self.plan = plan or Plan()
        self.config = config or core_config()
        self.now = START
        self.exists = True
        self.held = False
        """Whether somebody's finalizer holds the Framework."""
        self.in_background = False
        """Whether the Framework is deleted in the background: the garbage collector waits for all finalizers."""
        self.max_status_bytes = 1_500_000
        self.abridges = False
        """Whether each status is stored as one that is too large is: with as little as possible."""
        self.frozen: set[str] = set()
        """Pods that nothing happens to."""
        self.stored: bytes | None = None
        self.config_map: Partial | None = None
        self.pods: dict[str, Pod] = {}
        self.retained: dict[str, Pod] = {}
        """Pods that the controller has let go; the caches do not show them."""
        self.running: dict[str, Pod] = {}
        """What really runs on nodes, by Pod UID: it may outlive its Pod object only by force."""
        self.held_back: set[str] = set()
        """The UIDs of Pods whose barriers gave up and have not let them through since."""
        self.roster: dict[str, Any] | None = None
        self.tampered = False
        """Whether somebody else has changed the ConfigMap since the controller wrote it."""
        self.accounts: tuple[str, ...] = ()
        self.history: Counter[str] = Counter()
        self.made: dict[str, list[str]] = {}
        """The UIDs of all instances so far, by the name that a plan uses."""
        self.persisted_pods: set[str] = set()
        """The UIDs of all Pods that a status has named."""
        self.interfered = False
        """Whether a user has deleted the ConfigMap or the Framework: a creation in flight may come after that."""
        self.progress: dict[str, Any] = {}
        """What the lead of the gang says, at its address if there is an `ip`."""
        self.notes: dict[str, Any] = {}
        """What a script remembers."""
        self.ever_ready: set[str] = set()
        """The UIDs of all Pods that have been Ready."""
        self.asked: set[str] = set()
        """Those whose sidecars were asked whether the application wants to end."""
        self.hung: set[str] = set()
        """Those whose sidecars have ended because their gang hangs."""
        self._failed: Counter[str] = Counter()
        self.rosters: list[dict[str, Any]] = []
        """All that barriers could see of the ConfigMap that is there now, the newest last."""
        self.nodes: dict[str, dict[str, str]] = {}
        """The labels of the nodes that Pods go to in turn, as far as a controller may read them."""
        self.in_place = InPlace(self)
        self.kueue, self.groups, self.archive = Kueue(self), Groups(self), Archive(self)
        self._uids = itertools.count(1)
        self._version = self._status_version = 1
        self._config_map_versions = itertools.count(1)
        self._persisted_members: set[tuple[object, ...]] = set()

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
        return _status_of(self.stored)

    def is_hidden(self, name: str, uid: str) -> bool:
        """Whether no watch ever reports this instance."""
        key = name.removeprefix("fw-")
        return uid in self.made.get(key, [])[: self.plan.hide.get(key, 0)]

    def uid(self) -> str:
        return f"{next(self._uids):04d}-uid"

    # --- the API server ----------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> Outcome:  # noqa: C901, PLR0911, PLR0912 -- one for each effect
        self.history[type(effect).__name__] += 1
        if not self.exists:
            return Missing()
        config_map = None if self.config_map is None else self.config_map.metadata
        match effect:
            case WriteStatus():
                return self._write_status(effect)
            case CreateConfigMap():
                return self._create(CONFIG_MAP, effect.attempt_id, self._create_config_map)
            case DeleteConfigMap(uid) | LabelConfigMap(uid) | WriteRoster(uid) if (
                not config_map or config_map.uid != uid
            ):
                return Missing()
            case DeleteConfigMap():
                self.delete_config_map()
                return Done()
            case CreatePod():
                try:
                    body = effect.body()
                except TemplateError as error:
                    return Refused(422, str(error), sent=False)
                attempts = effect.attempt_id + effect.source.attempt.framework_attempt_id
                return self._create(f"{effect.role}-{effect.index}", attempts, lambda: self._create_pod(effect, body))
            case DeletePod():
                return self._delete_pod(effect)
            case RetainPod():
                return self._retain_pod(effect)
            case FindPod():
                name = names.pod_name("fw", effect.role, effect.index)
                pod = self.pods.get(name) or self.retained.get(name)
                return Missing() if pod is None else Found(pod.metadata, has_ended(pod))
            case FindConfigMap():
                return Missing() if config_map is None else Found(config_map)
            case LabelConfigMap():
                self._change_config_map(labels=Labels(framework="fw"))
                return self._done_with_config_map()
            case WriteRoster():
                return self._write_roster(effect)
            case SetFinalizers():
                return self._set_finalizers(effect)
            case AskLogs():
                return self.archive.answer(effect.uids)
            case AskProgress():
                leads = effect.ip == self.progress.get("ip", effect.ip) and "epoch" in self.progress
                return Told(json.dumps(self.progress).encode() if leads else None)
            case GrantRosterAccess():
                self.accounts = effect.service_accounts
                return Done()
            case OfCompanion():
                return (self.kueue if effect.key == WORKLOAD else self.groups).perform(effect)
            case DeleteFramework():
                self.delete_framework()
                return Done()

    def _write_status(self, effect: WriteStatus) -> Outcome:
        if int(effect.resource_version) < self._status_version:
            return StaleStatus()  # if only the rest has changed, it is sent upon that
        before = None if self.stored is None else self.status
        document = msgspec.json.encode(effect.status)
        if len(document) > self.max_status_bytes:
            return Refused(413, "etcdserver: request is too large")
        if self.abridges:
            document = status_encoding.compress(effect.status, status_encoding.LIMIT_BYTES)
        self.stored = document
        self._version += 1
        self._status_version = self._version
        checks.history(before, self.status)
        checks.beginnings(self, before, self.status)
        for role in self.status.attempt_status.task_role_statuses or ():
            for task in role.task_statuses:
                attempt = task.attempt_status
                self.persisted_pods.add(attempt.pod_uid or "")
                member = (role.name, task.index, attempt.id, (attempt.pod_uid or "")[:8], attempt.pod_ip)
                self._persisted_members.add(member)
        return Done(resource_version=str(self._version))

    def _set_finalizers(self, effect: SetFinalizers) -> Outcome:
        if effect.resource_version != str(self._version):
            return Missing()
        finalizers = msgspec.json.decode(effect.finalizers, type=tuple[str, ...])
        added = set(finalizers) - set(self.finalizers)
        assert not (added and "deletionTimestamp" in self.manifest["metadata"]), "the API server forbids it"
        self.change_finalizers(finalizers)
        return Done(resource_version=str(self._version))

    def _create(self, key: str, attempt: int, create: Callable[[], str]) -> Outcome:
        self._failed[key] += 1
        if self._failed[key] <= self.plan.sick.get(key, 0):
            return Failed("the server is sick")
        refusals = self.plan.refuse.get(key, [])
        if attempt < len(refusals):
            code = refusals[attempt]
            if key == CONFIG_MAP:
                # No attempt ends for that; the ConfigMap is refused so many times.
                self.plan.refuse[key] = refusals[1:]
            return Refused(code, "refused")
        if (self.config_map is not None) if key == CONFIG_MAP else (f"fw-{key}" in {**self.pods, **self.retained}):
            return NameTaken("the name is in use")
        uid = create()
        instances = self.made.setdefault(key, [])
        instances.append(uid)
        if len(instances) <= self.plan.lose.get(key, 0):
            return Failed("no answer")
        made = self.config_map if key == CONFIG_MAP else None
        return Done(uid, made.metadata.resource_version if made is not None else "1")

    def _create_config_map(self) -> str:
        self.roster, self.tampered, self.rosters = None, False, []
        meta = Meta("fw-attempt", self.uid(), self._next_version(), creation_timestamp=self.stamp)
        self.config_map = Partial(replace(meta, owner_references=(OWNER,), labels=Labels(framework="fw")))
        return meta.uid

    def _create_pod(self, _effect: CreatePod, made: bytes) -> str:
        body = msgspec.json.decode(made)
        body["metadata"] |= {"uid": self.uid(), "resourceVersion": "1", "creationTimestamp": self.stamp}
        self.groups.take_in(body)
        pod = POD_DECODER.decode(msgspec.json.encode(body))
        self.pods[pod.metadata.name] = pod
        return pod.metadata.uid

    def _delete_pod(self, effect: DeletePod) -> Outcome:
        name = names.pod_name("fw", effect.role, effect.index)
        if name in self.retained and self.retained[name].metadata.uid == effect.uid:
            del self.retained[name]
            return Done()
        pod = self.pods.get(name)
        if pod is None or pod.metadata.uid != effect.uid:
            return Missing()
        assert pod.metadata.controller is not None, "this is a foreign Pod"
        if effect.grace_seconds == 0:
            # The user gives up the guarantee: what still runs on the node does not count.
            del self.pods[name]
            self.running.pop(effect.uid, None)
        else:
            self.terminate(name)
        return Done()

    def _retain_pod(self, effect: RetainPod) -> Outcome:
        name = names.pod_name("fw", effect.role, effect.index)
        pod = self.pods.get(name)
        if pod is None or pod.metadata.uid != effect.uid:
            return Missing()
        if name.removeprefix("fw-") in self.plan.keep_none:
            return Refused(403, "pods is forbidden")
        assert pod.status.phase in TERMINAL
        assert effect.uid not in self.running
        del self.pods[name]
        labels = replace(pod.metadata.labels, retained="true")
        self.retained[name] = replace(pod, metadata=replace(pod.metadata, labels=labels, owner_references=(OWNER,)))
        return Done()

    def terminate(self, name: str) -> None:
        """Delete a Pod as the API server does: at once if nothing runs any more, else the kubelet confirms it."""
        pod = self.pods[name]
        if pod.status.phase in TERMINAL:
            del self.pods[name]
        elif pod.metadata.deletion_timestamp is None:
            due = self.stamp + timedelta(seconds=30)
            meta = replace(pod.metadata, deletion_timestamp=due, deletion_grace_period_seconds=30)
            self.pods[name] = replace(pod, metadata=meta)

    def _write_roster(self, effect: WriteRoster) -> Outcome:
        roster, annotations = msgspec.json.decode(effect.document), {names.ROSTER_ANNOTATION: effect.annotation}
        if (roster, annotations) != (self.roster, known(self.config_map).metadata.annotations):
            # An object that a request does not change keeps its version.
            self._change_config_map(annotations=annotations)
            self.roster = roster
        self.tampered = False
        assert self.roster is not None
        self.rosters.append(self.roster)
        checks.epoch_of_a_roster(self, self.roster)
        barrier_roster.decode(effect.document.decode())  # no barrier refuses it
        for role in self.roster.get("taskRoles", ()):
            for index, ip, uid8, attempt, *_ in role["tasks"]:
                # The roster speaks only of what the status has contained.
                assert (role["name"], index, attempt, uid8, ip) in self._persisted_members
        return self._done_with_config_map()

    def _done_with_config_map(self) -> Done:
        return Done(resource_version=known(self.config_map).metadata.resource_version)

    # --- users -------------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> dict[str, Any]:
        """The spec, to be changed in place; call `edited` after that."""
        spec = self.manifest["spec"]
        assert isinstance(spec, dict)
        return spec

    @property
    def kept_seconds(self) -> int:
        """How long this Framework is kept once it is completed."""
        ttl: int | None = self.spec.get("ttlSecondsAfterFinished")
        return self.config.framework_completed_retain_sec if ttl is None else ttl

    def edited(self) -> None:
        """The user has changed the spec."""
        self.manifest["metadata"]["generation"] += 1

    def stop(self) -> None:
        """The user stops the Framework."""
        if self.spec.get("executionType") != "Stop":
            self.spec["executionType"] = "Stop"
            self.edited()

    def unlabel_pod(self, name: str) -> None:
        """Remove the label by which the controller finds the Pod."""
        pod = self.pods[name]
        labels = replace(pod.metadata.labels, framework=None)
        self.pods[name] = replace(pod, metadata=replace(pod.metadata, labels=labels))

    def tamper(self, annotation: str | None = None) -> None:
        """Change the roster, and the annotation that sums it up if there is a new one."""
        if self.config_map is None:
            return
        notes = {} if annotation is None else {"annotations": {names.ROSTER_ANNOTATION: annotation}}
        self._change_config_map(**notes)
        self.roster, self.tampered = {"complete": True, "taskRoles": []}, True
        self.rosters.append(self.roster)

    def annotate_config_map(self) -> None:
        """Somebody changes what is none of the controller's concern."""
        self._change_config_map()

    def unlabel_config_map(self) -> None:
        """Remove the label by which the controller finds the ConfigMap."""
        self._change_config_map(labels=Labels())

    def _change_config_map(self, **changes: Any) -> None:
        """Change the metadata of the ConfigMap, if there is one."""
        if self.config_map is not None:
            meta = replace(self.config_map.metadata, resource_version=self._next_version(), **changes)
            self.config_map = Partial(meta)

    def _next_version(self) -> str:
        return str(next(self._config_map_versions))

    @property
    def finalizers(self) -> tuple[str, ...]:
        return tuple(self.manifest["metadata"].get("finalizers", ()))

    def change_finalizers(self, finalizers: Iterable[str]) -> None:
        """Somebody sets the finalizers of the Framework."""
        self.manifest["metadata"]["finalizers"] = list(finalizers)
        self._version += 1

    def delete_in_background(self) -> None:
        """As kubectl does."""
        self.in_background = True
        self.delete_framework()

    def delete_framework(self) -> None:
        """Foreground."""
        self.manifest["metadata"].setdefault("deletionTimestamp", self.stamp)

    def delete_config_map(self) -> None:
        """Foreground, as its finalizer says."""
        if self.config_map is not None and self.config_map.metadata.deletion_timestamp is None:
            self.config_map = Partial(replace(self.config_map.metadata, deletion_timestamp=self.stamp))

    # --- kubelets and the garbage collector --------------------------------------------------------------------------

    def tick(self) -> bool:
        """A second passes: Pods move on, deletions end, garbage is collected. Returns whether anything changed."""
        self.now += timedelta(seconds=1)
        moved = [self.live(name) for name in list(self.pods)]
        others = (self.kueue.live(), self.groups.live(), self.archive.live())
        return any([*moved, *others, self.collect(), self.groups.collect()])

    def collect(self) -> bool:
        """The garbage collector looks at everything once."""
        changed = False
        waits = self.in_background and self.finalizers
        if "deletionTimestamp" in self.manifest["metadata"] and self.exists and not waits:
            if self.config_map is None:
                self.exists = self.held or bool(self.finalizers)
                changed = not self.exists
                self.retained.clear()
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
        if name in self.frozen:
            return False
        pod = self.pods[name]
        task_key = name.removeprefix("fw-")
        if pod.metadata.deletion_timestamp is not None:
            if task_key in self.plan.stuck and pod.metadata.uid in self.running:
                return False
            self.running.pop(pod.metadata.uid, None)
            del self.pods[name]
            return True
        if pod.metadata.controller is None:
            return False
        return self.in_place.live(name) if self.in_place.takes_part(pod) else self._live_alone(name)

    def _live_alone(self, name: str) -> bool:
        """The kubelet goes on with a Pod that does not restart in place."""
        pod, task_key = self.pods[name], name.removeprefix("fw-")
        annotations = pod.metadata.annotations
        attempts = int(annotations[names.FRAMEWORK_ATTEMPT_ID]) + int(annotations[names.TASK_ATTEMPT_ID])
        end = self.plan.end(task_key, attempts)
        if pod.status.phase == "Pending":
            code = self.plan.barrier_exit(task_key, attempts)
            if code:
                waits = pod.status.init_container_statuses[:1] and pod.status.init_container_statuses[0].state.waiting
                self.restart_barrier(name, code, runs=bool(waits))
                return True
            if (news := self._held_up(name)) is not None:
                return news
            status = PodStatus(
                phase="Running",
                pod_ip=f"10.0.0.{len(task_key)}",
                host_ip="10.1.0.1",
                init_container_statuses=self._opened(pod),
                container_statuses=(ContainerStatus("main", ContainerState(running=Running())),),
            )
            pod = replace(pod, spec=replace(pod.spec, node_name=self.node_of(name)))
            self.held_back.discard(pod.metadata.uid)
            self.running[pod.metadata.uid] = pod
        elif pod.status.phase == "Running" and is_ready(pod) is (task_key in self.plan.unready):
            ready = not is_ready(pod)
            self.ever_ready |= {pod.metadata.uid} if ready else set()
            status = replace(pod.status, conditions=(PodCondition("Ready", str(ready)),))
        elif pod.status.phase == "Running" and (wants := self._wants_to_end(pod, end)) is not None:
            if wants is pod.status.init_container_statuses[0].ready:
                return False
            (barrier,) = pod.status.init_container_statuses
            status = replace(pod.status, init_container_statuses=(replace(barrier, ready=wants),))
        elif pod.status.phase == "Running" and (verdict := verdict_of(end, 0)) and pod.metadata.uid not in self.hung:
            self.hung.add(pod.metadata.uid)
            (barrier,) = pod.status.init_container_statuses
            last = LastState(Terminated(exit_code=HUNG, message=verdict, finished_at=self.stamp))
            barrier = replace(barrier, last_state=last, restart_count=1)
            status = replace(pod.status, init_container_statuses=(barrier,))
        elif pod.status.phase == "Running" and isinstance(end, int):
            finished = ContainerState(terminated=Terminated(exit_code=end, finished_at=self.stamp))
            status = replace(
                pod.status,
                phase="Failed" if end else "Succeeded",
                container_statuses=(ContainerStatus("main", finished),),
                conditions=(PodCondition("Ready", "False"),),
            )
            self.running.pop(pod.metadata.uid, None)
        else:
            return False
        self.pods[name] = replace(pod, status=status)
        return True

    def _wants_to_end(self, pod: Pod, end: object) -> bool | None:
        """Whether the sidecar of an application that ends together with others is ready, None if it is not held."""
        if pod.metadata.annotations.get(names.EXIT_ANNOTATION) != names.TOGETHER:
            return None
        if pod.metadata.uid not in self.asked:
            self.asked.add(pod.metadata.uid)
            return True
        return False if end == 0 and not (self.roster or {}).get("mayEnd") else None

    def _held_up(self, name: str) -> bool | None:
        """Whether it is news that the Pod does not start yet, None if it may start."""
        task_key, since = name.removeprefix("fw-"), self.pods[name].metadata.creation_timestamp or START
        if self.groups.holds(self.pods[name].metadata.uid):
            return False
        if self.now < since + timedelta(seconds=self.plan.no_node.get(task_key, 0)):
            return self.lack_node(name, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
        return False if task_key in self.plan.slow and self.now < since + timedelta(seconds=4) else None

    def node_of(self, name: str) -> str:
        """The node to which a Pod goes."""
        return [*self.nodes, "node-1"][int(name.rpartition("-")[2]) % (len(self.nodes) or 1)]

    def lack_node(self, name: str, message: str) -> bool:
        """The scheduler says why a Pod has no node; whether that is news."""
        pod = self.pods[name]
        conditions = (PodCondition("PodScheduled", "False", "Unschedulable", message),)
        self.pods[name] = replace(pod, status=replace(pod.status, conditions=conditions))
        return self.pods[name] != pod

    def restart_barrier(self, name: str, code: int, *, runs: bool) -> None:
        """The barrier of a Pod that has not started ends with this code, and the kubelet restarts it."""
        pod = self.pods[name]
        state = ContainerState(running=Running()) if runs else ContainerState(waiting=Waiting("CrashLoopBackOff"))
        last = LastState(Terminated(exit_code=code, finished_at=self.stamp))
        count = next((one.restart_count for one in pod.status.init_container_statuses), 0)
        barrier = InitContainerStatus(names.BARRIER_CONTAINER, state, last, restart_count=count + runs)
        self.pods[name] = replace(pod, status=replace(pod.status, init_container_statuses=(barrier,)))
        (self.held_back.add if code in {201, 210} else self.held_back.discard)(pod.metadata.uid)

    def _opened(self, pod: Pod) -> tuple[InitContainerStatus, ...]:
        """The barrier, if there is one, has let the Pod through, as an init container or as a sidecar."""
        sidecars = [one.restart_policy == "Always" for one in pod.spec.init_containers]
        if not sidecars:
            return ()
        opened = ContainerState(running=Running()) if sidecars[0] else ContainerState(terminated=Terminated())
        last = next((one.last_state for one in pod.status.init_container_statuses), LastState())
        return (InitContainerStatus(names.BARRIER_CONTAINER, opened, last, started=sidecars[0]),)
