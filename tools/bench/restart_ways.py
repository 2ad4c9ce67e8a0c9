"""A gang of three that starts again after crashes, on a real node with the three programs."""

from collections.abc import Iterator

from frameworkcontroller.api import names
from frameworkdemo import deploy, manifests
from frameworkdemo.cluster import local_cluster
from localcluster import Cluster, LocalClusterError
from localcluster.client import Json, RawClient
from localcluster.images import images
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

NAMESPACE = "bench-restart"
RANKS = 3
_SECONDS = 180.0
_LOOK_SECONDS = 0.1
# Writes when it starts to run, and exits when the file is there. It obeys SIGTERM.
_PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(time.time())
while not os.path.exists("/tmp/crash"):
    time.sleep(0.02)
sys.exit(17)
"""
_CRASH = "import pathlib, time; print(time.time()); pathlib.Path('/tmp/crash').touch()"
IN_PLACE, FRAMEWORK_RETRY = "in-place", "framework-retry"
WAYS = {IN_PLACE: "in-place restart", FRAMEWORK_RETRY: "Framework retry"}
"""How the gang starts again, and the names of the ways in the table."""


def crashes(cluster: Cluster, raw: RawClient, number: int) -> Iterator[tuple[str, list[float]]]:
    """Install the three programs on the node, and yield the seconds of so many crashes of each way."""
    for archive in images.build_all(manifests.PROGRAM_IMAGES).values():
        cluster.load(archive)
    connection = local_cluster(cluster)
    programs = manifests.programs(manifests.ImageNames())
    (config,) = (one["data"] for one in programs if one["kind"] == "ConfigMap")
    config["frameworkcontroller.yaml"] += "\ncrashLoopPause: false\n"  # the ranks run for seconds
    deploy.install(connection, programs)
    for way in WAYS:
        yield way, _Crashes(cluster, raw, way).measure(number)


class _Crashes:
    """A gang whose rank 1 crashes again and again, and which starts again in one of the `WAYS`."""

    def __init__(self, cluster: Cluster, raw: RawClient, way: str) -> None:
        self._cluster, self._frameworks, self._way = cluster, Frameworks(raw, NAMESPACE), way
        self._name = way.replace("-", "")

    def measure(self, number: int) -> list[float]:
        """Return the seconds of each crash."""
        policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
        worker = role("worker", RANKS, pod=_template(self._way), completion=policy)
        retry = {"fancyRetryPolicy": False, "maxRetryCount": -2 if self._way == FRAMEWORK_RETRY else 0}
        self._frameworks.create(self._name, worker, retryPolicy=retry)
        try:
            self._wait_for_all(0.0)
            found = []
            for crash in range(number):
                found.append(self._crash())
                print(f"{self._way}: crash {crash + 1}: {found[-1]:.1f} s", flush=True)
            return found
        finally:
            self._frameworks.raw.delete(f"{self._frameworks.path}/{self._name}")
            eventually(self._is_empty, _SECONDS, 0.5)

    def _crash(self) -> float:
        """Let rank 1 exit, and return the seconds until all run again."""
        after = float(self._kubectl("exec", 1, "--", "python3", "-c", _CRASH))
        return self._wait_for_all(after) - after

    def _wait_for_all(self, after: float) -> float:
        """Wait until all ranks have begun to run after a time; return when the last of them did."""

        def check() -> float:
            starts = [float(self._kubectl("logs", index)) for index in range(RANKS)]
            assert min(starts) > after, f"{sum(start > after for start in starts)} of {RANKS} run"
            return max(starts)

        return eventually(check, _SECONDS, _LOOK_SECONDS)

    def _kubectl(self, verb: str, index: int, *more: str) -> str:
        """Run kubectl on the Pod of a rank; AssertionError while the rank does not run."""
        pod = names.pod_name(self._name, "worker", index)
        try:
            found = self._cluster.kubectl(verb, pod, "-c", "main", "-n", NAMESPACE, *more)
        except LocalClusterError as error:
            raise AssertionError(error) from error
        # The kubelet says as a log that a container which was replaced just now has none.
        assert found, f"rank {index} has written nothing yet"
        assert not found.startswith("unable to retrieve"), found
        return found

    def _is_empty(self) -> None:
        assert not self._frameworks.pods()


def _template(way: str) -> Json:
    annotations = {names.RESTART_ANNOTATION: names.IN_PLACE, names.RESTART_LIMIT_ANNOTATION: "0"}
    main = {
        "name": "main",
        "image": images.reference("barrier"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-uc", _PROGRAM],
    }
    return {
        "metadata": {
            "labels": {names.BARRIER_LABEL: "enabled"},
            "annotations": annotations if way == IN_PLACE else {},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [main],
        },
    }
