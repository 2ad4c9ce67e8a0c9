"""The faults of a run, one after another: of the network, of the API server and etcd, of the controllers."""

import random
import time
from collections.abc import Callable

import localcluster
from localcluster import Cluster
from localcluster.processes.supervisor import Supervisor
from tests.chaos.journal import Journal
from tests.chaos.patience import persistently
from tests.chaos.replicas import CODES, NO_FAULT, Replica

LEASE_SECONDS = 12
DRIZZLE = 0.002
"""The rate of each fault while there is no storm."""


class Faults:
    """Makes faults until the time is over, then calms down."""

    def __init__(self, cluster: Cluster, replicas: list[Replica], draw: random.Random, journal: Journal) -> None:
        self._cluster, self._replicas, self._draw, self._journal = cluster, replicas, draw, journal
        self._did = journal.did
        self._components = Supervisor(cluster.state)
        self._later: list[tuple[float, Callable[[], None]]] = []

    def rage(self, seconds: float) -> None:
        """Make each fault once, in random order, then any, for so many seconds at least."""
        self._rain(DRIZZLE)
        kinds = list(FAULTS)
        waiting = self._draw.sample(kinds, len(kinds))
        until = time.monotonic() + seconds
        while waiting or time.monotonic() < until:
            FAULTS[waiting.pop() if waiting else self._draw.choice(kinds)](self)
            self._pass(self._draw.uniform(0.2, 4))

    def watch(self) -> None:
        """Start the controllers that ended because they had lost their lease."""
        self._pass(0)

    def calm(self) -> None:
        """Undo all that lasts, and leave everybody alone."""
        while self._later:
            self._pass(0.2)
        self._rain(0)
        # Kubernetes' own garbage collector can miss a deletion while the API server is killed again and again, and then
        # leaves a ConfigMap in its foreground deletion for ever. It builds its graph again when it starts.
        self._restart("kube-controller-manager")
        self._journal.note("calm")

    # --- the network -------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        victims = self._some()
        self._did("drop", f"{sum(each.proxy.drop() for each in victims)} connections of {self._numbers(victims)}")

    def _cut(self) -> None:
        seconds, victims = self._draw.uniform(0.5, 15), self._some()
        self._did("cut", f"{self._numbers(victims)} for {seconds:.1f} s")
        for each in victims:
            each.proxy.cut()
            self._in(seconds, each.proxy.restore)

    def _storm(self) -> None:
        what = self._draw.choice(list(NO_FAULT))
        rate, seconds, victims = self._draw.choice((0.1, 0.5, 0.95)), self._draw.uniform(1, 8), self._some()
        self._did(f"storm of {what}", f"{rate:g} at {self._numbers(victims)} for {seconds:.1f} s")
        for each in victims:
            each.faults.rates = {**each.faults.rates, what: rate}
            self._in(seconds, lambda each=each: each.faults.rates.update(dict.fromkeys(NO_FAULT, DRIZZLE)))

    # --- the control plane -------------------------------------------------------------------------------------------

    def _restart(self, component: str) -> None:
        # Without grace it is killed in the middle of its work.
        grace = self._draw.choice((0.0, 10.0))
        self._did(f"restart {component}", f"with {grace:g} s of grace")
        self._components.stop(component, grace_seconds=grace)
        # Nothing else meanwhile: a controller cannot be started without an API server that works.
        time.sleep(self._draw.choice((0, 0, 3)))
        localcluster.up(self._cluster.name, self._cluster.depth, kubernetes=self._cluster.version)
        self._journal.is_back(component)

    # --- the controllers ---------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        victim = self._leader()
        if victim is not None:
            self._did("kill", self._numbers([victim]))
            victim.kill()
            self._in(self._draw.uniform(0.2, 6), lambda: self._start(victim))

    def _terminate(self) -> None:
        victim = self._leader()
        # Before it begins, a process has no handler of SIGTERM.
        if victim is not None and victim.has_begun:
            self._did("terminate", self._numbers([victim]))
            code = victim.stop()
            assert code == 0, f"a controller that was asked to stop ended with {code}: {victim.log[-3000:]}"
            self._in(self._draw.uniform(0.2, 6), lambda: self._start(victim))

    def _freeze(self) -> None:
        victim = self._leader()
        if victim is not None:
            seconds = LEASE_SECONDS + self._draw.uniform(2, 10)
            self._did("freeze", f"{self._numbers([victim])} for {seconds:.1f} s")
            victim.freeze()
            self._in(seconds, victim.thaw)

    def _start(self, replica: Replica) -> None:
        persistently(replica.spawn)
        self._journal.note(f"started {self._numbers([replica])}")

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _some(self) -> list[Replica]:
        """Return one controller, the leader more often than not, or all of them."""
        match self._draw.choice(("leader", "leader", "one", "all")):
            case "leader":
                leader = self._leader(or_any=True)
                return [] if leader is None else [leader]
            case "one":
                return [self._draw.choice(self._replicas)]
            case _:
                return self._replicas

    def _leader(self, *, or_any: bool = False) -> Replica | None:
        """Return the leader, else one that runs; none if one only runs, which has to do the work."""
        running = [each for each in self._replicas if each.runs]
        if len(running) < 2 and not or_any:
            return None
        leading = [each for each in running if each.leads]
        return self._draw.choice(leading or running or [None])

    def _numbers(self, victims: list[Replica]) -> str:
        return "+".join(f"controller {each.folder.name}" for each in victims) or "nobody"

    def _rain(self, rate: float) -> None:
        for each in self._replicas:
            each.faults.rates = dict.fromkeys(NO_FAULT, rate)

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def _pass(self, seconds: float) -> None:
        """Let time pass, and do what is due."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            due = [entry for entry in self._later if entry[0] <= now]
            self._later = [entry for entry in self._later if entry[0] > now]
            for _, action in due:
                action()
            for each in self._replicas:
                each.measure()
                if each.is_overdue:
                    self._did("exit", f"of {self._numbers([each])}, which had lost its lease")
                    self._start(each)
            if now >= until:
                return
            time.sleep(0.1)


FAULTS: dict[str, Callable[[Faults], None]] = {
    "drop": Faults._drop,
    "drop again": Faults._drop,
    "cut": Faults._cut,
    **{f"storm {number}": Faults._storm for number in range(1, len(CODES) + 1)},
    "restart the API server": lambda faults: faults._restart("kube-apiserver"),
    "restart etcd": lambda faults: faults._restart("etcd"),
    "kill": Faults._kill,
    "terminate": Faults._terminate,
    "freeze": Faults._freeze,
}
