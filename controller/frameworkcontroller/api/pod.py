"""A Pod as the caches hold it: the fields that decide anything, about 1 KB instead of the 30 KB of a dict."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, TypeAlias

import msgspec
from msgspec import field

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta, Wire

Times: TypeAlias = tuple[datetime | None, datetime | None, datetime | None]
"""When a Pod got its node, its application ran, and that has ended, each None if it has not, or that is not known."""


class Terminated(Wire, frozen=True):
    """How a container ended. The cache keeps no `started_at`."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    finished_at: datetime | None = None


class Waiting(Wire, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(Wire, frozen=True):
    """A container runs. The cache does not keep since when."""

    started_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class ContainerState(Wire, frozen=True):
    """At most one of these is set."""

    running: Running | None = None
    terminated: Terminated | None = None
    waiting: Waiting | None = None


class LastState(Wire, frozen=True):
    """How the run before the last restart ended, if there was one."""

    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True):
    """One container of a Pod; a kubelet may have restarted it."""

    name: str
    state: ContainerState = ContainerState()
    last_state: LastState = LastState()


class InitContainerStatus(ContainerStatus, frozen=True):
    """One init container of a Pod."""

    started: bool | None = None
    """Of a native sidecar that runs: its startup probe has succeeded."""
    restart_count: int = 0
    ready: bool = False

    def ended_by(self, codes: Collection[int]) -> Terminated | None:
        """Return how it has exited with one of these codes, in this run or the one before; None if it has not."""
        ends = (self.state.terminated, self.last_state.terminated)
        return next((end for end in ends if end is not None and end.exit_code in codes), None)


class PodCondition(Wire, frozen=True):
    """A condition.

    `PodScheduled` is used, to report why a Pod waits, `Ready`, for which other roles may wait,
    `AllContainersRestarting`, which ends an epoch of its gang, and `DisruptionTarget`, by which its group is preempted.
    """

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | msgspec.UnsetType | None = msgspec.UNSET
    """Not kept in the cache."""


class PodStatus(Wire, frozen=True):
    """What the kubelet and the scheduler report."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = field(default="", name="podIP")
    host_ip: str = field(default="", name="hostIP")
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[InitContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def barrier(self) -> InitContainerStatus | None:
        """The container of the barrier, None while nothing is known of it."""
        return next((one for one in self.init_container_statuses if one.name == names.BARRIER_CONTAINER), None)


class Container(Wire, frozen=True):
    """An init container."""

    name: str = ""
    restart_policy: str = ""


class PodSpec(Wire, frozen=True):
    """The node of the Pod, what runs before its application, and whether that is tried again."""

    node_name: str = ""
    restart_policy: str = ""
    init_containers: tuple[Container, ...] = ()

    @property
    def sidecars(self) -> frozenset[str]:
        """The names of the native sidecars: init containers that restart always, beside the application."""
        return frozenset(one.name for one in self.init_containers if one.restart_policy == "Always")


class Pod(Wire, frozen=True):
    """A Pod as cached."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    times: Times | msgspec.UnsetType = msgspec.UNSET
    """Known of Pods that a controller finds when it begins, until they change."""


POD_DECODER: Final = msgspec.json.Decoder(Pod)
