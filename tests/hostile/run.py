"""One run: each kind in turn, first as Frameworks, then as a plain client that makes its Pods; healthy gangs beside.

Beside the plain client the controller works on the namespace of the healthy gangs alone. The tenant applies and edits
the same Frameworks there, with the statuses that they had: what these cost the API server, and all who watch them
through its cache, no controller can help.

Both rounds of a kind take the same time, and the healthy gangs arrive at the same moments of it: so slowly that they
alone leave a machine with two cores half idle. At the end there is a table, and the faults. 28 kinds of two rounds, in
each of which gangs arrive for 40 s, take 2,240 s; with 12 s a round until the last gang runs and everything is removed
it is 49 minutes.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from types import MappingProxyType

import urllib3

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import Frameworks, role
from tests.hostile.gauge import HEALTHY, Counts, Gangs, Gauge, ReadController
from tests.hostile.kinds import DENIED, KINDS, Kind
from tests.hostile.plain import remove_all
from tests.support.background import in_background
from tests.support.beside.refusals import policy_of_pods

SECONDS, GANGS, TASKS = 2240.0, 60, 10
"""With fewer gangs, how long they take is left to chance, and compared with nothing."""
MAX_RATIO = 1.5
MAX_MIB = 300
START_SECONDS = 60.0
"""A gang that takes longer is not waited for, and counts as one that takes so long."""
GONE_SECONDS = 300.0
IDLE_SECONDS = 0.2
REFUSAL = {"expression": "false", "message": "this Pod is not wanted here", "reason": "Forbidden"}
"""By the policy of a cluster: 403."""
POD: Json = {
    "metadata": {"labels": {HEALTHY: ""}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
}
COLUMNS = (
    "kind | gangs beside it: median, max (s) | beside a plain client (s) | ratio | loop lag max (s) | RSS peak (MiB) | "
    "requests/s | log bytes/s | Pod creations/s | of the plain client | Pod bytes/s | of the plain client"
)


@dataclass(frozen=True)
class Round:
    """What one round has shown.

    Attributes:
        starts: How long each healthy gang has taken to run, in seconds.
        late: How many gangs did not run in time.
        lag: The longest answer of the controller, in seconds.
        peak_mib: The peak of its memory.
        rates: What was counted, for each second.
        faults: What must not have happened.
    """

    starts: list[float]
    late: int = 0
    lag: float = 0.0
    peak_mib: float = 0.0
    rates: Counts = field(default_factory=Counts)
    faults: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        """The median of the starts; one that is missing counts as the longest."""
        return median(self.starts + [START_SECONDS] * self.late)

    @property
    def most(self) -> float:
        """The longest start."""
        return max(self.starts + [START_SECONDS] * self.late)


def faults_of(hostile: Round, plain: Round) -> list[str]:
    """Return what is not as it must be of a round; of many gangs, compared with that of the plain client."""
    enough = len(hostile.starts) + hostile.late >= GANGS
    found = [
        f"the {what} start of a gang takes {beside:.2f} s, beside a plain client {alone:.2f} s"
        for what, beside, alone in (("median", hostile.median, plain.median), ("longest", hostile.most, plain.most))
        if enough and beside > MAX_RATIO * alone
    ]
    if hostile.late > plain.late:
        found.append(f"{hostile.late} gangs do not run in {START_SECONDS:g} s, beside a plain client {plain.late}")
    if hostile.peak_mib >= MAX_MIB:
        found.append(f"RSS of {hostile.peak_mib:.0f} MiB, less than {MAX_MIB} is allowed")
    return [*found, *hostile.faults, *(f"beside the plain client: {fault}" for fault in plain.faults)]


def line_of(name: str, hostile: Round, plain: Round) -> str:
    """Return a line of the table of these `COLUMNS`."""
    ratio = max(hostile.median / plain.median, hostile.most / plain.most)
    mine, others = hostile.rates, plain.rates
    return (
        f"| {name} | {hostile.median:.2f}, {hostile.most:.2f} | {plain.median:.2f}, {plain.most:.2f} | {ratio:.2f} "
        f"| {hostile.lag:.2f} | {hostile.peak_mib:.0f} | {mine.requests:,.0f} | {mine.log_bytes:,.0f} "
        f"| {mine.creations:,.0f} | {others.creations:,.0f} | {mine.created_bytes:,.0f} | {others.created_bytes:,.0f} |"
    )


@dataclass
class Run:
    """A run.

    Args:
        cluster: With simulated nodes.
        controller: The controller.
        healthy: The Frameworks of the namespace of the healthy gangs.
        hostile: Those of the namespace of what is hostile.
        plain: Those of the namespace of the plain client.
        seconds: How long the gangs arrive, of all rounds together.
        gangs: How many arrive in each round.
        kinds: What is hostile.
    """

    cluster: Cluster
    controller: ReadController
    healthy: Frameworks
    hostile: Frameworks
    plain: Frameworks
    seconds: float = SECONDS
    gangs: int = GANGS
    kinds: tuple[Kind, ...] = KINDS
    faults: list[str] = field(default_factory=list)
    _numbers: int = 0
    _statuses: dict[str, Json] = field(default_factory=dict)
    """Of the hostile Frameworks when the last round was over, by name: so large an object is edited."""

    def play(self) -> None:
        """Run it, and print the table.

        Raises:
            AssertionError: Something is not as it must be.
        """
        print(f"| {COLUMNS} |\n|{' --- |' * (COLUMNS.count('|') + 1)}", flush=True)
        with contextlib.ExitStack() as policies:
            for place in (self.hostile, self.plain):
                policies.enter_context(policy_of_pods(place.raw, place.namespace, DENIED, **REFUSAL))
            for kind in self.kinds:
                hostile = self._round(kind, is_plain=False)
                plain = self._round(kind, is_plain=True)
                print(line_of(kind.name, hostile, plain), flush=True)
                self.faults += [f"{kind.name}: {fault}" for fault in faults_of(hostile, plain)]
        assert not self.faults, "\n".join(self.faults)

    def _round(self, kind: Kind, *, is_plain: bool) -> Round:
        """Let the gangs arrive while somebody is hostile, and measure."""
        self.controller.serve(self.healthy.namespace if is_plain else "")
        with contextlib.ExitStack() as stack:
            gauge = Gauge(stack.enter_context(contextlib.closing(RawClient(self.cluster))), self.controller)
            gangs = Gangs(stack.enter_context(contextlib.closing(RawClient(self.cluster))), self.healthy, TASKS)
            stack.enter_context(in_background(gangs.follow))
            stack.enter_context(in_background(gangs.remove, every=0.2))
            gauge.begin()
            before, begun = gauge.counts(), time.monotonic()
            stack.enter_context(in_background(gauge.look, every=0.1))
            stack.enter_context(self._plain(kind, gauge) if is_plain else self._hostile(kind, gauge))
            self._submit(gangs, self.seconds / len(self.kinds) / 2)
            self._wait(gangs)
            rates = gauge.counts().since(before, time.monotonic() - begun)
            starts = list(gangs.seconds.values())
        if not is_plain:
            found = self.hostile.raw.get(self.hostile.path)["items"]
            self._statuses = {one["metadata"]["name"]: one["status"] for one in found if "status" in one}
        self._tidy()
        return Round(starts, self.gangs - len(starts), gauge.lag, gauge.peak_mib, rates, tuple(gauge.faults))

    def _submit(self, gangs: Gangs, seconds: float) -> None:
        begun = time.monotonic()
        for number in range(self.gangs):
            time.sleep(max(0.0, begun + number * seconds / self.gangs - time.monotonic()))
            self._numbers += 1
            name = f"healthy{self._numbers}"
            gangs.submitted[name] = time.monotonic()
            self.healthy.create(name, role("worker", TASKS, pod=POD))

    def _wait(self, gangs: Gangs) -> None:
        deadline = max(gangs.submitted.values()) + START_SECONDS
        while len(gangs.started) < self.gangs and time.monotonic() < deadline:
            time.sleep(0.05)

    # --- hostility ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hostile(self, kind: Kind, gauge: Gauge) -> Iterator[None]:
        """Be the tenant, while somebody reads the controller's log as the kind says."""
        self.controller.read_rate = kind.read_rate
        try:
            with _paced(_tenant(kind, self.hostile), gauge), _paced(kind.kubelet(self.hostile), gauge):
                yield
        finally:
            self.controller.read_rate = float("inf")

    @contextlib.contextmanager
    def _plain(self, kind: Kind, gauge: Gauge) -> Iterator[None]:
        """Let a plain client make the same Pods, beside Frameworks on which no controller works."""
        work = {"namespace": self.plain.namespace, "pods": kind.pods}
        command = [sys.executable, "-m", "tests.hostile.plain", str(self.cluster.kubeconfig)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(work).encode())
                process.stdin.close()
                tenant = _tenant(replace(kind, edits=kind.edits_of_plain or kind.edits), self.plain, self._statuses)
                with _paced(tenant, gauge), _paced(kind.kubelet(self.plain), gauge):
                    yield
                assert process.poll() is None, "the plain client has ended"
            finally:
                process.kill()

    # --- between rounds ----------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Remove everything, when nobody makes more of it."""
        self.controller.stop()
        places = (self.healthy, self.hostile, self.plain)
        kinds = ("pods", "configmaps")
        paths = [place.path for place in places]
        paths += [f"/api/v1/namespaces/{place.namespace}/{kind}" for kind in kinds for place in places]
        asyncio.run(remove_all(self.cluster.kubeconfig, paths, GONE_SECONDS))
        self._compact()

    def _compact(self) -> None:
        """Let etcd forget what was removed: some kinds write a gigabyte in a minute, and its quota is eight."""
        url = f"http://127.0.0.1:{self.cluster.port('etcd')}/v3/kv"
        with urllib3.PoolManager(retries=False, timeout=START_SECONDS) as pool:
            answer = pool.request("POST", f"{url}/range", json={"key": "AA==", "count_only": True})
            body = {"revision": answer.json()["header"]["revision"], "physical": True}
            assert pool.request("POST", f"{url}/compaction", json=body).status == 200


def _tenant(kind: Kind, frameworks: Frameworks, statuses: Mapping[str, Json] = MappingProxyType({})) -> Iterator[float]:
    """Apply the Frameworks, some with a status, then edit them; yield the seconds from one step to the next."""
    for manifest in kind.frameworks(frameworks.namespace):
        made = frameworks.raw.create(frameworks.path, manifest)
        name = manifest["metadata"]["name"]
        if name in statuses:
            frameworks.raw.replace(f"{frameworks.path}/{name}/status", made | {"status": statuses[name]})
        yield 0.0
    yield from kind.edits(frameworks)


def _paced(steps: Iterator[float], gauge: Gauge) -> contextlib.AbstractContextManager[None]:
    """Go on with these steps in the background; each yields the seconds until the next may begin."""

    def step() -> None:
        begun, seconds = time.monotonic(), IDLE_SECONDS
        try:
            seconds = next(steps, IDLE_SECONDS)
        except (ApiStatusError, urllib3.exceptions.HTTPError) as error:
            gauge.blame(f"the tenant: {error}")
        time.sleep(max(0.0, begun + seconds - time.monotonic()))

    return in_background(step)
