"""Gangs for the benchmarks of the barrier: real Frameworks and the real controller, with Pods that no kubelet runs."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.scene import controller, new_cluster
from frameworkcontroller.api import names
from localcluster import Cluster, Depth, LocalClusterError
from localcluster.client import Json
from testkit.absent_pods import addressed, create, report
from testkit.frameworks import Frameworks
from testkit.waiting import eventually

NAMESPACE = "bench-barrier"
LABELS = {names.BARRIER_LABEL: "enabled"}
"""By which the controller lets Pods read their roster."""
_PREPARE_SECONDS = 600.0


@dataclass
class Stage:
    """The environment of gangs: a namespace with a running controller; `account` is the folder that its Pods mount."""

    cluster: Cluster
    frameworks: Frameworks
    account: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def token(self) -> str:
        """The token of the service account."""
        return (self.account / "token").read_text()

    def environment(self, pod: Json, output: str) -> dict[str, str]:
        """Return what the barrier of any Pod has in its environment, where it is a process of this machine."""
        return {
            "FC_POD_UID": pod["metadata"]["uid"],
            "PATH": os.environ["PATH"],
            "KUBE_APISERVER_ADDRESS": self.cluster.server,
            "FB_TOKEN_DIR": str(self.account),
            "FB_OUTPUT_DIR": output,
            "FB_TERMINATION_LOG": f"{output}/termination-log",
            "FB_FRAMEWORK_JSON": "never",
        }


class Gang:
    """Pods by index of which all but the last get an address in the roster, that of the gang of this name."""

    def __init__(self, stage: Stage, name: str, pods: list[Json]) -> None:
        self._stage, self.name, self._pods = stage, name, pods
        report(stage.frameworks, pods[:-1], addressed)

        def waits() -> None:
            roster = stage.frameworks.roster(name)
            assert (roster["ready"], roster["total"], roster["complete"]) == (len(pods) - 1, len(pods), False)

        eventually(waits, _PREPARE_SECONDS, 0.5)

    def release(self) -> float:
        """Give the last Task its address; return the time just before, in monotonic seconds."""
        at = time.monotonic()
        report(self._stage.frameworks, self._pods[-1:], addressed)
        return at

    def environment(self, index: int, output: str) -> dict[str, str]:
        """Return the whole environment of one Task's barrier as a process of this machine that writes into a folder."""
        pod = self._pods[index]
        given = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"] if "value" in each}
        return given | self._stage.environment(pod, output) | {"FB_PRESET": "tensorflow"}


def of_framework(stage: Stage, tasks: int) -> Gang:
    """Create a Framework, and give all Tasks but the last an address."""
    name = f"gang{next(stage.numbers)}"
    return Gang(stage, name, create(stage.frameworks, name, tasks, **LABELS))


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """Make a control plane, and run a controller in it, for the block."""
    with (
        new_cluster("bench-barrier", Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw),
        TemporaryDirectory() as folder,
        controller(cluster),
    ):
        account = Path(folder)
        eventually(lambda: write_account(cluster, account), 30, 0.2)
        yield Stage(cluster, Frameworks(raw, NAMESPACE), account)


def write_account(cluster: Cluster, folder: Path) -> None:
    """Write the files of a service account of the namespace, as a Pod has them."""
    try:
        token = cluster.token(NAMESPACE, "default")
    except LocalClusterError as absent:
        raise AssertionError("the service account does not exist yet") from absent
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(cluster.ca_file.read_bytes())
    (folder / "namespace").write_text(NAMESPACE)
