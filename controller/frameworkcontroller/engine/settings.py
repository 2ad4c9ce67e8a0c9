"""The configuration file, ``frameworkcontroller.yaml``: the keys of the Framework API, section 11, and a few of ours.

A key that is not known, or a value that is not valid, stops the start with one line that names it. Files of Microsoft's
controller are read as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from frameworkcontroller.cluster.credentials import Endpoint
from frameworkcontroller.cluster.election import (
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    RETRY_PERIOD_SECONDS,
    check_times,
)
from frameworkcontroller.cluster.errors import CredentialsError
from frameworkcontroller.core.classify import CONTAINER_CONTRACT
from frameworkcontroller.core.config import CoreConfig
from frameworkcontroller.core.snapshots import Trigger

from .document import INT32_MAX, DocumentError, Value, parse
from .failurespec import read_codes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frameworkcontroller.core.classify import CodeInfo

FILE_NAME: Final = "frameworkcontroller.yaml"
FOREVER_SECONDS: Final = 100 * 365 * 86400
"""Longer times mean the same and would leave the calendar."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MIN_DELAY: Final = "frameworkMinRetryDelaySecForTransientConflictFailed"
_MAX_DELAY: Final = "frameworkMaxRetryDelaySecForTransientConflictFailed"


class SettingsError(ValueError):
    """The configuration is not usable; one line that names the file and the key."""


@dataclass(frozen=True)
class LeaderElectionSettings:
    """``leaderElection``: who of several replicas works; times are in seconds.

    Attributes:
        enabled: without it, the only replica must be this one.
        namespace: of the Lease; "" for the Pod's own.
        name: of the Lease.
        lease_duration_sec: see `LeaderElection`.
        renew_deadline_sec: see `LeaderElection`.
        retry_period_sec: see `LeaderElection`.
    """

    enabled: bool = True
    namespace: str = ""
    name: str = "frameworkcontroller"
    lease_duration_sec: int = LEASE_DURATION_SECONDS
    renew_deadline_sec: float = RENEW_DEADLINE_SECONDS
    retry_period_sec: float = RETRY_PERIOD_SECONDS


@dataclass(frozen=True)
class Settings:
    """What can be configured, with the keys' names; times are in seconds.

    Attributes:
        kube_api_server_address: None to look elsewhere, see `credentials.discover`.
        kube_config_file_path: as above.
        kube_client_qps: requests a second; None for no limit but the server's own flow control.
        kube_client_burst: above that rate for a moment; None with a rate means 120.
        worker_number: an upper bound of `slots`; decisions need no workers here.
        large_framework_compression: whether statuses of 700 KiB and more are stored gzipped.
        crd_established_check_interval_sec: between two looks whether Frameworks are served.
        crd_established_check_timeout_sec: after which the start fails.
        object_local_cache_creation_timeout_sec: after which a created object that is not seen counts as lost.
        framework_completed_retain_sec: after which completed Frameworks are deleted.
        framework_min_retry_delay_sec: of a Framework that failed by a transient conflict, key `_MIN_DELAY`.
        framework_max_retry_delay_sec: likewise, key `_MAX_DELAY`.
        log_object_snapshot: which history snapshots are written.
        pod_failure_spec: the configured codes, without the predefined ones.
        namespace: to work in; "" for all.
        grant_roster_access: whether a Framework's Pods get the right to read its roster.
        concurrent_requests: to the API server at a time.
        leader_election: see there.
    """

    kube_api_server_address: str | None = None
    kube_config_file_path: str | None = None
    kube_client_qps: float | None = None
    kube_client_burst: int | None = None
    worker_number: int = 200
    large_framework_compression: bool = True
    crd_established_check_interval_sec: int = 1
    crd_established_check_timeout_sec: int = 60
    object_local_cache_creation_timeout_sec: int = 300
    framework_completed_retain_sec: int = 2_592_000
    framework_min_retry_delay_sec: int = 60
    framework_max_retry_delay_sec: int = 900
    log_object_snapshot: frozenset[Trigger] = frozenset(Trigger)
    pod_failure_spec: tuple[CodeInfo, ...] = ()
    # Ours.
    namespace: str = ""
    grant_roster_access: bool = True
    concurrent_requests: int = 64
    leader_election: LeaderElectionSettings = field(default_factory=LeaderElectionSettings)

    @property
    def slots(self) -> int:
        """Requests at a time."""
        return min(self.concurrent_requests, self.worker_number)

    @property
    def core(self) -> CoreConfig:
        """What decisions depend on."""
        return CoreConfig(
            object_local_cache_creation_timeout_sec=self.object_local_cache_creation_timeout_sec,
            framework_completed_retain_sec=self.framework_completed_retain_sec,
            framework_min_retry_delay_sec=self.framework_min_retry_delay_sec,
            framework_max_retry_delay_sec=self.framework_max_retry_delay_sec,
            grant_roster_access=self.grant_roster_access,
            codes=(*CONTAINER_CONTRACT, *self.pod_failure_spec),
        )


def load_settings(path: Path | None) -> Settings:
    """Read the file; without one, the defaults.

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
    document = parse(text)
    if document is None:
        return Settings()
    keys = document.entries(_READERS)
    values: dict[str, Any] = {}
    for key, value in keys.items():
        attribute, read = _READERS[key]
        values[attribute] = read(value)
    settings = Settings(**values)
    low, high = settings.framework_min_retry_delay_sec, settings.framework_max_retry_delay_sec
    if low > high:
        if _MIN_DELAY in keys:
            raise keys[_MIN_DELAY].error(f"must not be greater than {_MAX_DELAY}, which is {high}; found {low}")
        raise keys[_MAX_DELAY].error(f"must not be less than {_MIN_DELAY}, which is {low}; found {high}")
    return settings


def default_config() -> str:
    """The text of the configuration that is shipped, with comments."""
    return resources.files(__package__).joinpath("default.yaml").read_text(encoding="utf-8")


def _seconds(low: int = 0) -> Callable[[Value], int]:
    return lambda value: min(value.integer(low), FOREVER_SECONDS)


def _boolean(value: Value) -> bool:
    return value.boolean()


def _path(value: Value) -> str | None:
    return value.text() or None


def _address(value: Value) -> str | None:
    address = value.text()
    if not address:
        return None
    try:
        return Endpoint(server=address).server
    except CredentialsError:
        raise value.error(f"must be http[s]://host:port, found the text {address!r}") from None


def _namespace(value: Value) -> str:
    name = value.text()
    return _name(value) if name else ""


def _name(value: Value) -> str:
    name = value.text()
    if not _NAME.fullmatch(name):
        raise value.error(f"must be 1 to 63 lower-case letters, digits and inner hyphens, found the text {name!r}")
    return name


def _snapshots(value: Value) -> frozenset[Trigger]:
    off: set[Trigger] = set()
    for kind, group in value.entries(_SNAPSHOTS).items():
        triggers = _SNAPSHOTS[kind]
        off |= {triggers[key] for key, flag in group.entries(triggers).items() if not flag.boolean()}
    return frozenset(Trigger) - off


def _leader_election(value: Value) -> LeaderElectionSettings:
    values: dict[str, Any] = {}
    for key, found in value.entries(_ELECTION).items():
        attribute, read = _ELECTION[key]
        values[attribute] = read(found)
    settings = LeaderElectionSettings(**values)
    try:
        check_times(settings.lease_duration_sec, settings.renew_deadline_sec, settings.retry_period_sec)
    except ValueError as error:
        raise value.error(str(error)) from error
    return settings


_SNAPSHOTS: Final = {
    "framework": {
        "onFrameworkRetry": Trigger.FRAMEWORK_RETRY,
        "onFrameworkDeletion": Trigger.FRAMEWORK_DELETION,
    },
    "task": {"onTaskRetry": Trigger.TASK_RETRY, "onTaskDeletion": Trigger.TASK_DELETION},
    "pod": {"onPodDeletion": Trigger.POD_DELETION},
}
_ELECTION: Final[dict[str, tuple[str, Callable[[Value], Any]]]] = {
    "enabled": ("enabled", _boolean),
    "namespace": ("namespace", _namespace),
    "name": ("name", _name),
    "leaseDurationSec": ("lease_duration_sec", lambda value: value.integer(1, 3600)),
    "renewDeadlineSec": ("renew_deadline_sec", lambda value: value.number(0, 3600)),
    "retryPeriodSec": ("retry_period_sec", lambda value: value.number(0, 3600)),
}
_READERS: Final[dict[str, tuple[str, Callable[[Value], Any]]]] = {
    "kubeApiServerAddress": ("kube_api_server_address", _address),
    "kubeConfigFilePath": ("kube_config_file_path", _path),
    "kubeClientQps": ("kube_client_qps", lambda value: value.number(0, 10_000)),
    "kubeClientBurst": ("kube_client_burst", lambda value: value.integer(0, 10_000)),
    "workerNumber": ("worker_number", lambda value: value.integer(1, INT32_MAX)),
    "largeFrameworkCompression": ("large_framework_compression", _boolean),
    "crdEstablishedCheckIntervalSec": ("crd_established_check_interval_sec", _seconds(1)),
    "crdEstablishedCheckTimeoutSec": ("crd_established_check_timeout_sec", _seconds(10)),
    "objectLocalCacheCreationTimeoutSec": ("object_local_cache_creation_timeout_sec", _seconds(60)),
    "frameworkCompletedRetainSec": ("framework_completed_retain_sec", _seconds()),
    _MIN_DELAY: ("framework_min_retry_delay_sec", _seconds()),
    _MAX_DELAY: ("framework_max_retry_delay_sec", _seconds()),
    "logObjectSnapshot": ("log_object_snapshot", _snapshots),
    "podFailureSpec": ("pod_failure_spec", read_codes),
    "namespace": ("namespace", _namespace),
    "grantRosterAccess": ("grant_roster_access", _boolean),
    "concurrentRequests": ("concurrent_requests", lambda value: value.integer(1, 1000)),
    "leaderElection": ("leader_election", _leader_election),
}
