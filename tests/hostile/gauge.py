"""What is measured of the controller while somebody is hostile, and of the gangs beside."""

import contextlib
import math
import os
import re
import select
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from frameworkcontroller.api import names
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import ControllerProcess, Frameworks

LEASES = "/apis/coordination.k8s.io/v1/namespaces/frameworkcontroller-system/leases"
ANSWER_SECONDS = 60.0
HEALTHY = "healthy"
"""The label of the Pods of healthy gangs."""
_WATCH_SECONDS = 3


@dataclass
class ReadController(ControllerProcess):
    """A controller whose log somebody reads, or does not, as with `kubectl logs` and a runtime that is stuck.

    Attributes:
        read_rate: How many bytes of it somebody reads in a second at most; 0 if nobody does.
        read_bytes: How much was read.
    """

    read_rate: float = math.inf
    read_bytes: int = 0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        os.mkfifo(self.folder / "controller.log")
        self._pipe = os.open(self.folder / "controller.log", os.O_RDWR | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def log(self) -> str:
        """The lines of the log that are not of history."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "kept.log").read_text(errors="replace")
        return ""

    def serve(self, namespace: str) -> None:
        """Start it for the Frameworks of one namespace, "" for all, and wait until it leads."""
        self.settings["namespaces"] = [namespace] if namespace else []
        self.start()

    def close(self) -> None:
        """End the reader."""
        self._over.set()
        self._thread.join()
        os.close(self._pipe)

    def _read(self) -> None:
        rest = b""
        with (self.folder / "kept.log").open("ab") as kept:
            while not self._over.is_set():
                if not (rate := self.read_rate):
                    self._over.wait(0.05)
                    continue
                if not select.select([self._pipe], [], [], 0.2)[0]:
                    continue
                data = os.read(self._pipe, 1 << 20)
                self._over.wait(len(data) / rate)
                self.read_bytes += len(data)
                *lines, rest = (rest + data).split(b"\n")
                kept.writelines(
                    line + b"\n" for line in lines if b"ObjectSnapshot" not in line and b"state changed" not in line
                )
                kept.flush()


class Counts(NamedTuple):
    """What was counted since the start of the processes: of the controller, and of Pods by the API server.

    Creations are by whomever, also those that were refused; their bytes are 0 where the API server does not count them.
    """

    requests: float = 0.0
    log_bytes: float = 0.0
    creations: float = 0.0
    created_bytes: float = 0.0

    def since(self, before: "Counts", seconds: float) -> "Counts":
        """Return how many in a second; a process may have been started again."""
        return Counts(*(max(0.0, now - then) / seconds for now, then in zip(self, before, strict=True)))


def _total(text: str, metric: str, *labels: str) -> float:
    lines = (line for line in text.splitlines() if line.startswith(f"{metric}{{"))
    return sum(float(line.split()[-1]) for line in lines if all(label in line for label in labels))


@dataclass
class Gauge:
    """Looks at the controller ten times a second: its answers, its process, its lease.

    Attributes:
        lag: The longest that `/healthz` took to answer, in seconds.
        peak_mib: The peak of its resident memory since `begin`.
        faults: What must not have happened.
    """

    raw: RawClient
    controller: ReadController
    lag: float = 0.0
    peak_mib: float = 0.0
    faults: list[str] = field(default_factory=list)
    _holder: str | None = None

    def begin(self) -> None:
        """Forget what was measured, the peak of the memory, too."""
        self.lag, self.peak_mib, self.faults, self._holder = 0.0, 0.0, [], None
        with contextlib.suppress(OSError):
            # The next peak is one from here on (proc(5), clear_refs).
            Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    @property
    def _pid(self) -> int:
        assert self.controller.process is not None
        return self.controller.process.pid

    def counts(self) -> Counts:
        """Return what was counted so far."""
        own, text = "", self.raw.text("/metrics")
        with contextlib.suppress(OSError):
            own = self._fetch("/metrics")
        created = _total(text, "apiserver_request_total", 'resource="pods"', 'subresource=""', 'verb="POST"')
        sent = _total(text, "apiserver_request_body_size_bytes_sum", 'resource="pods"', 'verb="create"')
        return Counts(_total(own, "rest_client_requests_total"), self.controller.read_bytes, created, sent)

    def _fetch(self, path: str) -> str:
        url = f"http://127.0.0.1:{self.controller.health_port}{path}"
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            return str(answer.read().decode())

    def look(self) -> None:
        """Look once."""
        assert self.controller.process is not None
        if self.controller.process.poll() is not None:
            self.blame("the process has ended")
            return
        with contextlib.suppress(OSError):
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self._pid}/status").read_text())
            # A process that is over has none.
            self.peak_mib = max(self.peak_mib, int(found[1]) / 1024 if found else 0.0)
        begun = time.monotonic()
        try:
            self._fetch("/healthz")
        except OSError as error:
            self.blame(f"/healthz: {type(error).__name__}")
        self.lag = max(self.lag, time.monotonic() - begun)
        leases: list[Json] = []
        with contextlib.suppress(ApiStatusError):
            leases = self.raw.get(LEASES)["items"]
        for spec in (lease["spec"] for lease in leases):
            holder = f"{spec.get('holderIdentity')} after {spec.get('leaseTransitions', 0)}"
            if self._holder is not None and holder != self._holder:
                self.blame(f"the lease went from {self._holder} to {holder}")
            self._holder = holder
            age = (datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])).total_seconds()
            if age > spec["leaseDurationSeconds"]:
                self.blame("the lease was not renewed in time")

    def blame(self, fault: str) -> None:
        """Keep what must not have happened, once."""
        if fault not in self.faults:
            self.faults.append(fault)


class Gangs:
    """When each healthy gang of so many Tasks has begun to run, by a client of its own."""

    def __init__(self, raw: RawClient, frameworks: Frameworks, tasks: int) -> None:
        self._raw, self._frameworks, self._tasks = raw, frameworks, tasks
        self._path = f"/api/v1/namespaces/{frameworks.namespace}/pods"
        self._running: dict[str, set[str]] = {}
        self._removed = set[str]()
        self.submitted: dict[str, float] = {}
        self.started: dict[str, float] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """How long each has taken, of those that run."""
        return {name: at - self.submitted[name] for name, at in self.started.items()}

    def follow(self) -> None:
        """Follow the Pods for a while, for `in_background`."""
        for pod in self._changes():
            meta = pod["metadata"]
            gang = meta.get("labels", {}).get(names.FRAMEWORK_NAME, "")
            if HEALTHY in meta.get("labels", {}) and pod["status"].get("phase") == "Running":
                running = self._running.setdefault(gang, set())
                running.add(meta["name"])
                if len(running) == self._tasks:
                    self.started.setdefault(gang, time.monotonic())

    def remove(self) -> None:
        """Remove a gang that has run, for `in_background`: they would fill the cluster."""
        for name in list(self.started.keys() - self._removed)[:1]:
            self._removed.add(name)
            # The end of the round removes what is left.
            with contextlib.suppress(ApiStatusError):
                self._frameworks.raw.delete(f"{self._frameworks.path}/{name}")
                pods = f"{self._path}?labelSelector={names.FRAMEWORK_NAME}={name}"
                self._frameworks.raw.delete(pods, {"gracePeriodSeconds": 0})

    def _changes(self) -> Iterator[Json]:
        found = self._raw.get(f"{self._path}?labelSelector={HEALTHY}")
        yield from found["items"]
        # The client adds a query of its own, with a question mark, which ends up in a parameter that nobody reads.
        path = f"{self._path}?watch=1&labelSelector={HEALTHY}&unread="
        with contextlib.suppress(ApiStatusError):
            for event in self._raw.watch(path, found["metadata"]["resourceVersion"], _WATCH_SECONDS):
                if event["type"] in {"ADDED", "MODIFIED"}:
                    yield event["object"]
