"""The controllers of a run: processes that are killed and frozen, each behind a proxy of its own."""

import os
import random
import signal
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import frameworkcontroller.engine.config
from localcluster import Cluster
from localcluster.processes.ports import free_port
from testkit.frameworks import ControllerProcess
from tests.support.beside.proxy import Fault, Proxy, Request
from tests.support.http import fetch

CODES = (429, 500, 503, 504, 410)
_STOP_SECONDS = 120
NO_FAULT = dict.fromkeys((*(f"answer {code}" for code in CODES), "lose", "slow", "hang", "tear", "expire", "html"), 0.0)


@dataclass
class FaultRates:
    """How often a proxy does what with requests: the probability of each fault, which may be changed at any time."""

    draw: random.Random
    rates: dict[str, float] = field(default_factory=lambda: dict(NO_FAULT))

    def choose(self, request: Request) -> Fault | None:
        """Draw what becomes of a request."""
        point = self.draw.random()
        for what, rate in self.rates.items():
            if point < rate:
                return self._fault(what, request)
            point -= rate
        return None

    def _fault(self, what: str, request: Request) -> Fault:
        kind, _, code = what.partition(" ")
        match kind:
            case "answer" if code == "429":
                return Fault(kind, 429, seconds=self.draw.choice((0, 1, 2)))
            case "answer":
                return Fault(kind, int(code))
            case "slow":
                return Fault(kind, seconds=self.draw.uniform(0.1, 5))
            case "tear":
                # A watch is torn within one of its next lines, another answer within its head or body.
                return Fault(kind, size=self.draw.randint(1, 20_000 if request.watches else 2_000))
            case _:
                return Fault(kind, forwarded=self.draw.random() < 0.5)


class Replica(ControllerProcess):
    """One controller.

    Attributes:
        frozen: Whether it was stopped by SIGSTOP.
        is_down: Whether it was killed or stopped by the run.
        most: The largest resident size (MiB) and the largest number of sockets of any of its processes.
    """

    def __init__(self, cluster: Cluster, folder: Path, settings: dict[str, object], draw: random.Random) -> None:
        folder.mkdir()
        self.faults = FaultRates(draw)
        self.proxy = Proxy(cluster, self.faults.choose)
        self.proxy.__enter__()
        super().__init__(cluster, folder, settings, health_port=free_port(), server=self.proxy.url)
        self.frozen = self.is_down = False
        self.most = (0, 0)

    @property
    def runs(self) -> bool:
        """Whether its process runs and is not frozen."""
        return self.process is not None and self.process.poll() is None and not self.frozen

    @property
    def has_begun(self) -> bool:
        """Whether its process has logged that it starts."""
        return self.log.count(" starting ") >= self.starts

    @property
    def leads(self) -> bool:
        """Whether it says that it holds the lease."""
        return self.runs and any(
            line.startswith("leader_election_master_status") and line.endswith(" 1.0") for line in self.metrics()
        )

    def metrics(self) -> list[str]:
        """Return the lines of its metrics; none if it does not answer."""
        try:
            return fetch(self.health_port, "/metrics")[1].splitlines()
        except (urllib.error.URLError, OSError):
            return []

    @property
    def is_overdue(self) -> bool:
        """Whether it ended by itself because it woke up after its lease, as documented; Kubernetes starts it again.

        Raises:
            RuntimeError: It ended for another reason.
        """
        if self.process is None or self.process.poll() is None or self.is_down:
            return False
        if "the work outlives the lease, the process ends" in self.log[-1000:]:
            return True
        raise RuntimeError(f"controller {self.folder.name} has ended by itself:\n{self.log[-3000:]}")

    def spawn(self) -> None:
        """Start the process, for the first time or again, and do not wait for it."""
        super().spawn()
        self.is_down = False

    def kill(self) -> None:
        self.is_down = True
        super().kill()

    def freeze(self) -> None:
        """Stop it as a whole, as a machine that is suspended does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    def stop(self) -> int:
        """Stop the process with SIGTERM, whatever the API server does meanwhile, and return its exit code."""
        assert self.process is not None
        self.is_down = True
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)

    def end(self) -> None:
        """End the process, whatever its state, and the proxy; a process that runs must end well.

        Raises:
            AssertionError: It ended badly, or has logged a traceback.
        """
        try:
            if self.frozen:
                self.thaw()
            if self.runs:
                code = self.stop()
                assert code == 0, f"controller {self.folder.name} ended with {code}:\n{self.log[-3000:]}"
            assert "Traceback" not in self.log, self.log[self.log.index("Traceback") - 500 :][:5000]
        finally:
            if self.runs:
                self.kill()
            self.proxy.__exit__(None, None, None)

    def measure(self) -> None:
        """Look at its memory and its sockets."""
        if not self.runs:
            return
        assert self.process is not None
        folder = Path("/proc") / str(self.process.pid)
        try:
            pages = int((folder / "statm").read_text().split()[1])
            links = [str(entry.readlink()) for entry in (folder / "fd").iterdir()]
        except OSError:
            return
        sockets = sum(link.startswith("socket:") for link in links)
        self.most = (max(self.most[0], pages * os.sysconf("SC_PAGE_SIZE") >> 20), max(self.most[1], sockets))


def settings(namespace: str) -> dict[str, object]:
    """Return the configuration: the failures of the default file, and a Lease that the manifests allow.

    A ConfigMap may go unseen, while no controller works; then a Framework waits for its cache as shortly as it can.
    Pods run for seconds, and what becomes of their Frameworks is judged by the clock: none pauses.
    """
    default = Path(frameworkcontroller.engine.config.__file__).with_name("default.yaml")
    return {
        "namespaces": [namespace],
        "objectLocalCacheCreationTimeoutSec": 60,
        "crashLoopPause": False,
        "leaderElection": {"enabled": True, "namespace": "frameworkcontroller-system"},
        "podFailureSpec": yaml.safe_load(default.read_text())["podFailureSpec"],
    }
