"""The real node: Pods run on it and reach each other and the API server, and nothing of it outlives `down`."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tarfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import localcluster
from localcluster import Cluster, Depth
from localcluster.client import RawClient
from localcluster.images import images
from localcluster.processes import process
from testkit.waiting import eventually, patience
from tests.support.waiting import becomes

pytestmark = pytest.mark.node

PROBE = "docker.io/frameworkcontroller/probe:dev"
PROGRAMS = {name: f"framework{name}" for name in ("barrier", "controller", "history", "injector")}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def build_probe() -> Path:
    folder = Path(__file__).with_name("probe")
    return images.build("probe", dockerfile=folder / "Dockerfile", context=folder, tag=PROBE)


@pytest.fixture(scope="module")
def cluster(node_cluster: Cluster) -> Cluster:
    node_cluster.load(build_probe())
    return node_cluster


def container(name: str, *args: str, **more: Any) -> dict[str, Any]:
    common = {"name": name, "image": PROBE, "imagePullPolicy": "IfNotPresent", "args": list(args)}
    return {**common, "securityContext": RESTRICTED, **more}


class Pods:
    """The Pods of a namespace, and their Services."""

    def __init__(self, raw: RawClient, cluster: Cluster, namespace: str) -> None:
        self.raw = raw
        self.cluster = cluster
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}"

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def create(self, name: str, *args: str, labels: dict[str, str] | None = None, **more: Any) -> None:
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container("main", *args)]}
        metadata = {"name": name, "labels": labels or {}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | more}
        self.raw.create(f"{self.path}/pods", body)

    def serve(self, name: str, **more: Any) -> str:
        """Create a Service of the Pods with the label `app: peers`, and return its address."""
        spec = {"selector": {"app": "peers"}, "ports": [{"port": 80, "targetPort": 8080}], **more}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        return str(self.raw.create(f"{self.path}/services", body)["spec"]["clusterIP"])

    def reached(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait until a Pod is in one of the phases, and return its status."""

        def check() -> dict[str, Any]:
            status: dict[str, Any] = self.raw.get(f"{self.path}/pods/{name}")["status"]
            assert status["phase"] in phases, status
            return status

        return eventually(check, timeout=60)

    def ended(self, name: str, *containers: str) -> list[str]:
        """Wait until a Pod succeeds, and return what its containers printed."""
        phase = self.reached(name, "Succeeded", "Failed")["phase"]
        logs = [self.kubectl("logs", name, "--container", container) for container in containers]
        assert phase == "Succeeded", logs
        return logs

    def result(self, name: str) -> list[Any]:
        """Wait until a Pod succeeds, and return the lines that it printed, decoded from JSON."""
        return [json.loads(line) for line in self.ended(name, "main")[0].splitlines()]


@pytest.fixture
def pods(raw: RawClient, cluster: Cluster, namespace: str) -> Pods:
    return Pods(raw, cluster, namespace)


def test_up_again_changes_nothing_of_a_node_that_offers_all_processors(raw: RawClient, cluster: Cluster) -> None:
    before = pids(cluster)
    assert localcluster.up(cluster.name, Depth.NODE) == cluster
    assert pids(cluster) == before
    assert all(before.values())
    status = raw.get("/api/v1/nodes/node")["status"]
    assert int(status["allocatable"]["cpu"]) == os.cpu_count()
    assert status["nodeInfo"]["kubeletVersion"] == f"v{cluster.version}"
    # Each followed log needs an inotify instance, of which Linux allows 128; six nodes and their logs exceeded that.
    assert int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()) >= 1024


def test_pods_and_processes_of_this_machine_reach_a_pod_by_address_by_name_and_through_a_service(pods: Pods) -> None:
    pods.serve("peers", clusterIP="None", publishNotReadyAddresses=True)
    balanced = pods.serve("balanced")
    pods.create("server", "serve", labels={"app": "peers"}, hostname="server", subdomain="peers")
    address = pods.reached("server", "Running")["podIP"]
    full = f"server.peers.{pods.namespace}.svc.cluster.local"
    urls = (f"http://{address}:8080", "http://server.peers:8080", f"http://{full}:8080", "http://balanced")
    pods.create("client", "fetch", *urls)
    answers = pods.result("client")
    assert [answer["server"] for answer in answers] == ["server"] * 4
    # Addresses are not translated between Pods, and a Service on the same node keeps the caller's address too.
    assert {answer["client"] for answer in answers[:3]} == {pods.reached("client", "Succeeded")["podIP"]}
    script = f"import urllib.request; print(urllib.request.urlopen('http://{balanced}', timeout=5).status)"

    def the_pod_itself_and_this_machine_reach_it() -> None:
        try:
            assert pods.kubectl("exec", "server", "--", "python3", "-c", script).strip() == "200"
            with socket.create_connection((balanced, 80), timeout=2) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert b"200" in connection.recv(100)
        except (localcluster.LocalClusterError, OSError) as reason:
            raise AssertionError(str(reason)) from reason

    eventually(the_pod_itself_and_this_machine_reach_it, timeout=30)


def test_a_name_that_does_not_exist_is_refused_at_once(pods: Pods) -> None:
    # One question for each name that is tried, and none again: a question without an answer would be the end.
    once = {"options": [{"name": "attempts", "value": "1"}, {"name": "timeout", "value": "30"}]}
    pods.create("resolver", "resolve", "no-such-host.example.com", dnsConfig=once)
    assert pods.result("resolver") == [{"answer": "no such name"}]


@pytest.fixture(scope="module")
def archives(cluster: Cluster) -> dict[str, Path]:
    """The images of the programs, loaded into the node."""
    built = images.build_all(PROGRAMS)
    for file in built.values():
        cluster.load(file)
    return built


def test_a_second_build_of_the_same_content_builds_nothing(archives: dict[str, Path]) -> None:
    before = {name: archive.stat().st_ino for name, archive in archives.items()}
    assert images.build_all(PROGRAMS) == archives
    assert {name: archive.stat().st_ino for name, archive in archives.items()} == before


def test_the_barriers_image_stays_under_60_megabytes_compressed(archives: dict[str, Path]) -> None:
    with tarfile.open(archives["barrier"]) as tar:

        def content(name: str) -> bytes:
            part = tar.extractfile(name)
            assert part
            return part.read()

        layers = json.loads(content("manifest.json"))[0]["Layers"]
        assert 20e6 < sum(len(zlib.compress(content(layer), level=3)) for layer in layers) < 60e6


def test_images_run_their_programs_as_nobody_on_a_read_only_root(archives: dict[str, Path], pods: Pods) -> None:
    pods.raw.merge(pods.path, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    look = (
        "import importlib.util, os, pathlib, sys; module = importlib.import_module(sys.argv[1] + '.__main__');"
        "print(os.getuid(), pathlib.Path(module.__cached__).exists(), importlib.util.find_spec('pip'))"
    )
    for name, module in PROGRAMS.items():
        image, command = images.reference(name), ["/app/bin/python", "-c", look, module]
        containers = [container("help", "--help", image=image), container("look", image=image, command=command)]
        pods.create(name, containers=containers)
    for name in PROGRAMS:
        usage, found = pods.ended(name, "help", "look")
        assert usage.startswith("usage: ")
        assert found == "65532 True None\n"


@contextlib.contextmanager
def another(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster beside the session's; its name tells the session, as `tests.support.clusters` requires."""
    name = f"{cluster.name.removesuffix('-node')}-two"[:30]
    try:
        other = localcluster.up(name, Depth.NODE)
        other.load(build_probe())
        yield other
    finally:
        localcluster.down(name)


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {component: cluster.processes.running(component) for component in cluster.processes.names()}


def left_behind(state: Path, interface: str, container: str) -> list[str]:
    """Return everything that a cluster's node has left on this machine."""
    found = [f"process {identity.pid}" for identity in process.processes_of(state)]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if str(state) in (folder / "cmdline").read_text() or container in (folder / "cgroup").read_text():
                    found.append(f"process {folder.name}")
            except OSError:
                continue
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line]
    found += [str(path) for path in (Path("/sys/class/net", interface), state) if path.exists()]
    # Control groups of other programs may vanish meanwhile; `walk` ignores that.
    return found + [folder for folder, names, _ in os.walk("/sys/fs/cgroup") if container in names]


def machine_wide() -> list[object]:
    """Return what a node must not change of this machine; links of other clusters may change during this test."""
    links = {path.name for path in Path("/sys/class/net").iterdir() if not path.name.startswith("fc-")}
    commands = (("nft", "list", "tables"), ("ip", "netns"))
    printed = [subprocess.check_output(words, text=True) for words in commands]
    return [links, Path("/proc/sys/net/ipv4/ip_forward").read_text(), *printed]


def runs_a_pod(cluster: Cluster, name: str) -> None:
    cluster.kubectl("run", name, f"--image={PROBE}", "--image-pull-policy=IfNotPresent", "--", "wait")
    becomes(lambda: cluster.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"), "Running", timeout=60)


def kill_all(cluster: Cluster) -> None:
    for pid in pids(cluster).values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("killed", [False, True], ids=["running", "after kill -9 of all its processes"])
def test_up_restores_a_killed_node_and_down_leaves_nothing_of_it_beside_a_neighbour(
    cluster: Cluster, pods: Pods, killed: bool
) -> None:
    pods.create("neighbour", "wait")
    pods.reached("neighbour", "Running")
    before = machine_wide()
    with another(cluster) as second:
        runs_a_pod(second, "before")
        kill_all(second)
        assert localcluster.up(second.name, Depth.NODE) == second
        runs_a_pod(second, "stays")
        container = second.kubectl("get", "pod", "stays", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
        container = container.removeprefix("containerd://")
        found = " ".join(left_behind(second.state, second.interface, container))
        assert all(each in found for each in ("process", str(second.state), "/sys/class/net", "/sys/fs/cgroup")), found
        if killed:
            kill_all(second)
        began = time.monotonic()
        second.down()
        assert time.monotonic() - began < patience(30)
    assert left_behind(second.state, second.interface, container) == []
    assert machine_wide() == before
    # With its own token.
    pods.create("after", "ask", "/version")
    (answer,) = pods.result("after")
    assert answer["gitVersion"] == f"v{cluster.version}"
    pods.reached("neighbour", "Running")
