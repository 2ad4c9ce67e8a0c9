"""The figures of the benchmarks of scale: what they write, and what is kept of it.

`bench/controller.py` makes `Row`s, two for each shape: one of the controller, one of the bare loop that does the same
to Pods without a Framework. `bench/start.py` makes `Restart`s.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.provenance import commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FILE: Final = REPOSITORY / "docs" / "scale.json"
PAGE: Final = REPOSITORY / "docs" / "scale.md"
PICTURE: Final = REPOSITORY / "docs" / "scale.svg"
MEASURED: Final = REPOSITORY / "build" / "bench"
"""The folder into which the benchmarks write."""

T = TypeVar("T")


class Who(StrEnum):
    """Who made the Pods of a row."""

    BARE = "bare loop"
    CONTROLLER = "controller"


class Request(StrEnum):
    """The kinds of requests that a row counts."""

    PODS = "Pods created"
    STATUSES = "status writes"
    CONFIG_MAPS = "ConfigMaps"
    ACCESS = "Roles, RoleBindings"
    EVENTS = "Events"
    POD_DELETIONS = "Pods deleted"
    OTHERS = "others"


class Part(StrEnum):
    """The processes of the cluster, by the names that `localcluster` gives them."""

    API_SERVER = "kube-apiserver"
    ETCD = "etcd"
    SCHEDULER = "kube-scheduler"
    CONTROLLERS = "kube-controller-manager"
    NODES = "kwok"


BENCHMARK: Final = "benchmark"
"""The process that makes the Frameworks, or in the bare loop the Pods, and watches."""
CONTROLLER: Final = "controller"


class Origin(msgspec.Struct, frozen=True):
    """Where figures come from.

    Attributes:
        date: The day, in UTC.
        project: The version of this project.
        commit: The commit, see `provenance.commit`.
        machine: Its architecture and cores.
        python: The version of Python.
        kubernetes: The version of Kubernetes, without `v`.
    """

    date: str
    project: str
    commit: str
    machine: str
    python: str
    kubernetes: str


class Row(msgspec.Struct, frozen=True):
    """One shape, by the controller or by the bare loop. Times are seconds from the first create call.

    Attributes:
        shape: Its name.
        who: Who made the Pods.
        origin: Where the figures come from.
        frameworks: The number of Frameworks.
        tasks: The Tasks of each.
        created: Until all Pods existed.
        running: Until all Pods had run.
        completed: Until all Frameworks were Completed, without the time that the Pods ran.
        start_p50: From the create call of a Framework until all its Pods ran, the median.
        start_p99: The same, 99th percentile.
        queue_p99: The 99th percentile of the time that a Framework waited for a decision: the bound of its bucket.
        gate_created: From the create call of the small gang until its Pods existed.
        gate_addressed: Until they had addresses: the scheduler and the nodes work on the large Framework's Pods first.
        gate: Until its gate opened.
        phases: The phases of a whole life, each with its own seconds.
        requests: What all clients asked of the API server for these Pods and Frameworks, by kind, watches excluded.
        sent: What the controller has sent by its own count, reads and Events included.
        written_mb: The bodies of these requests.
        controller_cpu: CPU seconds of the controller, or of the bare loop.
        apiserver_cpu: CPU seconds of the API server. With the controller also the end of all Pods and their deletion.
        running_cpu: CPU seconds of each process until all Pods had run: of each `Part`, `BENCHMARK` and `CONTROLLER`.
        peak_mib: The largest resident set of the controller.
        growth_mib: By how much its resident set grew from one third of the arrivals to their end.
    """

    shape: str
    who: Who
    origin: Origin
    frameworks: int
    tasks: int
    created: float | None = None
    running: float | None = None
    completed: float | None = None
    start_p50: float | None = None
    start_p99: float | None = None
    queue_p99: float | None = None
    gate_created: float | None = None
    gate_addressed: float | None = None
    gate: float | None = None
    phases: dict[str, float] = {}
    requests: dict[Request, int] = {}
    sent: int | None = None
    written_mb: float = 0.0
    controller_cpu: float = 0.0
    apiserver_cpu: float = 0.0
    running_cpu: dict[str, float] = {}
    peak_mib: float | None = None
    growth_mib: float | None = None

    @property
    def total(self) -> int:
        """The Tasks of all Frameworks."""
        return self.frameworks * self.tasks

    @property
    def is_start_of_one(self) -> bool:
        """Whether it is about the start of one Framework and nothing else."""
        return self.frameworks == 1 and self.running is not None and self.gate_created is None and not self.phases

    @property
    def apiserver_cpu_running(self) -> float | None:
        """CPU seconds of the API server until all Pods had run."""
        return self.running_cpu.get(Part.API_SERVER)

    @property
    def gate_by_controller(self) -> float | None:
        """The time until the gate opened without that in which scheduler and nodes gave the Pods their addresses."""
        if self.gate_created is None or self.gate_addressed is None or self.gate is None:
            return None
        return self.gate_created + self.gate - self.gate_addressed

    @property
    def key(self) -> tuple[object, ...]:
        """What a newer row of the same replaces."""
        return self.shape, self.who


class Restart(msgspec.Struct, frozen=True):
    """One start of a controller in a cluster that is full.

    Attributes:
        lists: How the caches were filled: `in pages`, or `streamed`.
        origin: Where the figures come from.
        pods: The Pods of running Frameworks.
        frameworks: The running Frameworks.
        completed: The completed Frameworks.
        full: Seconds until the caches were full.
        working: Seconds until a Framework that was submitted just before had its Pod.
        settled: Seconds until no Framework waited for a decision or a request.
        peak_mib: The largest resident set.
        rss_mib: The resident set when it had settled.
        requests: What it sent.
        received_mb: The bodies that the API server sent: lists and events of watches.
        written_mb: The bodies that the API server received.
        controller_cpu: CPU seconds of the controller.
        apiserver_cpu: CPU seconds of the API server.
    """

    lists: str
    origin: Origin
    pods: int
    frameworks: int
    completed: int
    full: float
    working: float
    settled: float
    peak_mib: float
    rss_mib: float
    requests: int
    received_mb: float
    written_mb: float
    controller_cpu: float
    apiserver_cpu: float

    @property
    def key(self) -> tuple[object, ...]:
        """What a newer one of the same replaces."""
        return self.lists, self.pods, self.completed


class Results(msgspec.Struct, frozen=True):
    """All figures of a file: of a run of one benchmark, or what is kept."""

    rows: tuple[Row, ...] = ()
    restarts: tuple[Restart, ...] = ()


def origin(kubernetes: str) -> Origin:
    """Return where figures come from that are measured now."""
    return Origin(
        date=datetime.now(UTC).date().isoformat(),
        project=metadata.version("frameworkcontroller"),
        commit=commit(FILE, PAGE, PICTURE),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        python=platform.python_version(),
        kubernetes=kubernetes,
    )


def read(file: Path = FILE) -> Results:
    """Return the figures of a file; none if there is no file."""
    return msgspec.json.decode(file.read_bytes(), type=Results) if file.exists() else Results()


def write(results: Results, file: Path) -> None:
    """Write the figures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def merged(kept: Results, new: Results) -> Results:
    """Return the figures with new ones in the place of those of the same shape, in the order of their size."""
    return Results(
        rows=_merged(kept.rows, new.rows, lambda row: row.key, lambda row: (row.frameworks, row.total)),
        restarts=_merged(kept.restarts, new.restarts, lambda one: one.key, lambda one: (one.pods, one.lists)),
    )


def _merged(
    kept: Iterable[T], new: Iterable[T], key: Callable[[T], object], order: Callable[[T], tuple[int | str, ...]]
) -> tuple[T, ...]:
    found = {key(one): one for one in kept} | {key(one): one for one in new}
    return tuple(sorted(found.values(), key=order))
