"""The Pods of a Framework, reduced to what tables, pictures and logs need of them."""

from enum import StrEnum
from typing import Final

import msgspec

from frameworkclient.views.text import shorten
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta, Wire
from frameworkcontroller.api.pod import Container, ContainerState, PodCondition

IMAGE_ERRORS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
"""Why a container waits whose image cannot be pulled."""
_ORDINARY: Final = frozenset({"", "PodInitializing", "ContainerCreating", "Completed"})


class ContainerStatus(Wire, frozen=True):
    """One container of a Pod, as the kubelet reports it."""

    name: str
    state: ContainerState = ContainerState()
    restart_count: int = 0

    @property
    def has_started(self) -> bool:
        """Whether it runs or has ended."""
        return self.state.running is not None or self.state.terminated is not None


class TaskPodSpec(Wire, frozen=True):
    """The node and the containers of a Pod."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class TaskPodStatus(Wire, frozen=True):
    """What kubelet and scheduler report."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Stage(StrEnum):
    """How far a Pod is, in words for people."""

    NOT_SCHEDULED = "not scheduled"
    STARTING = "starting"
    BARRIER = "waits in the barrier"
    BARRIER_FAILED = "barrier failed"
    RELEASED = "released"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDING = "ending"


class TaskPod(Wire, frozen=True):
    """The Pod of a Task."""

    metadata: Meta
    spec: TaskPodSpec = TaskPodSpec()
    status: TaskPodStatus = TaskPodStatus()

    @property
    def role(self) -> str:
        """The TaskRole, "" if the labels name none."""
        return self.metadata.labels.role or ""

    @property
    def index(self) -> int:
        """The index of the Task, -1 if the labels name none."""
        return _number(self.metadata.labels.index, -1)

    @property
    def task(self) -> str:
        """The Task, such as `worker-0`."""
        return f"{self.role}-{self.index}"

    @property
    def attempt(self) -> tuple[int, int]:
        """The attempt of the Framework and that of the Task in it, each from 0."""
        found = self.metadata.annotations
        return _number(found.get(names.FRAMEWORK_ATTEMPT_ID), 0), _number(found.get(names.TASK_ATTEMPT_ID), 0)

    @property
    def application(self) -> tuple[str, ...]:
        """The names of its containers."""
        return tuple(one.name for one in self.spec.containers)

    @property
    def has_barrier(self) -> bool:
        """Whether it has the barrier."""
        return any(one.name == names.BARRIER_CONTAINER for one in self.spec.init_containers)

    @property
    def lacks_barrier(self) -> bool:
        """Whether its label asks for a barrier that it does not have."""
        return self.metadata.labels.barrier == "enabled" and not self.has_barrier

    @property
    def statuses(self) -> tuple[ContainerStatus, ...]:
        """The statuses of all containers, init containers first."""
        return self.status.init_container_statuses + self.status.container_statuses

    def container(self, name: str) -> ContainerStatus | None:
        """Return the status of a container, None while the kubelet has reported none."""
        return next((one for one in self.statuses if one.name == name), None)

    @property
    def stage(self) -> Stage:
        """How far it is, by its containers where they say more than its phase."""
        if self.metadata.deletion_timestamp is not None:
            return Stage.ENDING
        if self.status.phase in {"Succeeded", "Failed"}:
            return Stage.SUCCEEDED if self.status.phase == "Succeeded" else Stage.FAILED
        barrier = self.container(names.BARRIER_CONTAINER)
        ended = barrier.state.terminated if barrier else None
        # A sidecar ends after the programs, by the signal of its kubelet.
        if any(one.has_started for one in self.status.container_statuses):
            return Stage.RUNNING
        if ended is not None and ended.exit_code != 0:
            return Stage.BARRIER_FAILED
        if ended is not None:
            return Stage.RELEASED
        if barrier is not None and barrier.state.running is not None:
            return Stage.BARRIER
        return Stage.STARTING if self.spec.node_name else Stage.NOT_SCHEDULED

    @property
    def reason(self) -> str:
        """Why it makes no progress, in Kubernetes' words and on one line; "" if nothing holds it up."""
        if self.status.reason:
            return joined(self.status.reason, self.status.message)
        for one in self.statuses:
            waiting, ended = one.state.waiting, one.state.terminated
            if waiting is not None and waiting.reason not in _ORDINARY:
                return f"{one.name}: {joined(waiting.reason, waiting.message)}"
            if ended is not None and ended.exit_code != 0:
                detail = ended.message or f"exit code {ended.exit_code}"
                return f"{one.name}: {joined(ended.reason, detail)}"
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return joined(condition.reason, condition.message)
        return ""


def joined(reason: str, message: str, limit: int = 300) -> str:
    """Return reason and message of a status on one line of at most `limit` characters."""
    return shorten(f"{reason}: {message}".strip(": "), limit)


def _number(text: str | None, otherwise: int) -> int:
    """Return the number in a label or an annotation, which users may have changed."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else otherwise


TASK_POD_DECODER: Final = msgspec.json.Decoder(TaskPod)
