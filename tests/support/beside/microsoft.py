"""What Microsoft's controller leaves behind when it is stopped: Frameworks with their ConfigMaps and Pods.

`leave` puts one into a cluster, for `operate/test_migration_states.py`. Names, fields, annotations, labels and
owners are those of docs/reference/framework-api.md without what is marked there as added.
"""

import gzip
import json
import uuid
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final

from frameworkcontroller.api.states import ENDED, State
from localcluster.client import Json, RawClient
from testkit.frameworks import Frameworks, role
from tests.support.beside.kubelet import Kubelet

# By the code: phrase, attributes of the type, diagnostics.
_COMPLETIONS: Final[dict[int, tuple[str, list[str] | None, str]]] = {
    0: ("Succeeded", None, "Pod succeeded"),
    1: ("ContainerUnrecognizedFailed", None, "Pod failed: PodPattern unmatched: {}"),
    200: ("ContainerTransientFailed", ["Transient"], "Pod failed: PodPattern matched: {}"),
    201: ("ContainerTransientConflictFailed", ["Transient", "Conflict"], "Pod failed: PodPattern matched: {}"),
    -101: ("PodExternalDeleted", ["Transient"], "Pod is being deleted by others"),
    -210: ("StopFrameworkRequested", ["Permanent"], "User has requested to stop the Framework"),
    -220: ("FrameworkAttemptCompletion", ["Permanent"], "Stop to complete current FrameworkAttempt"),
    -230: ("DeleteTaskRequested", ["Permanent"], "User has requested to delete the Task by Framework ScaleDown"),
}


class Thing(Enum):
    """A Pod or a ConfigMap, as it was left."""

    ABSENT = auto()
    GONE = auto()  # the status has its UID
    UNRECORDED = auto()  # it was created, and its UID was not written any more
    THERE = auto()  # a Pod is Pending
    RUNNING = auto()
    SUCCEEDED = auto()
    KILLED = auto()  # the Pod has Failed with the exit code 143 while no controller ran
    DELETING = auto()  # it has a deletionTimestamp; a Pod still runs


@dataclass(frozen=True)
class Task:
    """A Task as it was left."""

    state: State
    pod: Thing = Thing.ABSENT
    attempt: int = 0  # all before it count as accountable retries
    code: int | None = None  # the completion code of the attempt, once its end is decided
    deletion_pending: bool = False  # a rescale wants it gone


@dataclass(frozen=True)
class Left:
    """A Framework as it was left, with one TaskRole, which has its name."""

    state: State | None  # None if the controller has not seen it
    tasks: tuple[Task, ...] = ()
    config_map: Thing = Thing.ABSENT
    attempt: int = 0  # all before it count as accountable retries
    code: int | None = None  # the completion code of the attempt, once its end is decided
    delay: int | None = None  # the decided delay of the retry in seconds
    age: timedelta = timedelta(hours=1)  # the time since it has entered the state
    fancy: bool = False  # its retry policy, and that of its Tasks
    retries: int = 0  # `maxRetryCount` of both
    more: Json = field(default_factory=dict)  # other fields of the spec
    number: int | None = None  # `taskNumber`, if that is not the number of the Tasks
    compressed: bool = False  # its status
    init: tuple[Json, ...] = ()  # init containers of the Pods
    foreground_deletion: bool = False  # somebody has deleted it


def leave(raw: RawClient, kubelet: Kubelet, namespace: str, name: str, left: Left) -> dict[int, str]:
    """Put a Framework into a cluster with Microsoft's definition as it was left; return its Pods' UIDs by index."""
    frameworks = Frameworks(raw, namespace)
    policy = {"fancyRetryPolicy": left.fancy, "maxRetryCount": left.retries}
    pod: Json = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "resources": {}}]}
    if left.init:
        pod["initContainers"] = list(left.init)
    template: Json = {"metadata": {"creationTimestamp": None}, "spec": pod}
    completion = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    task: Json = {"retry": policy, "completion": completion, "pod": template, "podGracefulDeletionTimeoutSec": None}
    wanted = role(name, len(left.tasks) if left.number is None else left.number, **task)
    spec = {"description": "", "executionType": "Start", "retryPolicy": policy, **left.more}
    owner = frameworks.create(name, wanted, **spec)
    if left.state is None:
        return {}
    collection = f"/api/v1/namespaces/{namespace}"
    made = Made(raw, kubelet, name, owner, template, left)
    config_map = made.config_map(f"{collection}/configmaps")
    pods = {index: made.pod(f"{collection}/pods", index, config_map) for index in range(len(left.tasks))}
    raw.replace(f"{frameworks.path}/{name}", owner | {"status": made.status(config_map, pods)})
    if left.config_map is Thing.DELETING:
        raw.delete(f"{collection}/configmaps/{name}-attempt", {"propagationPolicy": "Foreground"})
    if left.foreground_deletion:
        raw.delete(f"{frameworks.path}/{name}", {"propagationPolicy": "Foreground"})
    return {index: uid for index, uid in pods.items() if uid}


@dataclass(frozen=True)
class Made:
    """The objects of one Framework, which has the name of its TaskRole, and the template of its Pods."""

    raw: RawClient
    kubelet: Kubelet
    name: str
    owner: Json
    template: Json
    left: Left
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    def _facts(self) -> Json:
        return {
            "FC_FRAMEWORK_NAMESPACE": self.owner["metadata"]["namespace"],
            "FC_FRAMEWORK_NAME": self.name,
            "FC_CONFIGMAP_NAME": f"{self.name}-attempt",
            "FC_FRAMEWORK_UID": self.owner["metadata"]["uid"],
            "FC_FRAMEWORK_ATTEMPT_ID": str(self.left.attempt),
        }

    def config_map(self, collection: str) -> str | None:
        """Create the ConfigMap, and return the UID that the attempt has or had."""
        if self.left.config_map in {Thing.ABSENT, Thing.GONE}:
            return str(uuid.uuid4()) if self.left.config_map is Thing.GONE else None
        metadata = {
            "name": f"{self.name}-attempt",
            "annotations": self._facts(),
            "labels": {"FC_FRAMEWORK_NAME": self.name},
            "finalizers": ["foregroundDeletion"],
            "ownerReferences": [_owner(self.owner["apiVersion"], "Framework", self.owner["metadata"])],
        }
        return str(self.raw.create(collection, {"metadata": metadata})["metadata"]["uid"])

    def pod(self, collection: str, index: int, config_map: str | None) -> str | None:
        """Create the Pod of a Task and let it come as far as it was; return the UID that the Task has or had."""
        task = self.left.tasks[index]
        if task.pod in {Thing.ABSENT, Thing.GONE}:
            return str(uuid.uuid4()) if task.pod is Thing.GONE else None
        name = f"{self.name}-{self.name}-{index}"
        labels = {"FC_FRAMEWORK_NAME": self.name, "FC_TASKROLE_NAME": self.name, "FC_TASK_INDEX": str(index)}
        facts = {
            **self._facts(),
            **labels,
            "FC_POD_NAME": name,
            "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{self.left.attempt}_{config_map}",
            "FC_CONFIGMAP_UID": str(config_map),
            "FC_TASKROLE_UID": str(uuid.uuid4()),
            "FC_TASK_UID": str(uuid.uuid4()),
            "FC_TASK_ATTEMPT_ID": str(task.attempt),
        }
        owner = _owner("v1", "ConfigMap", {"name": f"{self.name}-attempt", "uid": config_map})
        metadata = {"name": name, "annotations": facts, "labels": labels, "ownerReferences": [owner]}
        pod = self.raw.create(collection, {"metadata": metadata, "spec": self.template["spec"]})
        if task.pod not in {Thing.THERE, Thing.UNRECORDED}:
            self.kubelet.run(pod)
        match task.pod:
            case Thing.SUCCEEDED:
                self.kubelet.succeed(pod)
            case Thing.KILLED:
                self.kubelet.fail(pod, 143)
            case Thing.DELETING:
                self.raw.delete(f"{collection}/{name}")
        return str(pod["metadata"]["uid"])

    def status(self, config_map: str | None, pods: dict[int, str | None]) -> Json:
        """Return the status of the Framework."""
        left = self.left
        recorded = None if left.config_map is Thing.UNRECORDED else config_map
        tasks = [self._task(index, task, pods[index]) for index, task in enumerate(left.tasks)]
        only = {"name": self.name, "instanceUID": str(uuid.uuid4()), "podGracefulDeletionTimeoutSec": None}
        roles = [{**only, "taskStatuses": tasks}]
        own: Json = {"configMapName": f"{self.name}-attempt", "configMapUID": recorded, "taskRoleStatuses": roles}
        if left.compressed:
            packed = b64encode(gzip.compress(json.dumps(roles).encode())).decode()
            own |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": packed}
        status = self._common(left.state, left.attempt, left.code, recorded, own, left.delay)
        if left.code not in {None, -210}:
            trigger = {"message": "why", "taskRoleName": self.name, "taskIndex": 0}
            status["attemptStatus"]["completionStatus"]["trigger"] = trigger
        return status

    def _task(self, index: int, task: Task, uid: str | None) -> Json:
        recorded = None if task.pod is Thing.UNRECORDED else uid
        # What the controller has seen of the Pod is there from AttemptPreparing on.
        seen = "" if recorded is not None and task.state is not State.CREATION_REQUESTED else None
        own = {"podName": f"{self.name}-{self.name}-{index}", "podUID": recorded}
        own |= dict.fromkeys(("podNodeName", "podIP", "podHostIP"), seen)
        facts = {"index": index, "instanceUID": str(uuid.uuid4()), "deletionPending": task.deletion_pending}
        return {**facts, **self._common(task.state, task.attempt, task.code, recorded, own)}

    def _common(
        self, state: State | None, attempt: int, code: int | None, uid: str | None, own: Json, delay: int | None = None
    ) -> Json:
        """Return what the statuses of a Framework and of a Task have in common, with its own fields of the attempt."""
        ages = (self.left.age, self.left.age + timedelta(minutes=10))
        entered, began = ((self.since - age).strftime("%Y-%m-%dT%H:%M:%SZ") for age in ages)
        ran = None if state in {State.CREATION_PENDING, State.CREATION_REQUESTED, State.PREPARING} else began
        times = {"startTime": began, "runTime": ran, "completionTime": entered if state in ENDED else None}
        end = None
        if code is not None:
            phrase, attributes, diagnostics = _COMPLETIONS[code]
            kind = {"name": "Failed" if code else "Succeeded", "attributes": attributes}
            end = {"code": code, "phrase": phrase, "type": kind, "diagnostics": diagnostics}
        instance = f"{attempt}_{uid}" if uid else None
        retried = {"totalRetriedCount": attempt, "accountableRetriedCount": attempt, "retryDelaySec": delay}
        return {
            **times,
            "state": state,
            "transitionTime": entered,
            "retryPolicyStatus": retried,
            "attemptStatus": {"id": attempt, **times, "instanceUID": instance, "completionStatus": end, **own},
        }


def _owner(version: str, kind: str, metadata: Json) -> Json:
    names = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": version, "kind": kind, **names, "controller": True, "blockOwnerDeletion": True}
