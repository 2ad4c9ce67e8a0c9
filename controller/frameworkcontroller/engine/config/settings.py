"""The configuration file, `frameworkcontroller.yaml`.

Its keys are those of docs/reference/framework-api.md, section 11, and a few of ours. A key that is not known, or a
value that is not valid, stops the start with one line that names it. Files of Microsoft's controller are read as they
are.

The structs below are the one home of names, limits and defaults; a test compares `default.yaml` with them.
"""

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

from msgspec import Meta, field, to_builtins
from msgspec.structs import asdict, force_setattr, replace

from frameworkcontroller.api.pod_group import KINDS, NONE, GangScheduling
from frameworkcontroller.core.pods.snapshots import HistoryCause
from frameworkcontroller.core.policies.classification import CONTAINER_CONTRACT
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.config.document import DocumentError, Group, decode
from frameworkcontroller.engine.config.failure_spec import CodeSpec, check_codes, parse_regex
from frameworkkube.election.election import (
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    RETRY_PERIOD_SECONDS,
    check_times,
)
from frameworkkube.errors import CredentialsError
from frameworkkube.http.credentials import Endpoint

FILE_NAME: Final = "frameworkcontroller.yaml"
FOREVER_SECONDS: Final = 100 * 365 * 86400
"""Longer times mean the same and would leave the calendar."""
_INT64_MAX: Final = 2**63 - 1
_MIN_DELAY: Final = "frameworkMinRetryDelaySecForTransientConflictFailed"
_MAX_DELAY: Final = "frameworkMaxRetryDelaySecForTransientConflictFailed"
_NAME: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME_RULE: Final = "1 to 63 lower-case letters, digits and inner hyphens"

Name: TypeAlias = Annotated[str, Meta(pattern=rf"^{_NAME}\Z", description=_NAME_RULE)]
Namespace: TypeAlias = Annotated[str, Meta(pattern=rf"^({_NAME})?\Z", description=_NAME_RULE)]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=_INT64_MAX)]


class SettingsError(ValueError):
    """The configuration is not usable; one line that names the file and the key."""


def _check_address(key: str, address: str) -> None:
    try:
        Endpoint(server=address)
    except CredentialsError:
        raise ValueError(f"{key}: must be http[s]://host:port, found the text {address!r}") from None


class FrameworkSnapshots(Group, frozen=True):
    """`logObjectSnapshot.framework`."""

    on_framework_retry: bool = True
    on_framework_deletion: bool = True


class TaskSnapshots(Group, frozen=True):
    """`logObjectSnapshot.task`."""

    on_task_retry: bool = True
    on_task_deletion: bool = True


class PodSnapshots(Group, frozen=True):
    """`logObjectSnapshot.pod`."""

    on_pod_deletion: bool = True


class SnapshotSettings(Group, frozen=True):
    """`logObjectSnapshot`: which history snapshots are written."""

    framework: FrameworkSnapshots = FrameworkSnapshots()
    task: TaskSnapshots = TaskSnapshots()
    pod: PodSnapshots = PodSnapshots()

    @property
    def triggers(self) -> frozenset[HistoryCause]:
        """The occasions on which a snapshot is written: each is the name of a field."""
        chosen: dict[str, bool] = asdict(self.framework) | asdict(self.task) | asdict(self.pod)
        return frozenset(cause for cause in HistoryCause if chosen[f"on_{cause.name.lower()}"])


class KueueSettings(Group, frozen=True):
    """`kueue`: whether Kueue queues Frameworks that have its label, and those that have not."""

    enabled: bool = False
    manage_frameworks_without_queue_name: bool = False
    """As Kueue's `manageJobsWithoutQueueName`: they wait until they have the label."""


Scheduler: TypeAlias = Literal["kubernetes", "volcano", "coscheduling"]
"""One of `KINDS`."""


class DefaultGroups(GangScheduling, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """`gangScheduling.default`: what `spec.gangScheduling` is of a Framework that has none."""

    scheduler: Literal[Scheduler, "none"] = "none"
    group_per: Literal["Attempt", "TaskRole"] = "Attempt"
    disruption_mode: Literal["All", "Single"] = "All"


class GangSchedulingSettings(Group, frozen=True):
    """`gangScheduling`: in which groups schedulers place the Pods of Frameworks."""

    schedulers: tuple[Scheduler, ...] = ()
    """Those whose groups Frameworks may have."""
    default: DefaultGroups = DefaultGroups()

    def __post_init__(self) -> None:
        if (found := self.default.scheduler) not in {NONE, *self.schedulers}:
            raise ValueError(f"default.scheduler: must be among gangScheduling.schedulers, found {found!r}")
        given = to_builtins(self.default)
        for name in KINDS[found].lacks if found != NONE else ():
            if given[name]:
                raise ValueError(f"default.{name}: groups of {found} have none")


class Switch(Group, frozen=True):
    """What may be switched on."""

    enabled: bool = False


class ProgressSettings(Group, frozen=True):
    """`progress`: how far gangs are whose applications say so."""

    ask_pods: bool = True
    """Whether their sidecars are asked."""


class HistorySettings(Group, frozen=True):
    """`history`: the archive that keeps what has run."""

    url: str = ""
    """Where it says which logs it keeps, "" without one."""

    def __post_init__(self) -> None:
        if self.url:
            _check_address("url", self.url)


class LeaderElectionSettings(Group, frozen=True):
    """`leaderElection`: which of several replicas works, as in `LeaderElection`; times are in seconds."""

    enabled: bool = True
    """Without it, this replica must be the only one."""
    namespace: Namespace = ""
    """Of the Lease; "" for the Pod's own."""
    name: Name = "frameworkcontroller"
    lease_duration_sec: Annotated[int, Meta(ge=1, le=3600)] = LEASE_DURATION_SECONDS
    renew_deadline_sec: Annotated[float, Meta(gt=0, le=3600)] = RENEW_DEADLINE_SECONDS
    retry_period_sec: Annotated[float, Meta(gt=0, le=3600)] = RETRY_PERIOD_SECONDS

    def __post_init__(self) -> None:
        check_times(self.lease_duration_sec, self.renew_deadline_sec, self.retry_period_sec)


ROW_SECONDS: Final = 0.25
"""So long a request waits behind those of one namespace for `kubeClientQps`, about."""
LEAST_SLOTS: Final = 8


class Settings(Group, frozen=True):
    """What can be configured; times are in seconds."""

    kube_api_server_address: str = ""
    """Without it and the next, where to look is said by `credentials.discover`."""
    kube_config_file_path: str = ""
    kube_client_qps: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """Requests a second; None for no limit but the server's own flow control."""
    kube_client_burst: Annotated[int, Meta(ge=0, le=10_000)] = 120
    """How many requests may exceed that rate for a moment."""
    worker_number: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 200
    """An upper bound of `slots`; decisions need no workers here."""
    large_framework_compression: bool = True
    """Whether statuses of 700 KiB and more are stored gzipped."""
    crd_established_check_interval_sec: Annotated[int, Meta(ge=1, le=_INT64_MAX)] = 1
    crd_established_check_timeout_sec: Annotated[int, Meta(ge=10, le=_INT64_MAX)] = 60
    """After which the start fails."""
    object_local_cache_creation_timeout_sec: Annotated[int, Meta(ge=60, le=_INT64_MAX)] = 300
    """After which a created object that is not seen counts as lost."""
    framework_completed_retain_sec: Seconds = 2_592_000
    """After which completed Frameworks are deleted."""
    framework_min_retry_delay_sec: Seconds = field(name=_MIN_DELAY, default=60)
    framework_max_retry_delay_sec: Seconds = field(name=_MAX_DELAY, default=900)
    log_object_snapshot: SnapshotSettings = SnapshotSettings()
    pod_failure_spec: tuple[CodeSpec, ...] = ()
    """The configured codes, without the predefined ones."""
    # Ours.
    namespaces: tuple[Name, ...] = ()
    """To work in; () for all."""
    grant_roster_access: bool = True
    """Whether a Framework's Pods get permission to read its roster."""
    crash_loop_pause: bool = True
    """Whether Pods that end at once again and again are created only after pauses."""
    concurrent_requests: Annotated[int, Meta(ge=1, le=1000)] = 64
    """To the API server at a time."""
    kueue: KueueSettings = KueueSettings()
    gang_scheduling: GangSchedulingSettings = GangSchedulingSettings()
    foreign_gangs: Switch = Switch()
    """Whether the rosters of gangs of other controllers are kept, whose Pods have the barrier's label."""
    rank_topology: Switch = Switch()
    """Whether labels of nodes are read, for ranks in their order where a Framework asks for it."""
    progress: ProgressSettings = ProgressSettings()
    history: HistorySettings = HistorySettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()

    def __post_init__(self) -> None:
        if self.kube_api_server_address:
            _check_address("kubeApiServerAddress", self.kube_api_server_address)
        low, high = self.framework_min_retry_delay_sec, self.framework_max_retry_delay_sec
        if low > high:
            raise ValueError(f"{_MIN_DELAY}: must not be greater than {_MAX_DELAY}, which is {high}; found {low}")
        check_codes(self.pod_failure_spec)
        for name in self.__struct_fields__:
            if name.endswith("_sec"):
                force_setattr(self, name, min(getattr(self, name), FOREVER_SECONDS))

    def in_namespaces(self, namespaces: Sequence[str]) -> Self:
        """Return the same settings for these namespaces.

        Raises:
            SettingsError: One is no name of a namespace.
        """
        for namespace in namespaces:
            if not re.fullmatch(_NAME, namespace):
                raise SettingsError(f"--namespace: must be {_NAME_RULE}; found {namespace!r}")
        return replace(self, namespaces=tuple(namespaces))

    @property
    def slots(self) -> int:
        """Requests at a time: with a rate no more than are sent within moments, since they wait for it in one row."""
        most = min(self.concurrent_requests, self.worker_number)
        if self.kube_client_qps is None:
            return most
        return min(most, max(LEAST_SLOTS, int(self.kube_client_qps * ROW_SECONDS)))

    @property
    def core(self) -> CoreConfig:
        """The settings that decisions depend on."""
        return CoreConfig(
            object_local_cache_creation_timeout_sec=self.object_local_cache_creation_timeout_sec,
            framework_completed_retain_sec=self.framework_completed_retain_sec,
            framework_min_retry_delay_sec=self.framework_min_retry_delay_sec,
            framework_max_retry_delay_sec=self.framework_max_retry_delay_sec,
            grant_roster_access=self.grant_roster_access,
            crash_loop_pause=self.crash_loop_pause,
            kueue=self.kueue.enabled,
            kueue_manages_all=self.kueue.enabled and self.kueue.manage_frameworks_without_queue_name,
            gang_scheduling=GangScheduling(**asdict(self.gang_scheduling.default)),
            group_schedulers=self.gang_scheduling.schedulers,
            rank_topology=self.rank_topology.enabled,
            ask_progress=self.progress.ask_pods,
            history=bool(self.history.url),
            codes=(*CONTAINER_CONTRACT, *(spec.info() for spec in self.pod_failure_spec)),
        )


def load_settings(path: Path | None) -> Settings:
    """Read the file; without one, return the defaults.

    Raises:
        SettingsError: it cannot be read, or a key or value in it is not valid.
    """
    if path is None:
        return Settings()
    try:
        return read_settings(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: byte {error.start + 1} is not UTF-8") from error
    except DocumentError as error:
        raise SettingsError(f"{path}: {error}") from error


def read_settings(text: str) -> Settings:
    """Read the text of a configuration file.

    Raises:
        DocumentError: a key or value in it is not valid.
    """
    return decode(text, Settings, parse_regex)


def default_config() -> str:
    """Return the text of the configuration that is shipped, with comments."""
    return resources.files(__package__).joinpath("default.yaml").read_text(encoding="utf-8")
