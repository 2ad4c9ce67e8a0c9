"""Whole clusters: up and down again, side by side, after crashes; and which of them a test session removes."""

import contextlib
import functools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import localcluster
from localcluster import Cluster, Depth, SetupError
from localcluster.client import RawClient
from localcluster.cluster import settings
from localcluster.cluster.removal import mounts_below
from localcluster.processes import ports
from localcluster.processes.process import identify, processes_of
from localcluster.processes.supervisor import Supervisor
from localcluster.programs import binaries
from tests.support.clusters import is_required, own_name, remove_abandoned
from tests.support.rows import each
from tests.support.waiting import becomes

COMMAND = [sys.executable, "-m", "localcluster"]
CONTROL_PLANE = ["etcd", "kube-apiserver", "kube-controller-manager"]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a cluster of this test, with the session's prefix, so that the next session removes leftovers."""
    chosen = own_name("own")
    yield chosen
    localcluster.down(chosen)


def pids(name: str) -> dict[str, int | None]:
    processes = Supervisor(settings.state_folder(name))
    return {component: processes.running(component) for component in processes.names()}


def kill(name: str, *components: str) -> None:
    for component in components:
        pid = pids(name)[component]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        becomes(functools.partial(identify, pid), None)


def write_something(cluster: Cluster) -> None:
    with contextlib.closing(RawClient(cluster)) as raw:
        raw.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "something"}})


def something_is_there(cluster: Cluster) -> bool:
    with contextlib.closing(RawClient(cluster)) as raw:
        return "something" in [item["metadata"]["name"] for item in raw.get(CONFIG_MAPS)["items"]]


@pytest.mark.apiserver
class TestLife:
    def test_up_again_changes_nothing_beside_another_cluster_and_down_leaves_nothing(
        self, name: str, control_plane: Cluster
    ) -> None:
        first = localcluster.up(name)
        before = pids(name)
        assert list(before) == CONTROL_PLANE
        assert localcluster.up(name) == first
        assert f"is ready at {first.server}" in command("up", name)
        with pytest.raises(SetupError, match=r"runs with depth control-plane .* remove it with `down`, or choose an"):
            localcluster.up(name, Depth.KWOK)
        other = "1.36" if first.version.startswith("1.30") else "1.30"
        with pytest.raises(SetupError, match=rf"and Kubernetes {other}\."):
            localcluster.up(name, kubernetes=other)
        assert pids(name) == before
        assert localcluster.get(name) == first
        assert Path(command("kubeconfig", name).strip()).is_file()
        assert "kube-system" in command("kubectl", name, "get", "namespaces", "-o", "name")
        with pytest.raises(SetupError, match="only depth node has a node"):
            first.load(Path("/nonexistent/image.tar"))
        assert first.server != control_plane.server
        write_something(first)
        assert not something_is_there(control_plane)
        assert command("down", name) == ""
        assert processes_of(first.state) == []
        assert not first.state.exists()
        assert localcluster.get(name) is None
        assert "error: cluster" in command("kubeconfig", name, code=1)
        localcluster.down(name)
        assert localcluster.get(control_plane.name) == control_plane

    def test_what_was_killed_is_started_again_with_its_data_unless_the_machine_was(self, name: str) -> None:
        cluster = localcluster.up(name)
        write_something(cluster)
        kill(name, "kube-apiserver")
        assert pids(name)["kube-apiserver"] is None
        assert localcluster.get(name) is None
        assert something_is_there(localcluster.up(name))
        kill(name, *reversed(CONTROL_PLANE))
        again = localcluster.up(name)
        assert (again.server, again.admin_token) == (cluster.server, cluster.admin_token)
        assert something_is_there(again)
        kill(name, "kube-apiserver")
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind(("127.0.0.1", cluster.api_port))
            thief.listen()
            elsewhere = localcluster.up(name)
        assert elsewhere.server != cluster.server
        assert something_is_there(elsewhere)
        kill(name, *reversed(CONTROL_PLANE))
        file = cluster.state / "cluster.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "another"}))
        assert not something_is_there(localcluster.up(name))

    def test_down_cleans_up_after_an_up_that_was_killed_and_up_goes_on_after_another(self, name: str) -> None:
        processes = Supervisor(settings.state_folder(name))
        for seconds in (0.3, 0.8, 1.5):
            with starting(name) as starter:
                time.sleep(seconds)
                starter.kill()
            localcluster.down(name)
            assert processes_of(processes.state) == []
            assert not processes.state.exists()
        with starting(name) as starter:
            becomes(lambda: processes.running("kube-apiserver") is None, wanted=False)
            starter.kill()
        localcluster.up(name)
        assert all(pids(name).values())


def starting(name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, "up", "--name", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def command(verb: str, name: str, *arguments: str, code: int = 0) -> str:
    words = [*COMMAND, verb, "--name", name, *(["--", *arguments] if arguments else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return done.stderr if code else done.stdout


@each("name", ["", "Upper", "-a", "a-", "a" * 31, "a/b", "..", "a_b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="a cluster's name has 1 to 30"):
        localcluster.up(name)


def test_a_mount_below_the_folder_is_found_before_the_folder_is_removed() -> None:
    table = (
        "22 1 0:5 / / rw - ext4 /dev/a rw\n"
        "30 22 0:6 / /state/node/data rw - tmpfs tmpfs rw\n"
        "31 22 0:6 / /state/node/data/with\\040space rw - tmpfs tmpfs rw\n"
        "32 22 0:6 / /state-of-another rw - tmpfs tmpfs rw\n"
    )
    assert mounts_below(Path("/state"), table) == ["/state/node/data/with space", "/state/node/data"]


def test_networks_avoid_those_of_the_machine_and_of_other_clusters() -> None:
    routes = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"  # the default route covers nothing
        "eth0\t0000500A\t00000000\t0001\t0\t0\t0\t0000F0FF\t0\t0\t0\n"  # 10.80.0.0/12: 80 to 95
        "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"  # 192.168.0.0/16
    )
    taken = ports.taken_octets(routes)
    assert taken == set(range(80, 96))
    assert ports.choose_octet(80 - 64, taken | {96}) == 97
    assert ports.choose_octet(254 - 64, {254}) == 64
    with pytest.raises(SetupError, match=r"no network 10\.x\.0\.0/16 is free"):
        ports.choose_octet(0, range(256))


def test_a_port_that_was_chosen_is_not_chosen_again_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [ports.free_port() for _ in range(3)]
    draws, draw = iter([port - ports._FIRST_PORT for port in chosen]), secrets.randbelow
    monkeypatch.setattr("secrets.randbelow", lambda most: next(draws, None) or draw(most))
    assert ports.free_port() not in chosen


def test_a_port_is_chosen_once_and_kept_and_again_if_the_writer_of_the_file_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    file.write_text('{"a": 2')
    first = ports.recorded(file, "a")
    assert ports.recorded(file, "b") != first
    assert ports.recorded(file, "a") == first


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of its own."""
    monkeypatch.setenv("FRAMEWORKCONTROLLER_CACHE", str(tmp_path))
    assert binaries.cache_root() == tmp_path
    return tmp_path / "clusters"


def start_something(name: str) -> int:
    return Supervisor(settings.state_folder(name)).start("etcd", ["sleep", "600"], ready=lambda: True)


def test_clusters_of_dead_sessions_are_removed_and_others_stay(clusters: Path) -> None:
    mine, abandoned, persons = own_name("injector-cp"), f"t-{os.getpid()}-1-cp", "somebodys"
    started = {}
    for name in (mine, abandoned, persons):
        settings.create(name, Depth.CONTROL_PLANE, "1.36.3", nodes=5)
        started[name] = start_something(name)
    remove_abandoned()
    assert settings.names() == sorted([mine, persons])
    assert identify(started[abandoned]) is None
    for name in (mine, persons):
        assert identify(started[name]) is not None
        localcluster.down(name)
    assert list(clusters.iterdir()) == []


@each("left", [None, b"{", b'{"name": "\xff"}'])
def test_leftovers_without_settings_that_can_be_read_are_removed_too(left: bytes | None, clusters: Path) -> None:
    pid = start_something("remains")
    if left is not None:
        (settings.state_folder("remains") / "cluster.json").write_bytes(left)
    assert (settings.read("remains"), pids("remains")) == (None, {"etcd": pid})
    localcluster.down("remains")
    assert identify(pid) is None
    assert list(clusters.iterdir()) == []


def test_ci_requires_what_a_machine_may_not_allow() -> None:
    assert all(map(is_required, ({"CI": "true"}, {"FRAMEWORKCONTROLLER_REQUIRE_CLUSTER": "1"})))
    assert not any(map(is_required, ({"CI": "false"}, {})))


def test_without_root_a_real_node_is_refused_with_the_reason(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match=r"^depth node needs root"):
        localcluster.up("mine", Depth.NODE)
    assert not clusters.exists()
