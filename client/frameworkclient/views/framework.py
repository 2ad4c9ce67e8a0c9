"""What the API server holds of a Framework at one moment, as values for programs and terminals."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self

import msgspec
from msgspec import Raw

from frameworkclient.errors import FailedError
from frameworkclient.model.manifest import Framework
from frameworkcontroller.api import names
from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.framework import Framework as Stored
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.states import ENDED, State
from frameworkcontroller.api.status import (
    Condition,
    FrameworkStatus,
    GangProgress,
    GangRestart,
    Hang,
    TaskCompletion,
    TaskStatus,
)
from frameworkcontroller.api.stored_roles import UnreadableStatusError, roles_of
from frameworkkube import json_parts


@dataclass(frozen=True)
class Result:
    """How a Framework has ended.

    Attributes:
        name: Name of the Framework.
        succeeded: Whether its last attempt succeeded.
        code: The completion code: 0, the exit code of a container, or a negative one of the controller.
        phrase: The code as a word, such as `Succeeded` or `ContainerPermanentFailed`.
        diagnostics: Why, for people.
        task: The Task that decided, such as `worker-1`; "" if none did.
        attempts: Attempts of the Framework, the last one included.
    """

    name: str
    succeeded: bool
    code: int
    phrase: str
    diagnostics: str
    task: str
    attempts: int

    def raise_for_failure(self) -> None:
        """Do nothing if the Framework succeeded.

        Raises:
            FailedError: It has failed; the message says how.
        """
        if not self.succeeded:
            by = f" by {self.task}" if self.task else ""
            raise FailedError(f"Framework {self.name} failed{by}: {self.phrase} ({self.code}): {self.diagnostics}")


@dataclass(frozen=True)
class TaskView:
    """One Task.

    Attributes:
        role: Name of its TaskRole.
        status: Its status; times are aware datetimes in UTC.
    """

    role: str
    status: TaskStatus

    @property
    def index(self) -> int:
        """Its number in its role, from 0."""
        return self.status.index

    @property
    def name(self) -> str:
        """Its role and index, such as `worker-0`."""
        return f"{self.role}-{self.status.index}"

    @property
    def state(self) -> State:
        """Its state."""
        return self.status.state

    @property
    def attempt(self) -> int:
        """The number of its current attempt in the attempt of its Framework, from 0."""
        return self.status.attempt_status.id

    @property
    def pod(self) -> str:
        """The name of its Pod, whether the Pod exists or not."""
        return self.status.attempt_status.pod_name

    @property
    def node(self) -> str:
        """The node of its Pod, "" while there is none."""
        return self.status.attempt_status.pod_node_name or ""

    @property
    def ip(self) -> str:
        """The address of its Pod, "" while there is none."""
        return self.status.attempt_status.pod_ip or ""

    @property
    def completion(self) -> TaskCompletion | None:
        """How its current attempt has ended, None while that is not decided."""
        return self.status.completion

    @property
    def ended(self) -> bool:
        """Whether its attempt is over and its Pod gone."""
        return self.status.state in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether its attempt has ended in success."""
        return self.completion is not None and self.completion.type.name == TypeName.SUCCEEDED


@dataclass(frozen=True)
class RoleView:
    """One TaskRole.

    Attributes:
        name: Its name.
        spec: What is wanted, None for a role that was removed and whose Tasks still go.
        tasks: Its Tasks by index.
        waits: Whether it waits for other roles (`dependsOn`).
    """

    name: str
    spec: TaskRoleSpec | None
    tasks: tuple[TaskView, ...]
    waits: bool = False


class _Labelled(Wire, frozen=True):
    """All labels of a Framework; the controller reads its own alone."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class FrameworkView:
    """A Framework as the API server had it.

    Attributes:
        name: Its name.
        namespace: Its namespace.
        uid: What identifies it, also from another one of the same name.
        resource_version: Changes with each change of the object.
        generation: Changes with each change of the spec.
        created: When it was created, in UTC.
        labels: Its labels.
        deleting: Whether its deletion has begun.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        meta = stored.metadata
        self.name = meta.name
        self.namespace = meta.namespace
        self.uid = meta.uid
        self.resource_version = meta.resource_version
        self.generation = meta.generation
        self.created = meta.creation_timestamp or datetime.now(UTC)
        self.labels = msgspec.json.decode(stored.raw_metadata, type=_Labelled).labels
        self.deleting = meta.deletion_timestamp is not None

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Return the view of an object's JSON; of a part that is too deep to be read `problem` says so."""
        try:
            return cls(FRAMEWORK_DECODER.decode(raw))
        except RecursionError:
            parts = json_parts.members(raw)
            metadata = {name: Raw(part) for name, part in json_parts.members(parts["metadata"]).items()}
            metadata.pop("managedFields", None)  # as deep as what they name
            stored = Stored(Raw(msgspec.json.encode(metadata)), Raw(parts["spec"]), Raw(parts.get("status", b"")))
            return cls(stored)

    def __repr__(self) -> str:
        state = self.state or "not seen by the controller"
        return f"<Framework {self.namespace}/{self.name}: {state}, ready {self.ready_text or '-'}>"

    @cached_property
    def problem(self) -> str:
        """Why spec or status cannot be read, "" if they can."""
        try:
            _ = self._stored.spec
            status = self._stored.stored_status()
            _ = () if status is None else roles_of(status)
        except (msgspec.MsgspecError, UnreadableStatusError, RecursionError) as error:
            return str(error)
        return ""

    @cached_property
    def spec(self) -> FrameworkSpec:
        """What is wanted; an empty one if it cannot be read."""
        return FrameworkSpec() if self.problem else self._stored.spec

    @cached_property
    def status(self) -> FrameworkStatus | None:
        """What the controller knows, None before it has seen the Framework, or if the status cannot be read."""
        return None if self.problem else self._stored.stored_status()

    @property
    def state(self) -> State | None:
        """The state of the Framework, None before the controller has seen it."""
        return self.status.state if self.status else None

    @cached_property
    def roles(self) -> tuple[RoleView, ...]:
        """The TaskRoles in the order of the spec, then those that were removed and still go."""
        stored = {role.name: role for role in roles_of(self.status)} if self.status else {}
        specs = {role.name: role for role in self.spec.task_roles or ()}
        found = []
        for name in (*specs, *(name for name in stored if name not in specs)):
            status = stored.get(name)
            tasks = tuple(TaskView(name, task) for task in (status.task_statuses if status else ()))
            waits = status is not None and status.dependencies_met is False
            found.append(RoleView(name, specs.get(name), tasks, waits))
        return tuple(found)

    @property
    def tasks(self) -> Iterator[TaskView]:
        """The Tasks of all roles, in order."""
        return (task for role in self.roles for task in role.tasks)

    @cached_property
    def running_on(self) -> int:
        """Number of Tasks for whose end others wait, as they end together (docs/reference/barrier.md, section 9)."""
        together = [
            role for role in self.roles if any(one.status.attempt_status.held in {True, False} for one in role.tasks)
        ]
        tasks = (one.status for role in together for one in role.tasks if not one.status.deletion_pending)
        return sum(one.completion is None and one.attempt_status.held is not True for one in tasks)

    def task(self, name: str) -> TaskView | None:
        """Return the Task of this name (`worker-0`), None if there is none."""
        return next((task for task in self.tasks if task.name == name), None)

    @property
    def ready_text(self) -> str:
        """The Tasks that are ready, of all, such as `3/4`; "" before the controller has counted them."""
        ready = self.status.ready if self.status else None
        return ready if isinstance(ready, str) else ""

    @property
    def attempts(self) -> int:
        """Attempts so far, the current one included; 0 before the first."""
        return self.status.attempt_status.id + 1 if self.status else 0

    @property
    def gang_restarts(self) -> tuple[GangRestart, ...]:
        """The last restarts of the gang in its Pods in this attempt, the newest last; each has its number, `epoch`."""
        found = self.status.attempt_status.last_gang_restarts if self.status else ()
        return found or ()

    @property
    def progress(self) -> GangProgress | None:
        """How far the gang was when the controller asked it last, None where nothing is known of that.

        It has `slowest`, `fastest`, `per_minute`, `checkpoint`, `checkpoint_time`, `ranks`, `left_out`, `hang`, and
        when it was asked, `time`.
        """
        return (self.status.attempt_status.progress or None) if self.status else None

    @property
    def hang(self) -> Hang | None:
        """The hang of the gang that goes on, None if there is none; `status.hangs` knows of those before.

        It has `step`, `silent` and `limit` in seconds, `why` and `culprits`: each with `task`, `node`, `section` and
        `stack`, which are text of the programs themselves.
        """
        status = self.status
        if status is None or status.completion is not None:
            return None
        place = status.attempt_status.id, status.attempt_status.gang_epoch or 0
        known = (self.progress.hang if self.progress else None, status.hangs.last if status.hangs else None)
        return next((one for one in known if one is not None and (one.attempt, one.epoch) == place), None)

    @property
    def conditions(self) -> dict[str, Condition]:
        """The conditions by type."""
        found = self.status.conditions if self.status else ()
        return {one.type: one for one in found} if isinstance(found, tuple) else {}

    @property
    def finished(self) -> bool:
        """Whether the Framework is Completed, whatever its result."""
        return self.state is State.COMPLETED

    @property
    def result(self) -> Result | None:
        """How the Framework has ended, None before its end."""
        end = self.status.completion if self.status and self.finished else None
        if end is None:
            return None
        trigger = end.trigger
        by = f"{trigger.task_role_name}-{trigger.task_index}" if trigger and trigger.task_role_name else ""
        succeeded = end.type.name == TypeName.SUCCEEDED
        return Result(self.name, succeeded, end.code, end.phrase, end.diagnostics, by, self.attempts)

    @property
    def succeeded(self) -> bool:
        """Whether the Framework is Completed and has succeeded."""
        return self.result is not None and self.result.succeeded

    def to_dict(self) -> dict[str, Any]:
        """Return the object as decoded JSON."""
        stored = self._stored
        parts = {"metadata": stored.raw_metadata, "spec": stored.raw_spec}
        if stored.has_status:
            parts["status"] = stored.status
        decoded = {name: msgspec.json.decode(part) for name, part in parts.items()}
        return {"apiVersion": names.API_VERSION, "kind": names.KIND, **decoded}

    def is_same_as(self, other: "FrameworkView") -> bool:
        """Report whether spec and status are the same, whatever else of the object has changed."""
        mine, its = ((one.uid, one.generation, one.deleting, bytes(one._stored.status)) for one in (self, other))
        return mine == its

    def manifest(self) -> Framework:
        """Return what would make the same Framework again: its spec, labels and annotations.

        Raises:
            ManifestError: It has fields that this version does not know.
        """
        return Framework.from_dict(self.to_dict())
