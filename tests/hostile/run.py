"""One run: each kind in turn, first as a plain client that makes its objects, then as Frameworks; healthy gangs beside.

Both rounds of a kind take the same time, and the healthy gangs arrive at the same moments of it. At the end there is a
table, and the faults.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from localcluster.client import ApiStatusError, RawClient
from localcluster.frameworks import Frameworks, role
from localcluster.restartinggang import RestartingGang
from localcluster.waiting import eventually
from tests.hostile.gauge import HEALTHY, Gangs, Gauge
from tests.hostile.kinds import DENIED, KINDS, MEMBERS, Kind
from tests.support.background import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from localcluster.client import Json
    from tests.hostile.gauge import ReadController

GANGS, TASKS = 20, 10
MAX_RATIO = 1.5
NOISE_SECONDS = 1.0
"""So much longer a gang may take at any rate: it is the noise of a busy machine."""
MAX_MIB = 300
START_SECONDS = 60.0
"""A gang that takes longer is not waited for."""
GONE_SECONDS = 120.0
PAGE = 50
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POD: Json = {
    "metadata": {"labels": {HEALTHY: ""}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
}


@dataclass
class Round:
    """What one round has shown.

    Attributes:
        starts: How long each healthy gang has taken to run.
        late: The gangs that did not run in time.
    """

    starts: list[float]
    late: int
    lag: float
    peak_mib: float
    requests: float
    log_bytes: float
    faults: list[str]

    @property
    def median(self) -> float:
        """The median of the starts; one that is missing counts as the longest."""
        return median(self.starts + [START_SECONDS] * self.late)

    @property
    def most(self) -> float:
        """The longest start."""
        return max(self.starts + [START_SECONDS] * self.late)


@dataclass
class Run:
    """A run.

    Args:
        cluster: With simulated nodes.
        frameworks: Of a namespace in which a controller works.
        other: A namespace in which none does.
        controller: The controller, which runs.
        seconds: How long the gangs arrive, of all rounds together.
        kinds: What is hostile.
    """

    cluster: Cluster
    frameworks: Frameworks
    other: str
    controller: ReadController
    seconds: float
    kinds: tuple[Kind, ...] = KINDS
    faults: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _numbers: int = 0

    def play(self) -> None:
        """Run it, and print the table.

        Raises:
            AssertionError: Something is not as it must be.
        """
        self.lines = [
            (
                "| kind | gangs beside it: median, max (s) | beside a plain client (s) | ratio "
                "| loop lag max (s) | RSS peak (MiB) | requests/s | log bytes/s |"
            ),
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        print(*self.lines, sep="\n", flush=True)
        with _refusing_policy(self.frameworks.raw):
            for kind in self.kinds:
                plain = self._round(kind, is_plain=True)
                hostile = self._round(kind, is_plain=False)
                self._judge(kind, plain, hostile)
        assert not self.faults, "\n".join(self.faults)

    def _judge(self, kind: Kind, plain: Round, hostile: Round) -> None:
        ratio = max(hostile.median / plain.median, hostile.most / plain.most)
        line = (
            f"| {kind.name} | {hostile.median:.1f}, {hostile.most:.1f} | {plain.median:.1f}, {plain.most:.1f} "
            f"| {ratio:.1f} | {hostile.lag:.2f} | {hostile.peak_mib:.0f} | {hostile.requests:,.0f} "
            f"| {hostile.log_bytes:,.0f} |"
        )
        self.lines.append(line)
        print(line, flush=True)
        for what, beside, alone in (
            ("median", hostile.median, plain.median),
            ("longest", hostile.most, plain.most),
        ):
            if beside > max(MAX_RATIO * alone, alone + NOISE_SECONDS):
                text = f"the {what} start of a gang takes {beside:.1f} s, beside a plain client {alone:.1f} s"
                self.faults.append(f"{kind.name}: {text}")
        if hostile.peak_mib >= MAX_MIB:
            self.faults.append(f"{kind.name}: RSS of {hostile.peak_mib:.0f} MiB, less than {MAX_MIB} is allowed")
        self.faults += [f"{kind.name}: {fault}" for fault in hostile.faults]
        self.faults += [f"{kind.name}, the plain client: {fault}" for fault in plain.faults]

    def _round(self, kind: Kind, *, is_plain: bool) -> Round:
        """Let the gangs arrive while somebody is hostile, and measure."""
        with contextlib.ExitStack() as stack:
            gauge = Gauge(stack.enter_context(contextlib.closing(RawClient(self.cluster))), self.controller)
            watching = stack.enter_context(contextlib.closing(RawClient(self.cluster)))
            gangs = Gangs(watching, self.frameworks.namespace, TASKS)
            stack.enter_context(in_background(gangs.follow))
            gauge.begin()
            stack.enter_context(in_background(gauge.look, every=0.1))
            begun, sent, logged = time.monotonic(), gauge.requests, self.controller.read_bytes
            stack.enter_context(self._plain(kind) if is_plain else self._hostile(kind))
            self._submit(gangs, self.seconds / len(self.kinds) / 2)
            self._wait(gangs)
            took = time.monotonic() - begun
            found = Round(
                list(gangs.seconds.values()),
                GANGS - len(gangs.started),
                gauge.lag,
                gauge.peak_mib,
                max(0.0, gauge.requests - sent) / took,
                (self.controller.read_bytes - logged) / took,
                gauge.faults,
            )
        self._tidy()
        return found

    def _submit(self, gangs: Gangs, seconds: float) -> None:
        begun = time.monotonic()
        for number in range(GANGS):
            time.sleep(max(0.0, begun + number * seconds / GANGS - time.monotonic()))
            self._numbers += 1
            name = f"healthy{self._numbers}"
            gangs.submitted[name] = time.monotonic()
            self.frameworks.create(name, role("worker", TASKS, pod=POD))

    def _wait(self, gangs: Gangs) -> None:
        deadline = max(gangs.submitted.values()) + START_SECONDS
        while len(gangs.started) < GANGS and time.monotonic() < deadline:
            time.sleep(0.05)

    # --- hostility ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hostile(self, kind: Kind) -> Iterator[None]:
        """Apply the Frameworks; at the end let go of them."""
        if kind.is_blocked:
            self.controller.is_read.clear()
        try:
            for manifest in kind.frameworks(self.frameworks.namespace):
                self.frameworks.raw.create(self.frameworks.path, manifest)
            if kind.churns:
                gang = RestartingGang(self.frameworks, "hostile", MEMBERS)
                gang.create()
                eventually(gang.has_pods, START_SECONDS)
                with in_background(_Churn(gang)):
                    yield
            else:
                yield
        finally:
            self.controller.is_read.set()

    @contextlib.contextmanager
    def _plain(self, kind: Kind) -> Iterator[None]:
        """Let a plain client make the same objects where no controller works."""
        template = kind.template
        if kind.churns:
            # As the gang's: nobody runs them, the test reports what a kubelet would.
            template = template | {"spec": template["spec"] | {"nodeName": "absent-node"}}
            barrier = {"name": "frameworkbarrier", "image": "none", "restartPolicy": "Always"}
            template["spec"]["initContainers"] = [barrier]
        work = {
            "namespace": self.other,
            "frameworks": kind.frameworks(self.other),
            "template": template,
            "pods": kind.pods,
            "isRetried": kind.is_retried,
        }
        command = [sys.executable, "-m", "tests.hostile.plain", str(self.cluster.kubeconfig)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(work).encode())
                process.stdin.close()
                if kind.churns:
                    gang = RestartingGang(Frameworks(self.frameworks.raw, self.other), "hostile", MEMBERS)
                    eventually(gang.has_pods, START_SECONDS)
                    with in_background(_Churn(gang)):
                        yield
                else:
                    yield
                assert process.poll() is None, "the plain client has ended"
            finally:
                process.kill()

    # --- between rounds ----------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Remove everything, and start the controller again if it has ended."""
        raw = self.frameworks.raw
        pods = {
            namespace: f"/api/v1/namespaces/{namespace}/pods" for namespace in (self.frameworks.namespace, self.other)
        }
        raw.delete(self.frameworks.path, {"propagationPolicy": "Background"})
        raw.delete(Frameworks(raw, self.other).path)
        assert self.controller.process is not None
        if self.controller.process.poll() is not None:
            # It gets the lease when that of its predecessor is over.
            self.controller.start()

        def is_gone() -> None:
            for path in pods.values():
                # The answer has what was deleted, so it is asked for in pages.
                with contextlib.suppress(ApiStatusError):
                    raw.delete(f"{path}?limit={PAGE}", {"gracePeriodSeconds": 0})
                assert not raw.get(f"{path}?limit=1")["items"], path
            assert not raw.get(f"{self.frameworks.path}?limit=1")["items"]

        eventually(is_gone, GONE_SECONDS, interval=0.01)


class _Churn:
    """Lets all members of a gang start again, each time it is called."""

    def __init__(self, gang: RestartingGang) -> None:
        self._gang, self._restarts = gang, 0

    def __call__(self) -> None:
        # A Pod may be replaced meanwhile.
        with contextlib.suppress(AssertionError):
            self._gang.report_all(self._restarts)
        self._restarts += 1


@contextlib.contextmanager
def _refusing_policy(raw: RawClient) -> Iterator[None]:
    """Let the API server refuse Pods with a label, as the policy of a cluster does: 403."""
    (key, value) = next(iter(DENIED.items()))
    policy = {
        "metadata": {"name": "hostile"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ],
                "objectSelector": {"matchLabels": {key: value}},
            },
            "validations": [{"expression": "false", "message": "this Pod is not wanted here", "reason": "Forbidden"}],
        },
    }
    binding = {"metadata": {"name": "hostile"}, "spec": {"policyName": "hostile", "validationActions": ["Deny"]}}
    made = (("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding))
    for plural, body in made:
        raw.create(f"{_ADMISSION}/{plural}", body)
    try:
        yield
    finally:
        for plural, _ in made:
            raw.delete(f"{_ADMISSION}/{plural}/hostile")
