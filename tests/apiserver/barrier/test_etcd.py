"""A real etcd reads its whole cluster from the variables of the preset: it forms, comes back and grows."""

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.render import render
from localcluster.processes import ports
from localcluster.programs import binaries
from testkit.waiting import eventually
from tests.barrier.gangs import environment, released, roster

pytestmark = pytest.mark.apiserver


class Members:
    """The members as processes on loopback addresses of their own, each started as its Pod would start it.

    Args:
        folder: For their files and data.
        port: The port of clients; peers use the next one.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.etcd = binaries.find("etcd", kubernetes=binaries.kubernetes_version(None))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def address(self, index: int) -> str:
        return f"127.0.77.{index + 1}"

    def start(self, index: int, *, count: int = 3, generation: int = 1, attempt: int = 0) -> str:
        """Start a member as the barrier of its Pod prepares it, and return the initial state of its cluster."""
        document = roster({"etcd": count}, generation=generation)
        for task in document["taskRoles"][0]["tasks"]:
            task[1] = self.address(task[0])
        document["taskRoles"][0]["tasks"][index][3] = attempt
        files = self.folder / f"files-{index}-{attempt}"
        files.mkdir()
        environ = {"FB_PRESET": "etcd", "FB_PORTS": f"etcd={self.port}", "FB_OUTPUT_DIR": str(files)}
        read = settings.parse(environment("etcd", index, **environ))
        for file in render(released(document, "etcd", index), read, Container()).files:
            (files / file.name).write_bytes(file.data)
            (files / file.name).chmod(file.mode)
        data = self.folder / f"data-{index}"
        command = [files / "run", self.etcd, "--data-dir", data, "--unsafe-no-fsync", "--log-level=error"]
        with (self.folder / f"log-{index}").open("ab") as log:
            self.processes[index] = subprocess.Popen(command, stderr=log, stdout=log, env={"PATH": "/usr/bin:/bin"})
        env = (files / "env").read_text()
        return "existing" if "ETCD_INITIAL_CLUSTER_STATE='existing'" in env else "new"

    def stop(self, index: int) -> None:
        self.processes[index].kill()
        self.processes[index].wait()

    def call(self, index: int, path: str, **body: Any) -> dict[str, Any]:
        """Return the answer of a member; AssertionError while there is none, as where a cluster has just changed."""
        url, headers = f"http://{self.address(index)}:{self.port}/v3/{path}", {"Content-Type": "application/json"}
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=20) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except OSError as fault:
            raise AssertionError(f"{fault}: {(self.folder / f'log-{index}').read_text()[-2000:]}") from fault

    def holds(self, index: int, *names: str) -> None:
        """Wait until a member knows these members, and the key of the test."""

        def check() -> None:
            known = self.call(index, "cluster/member/list")["members"]
            assert {one.get("name", "") for one in known} == set(names)
            assert [one["value"] for one in self.call(index, "kv/range", key=KEY).get("kvs", [])] == [VALUE]

        eventually(check, 60)


KEY, VALUE = (base64.b64encode(text).decode() for text in (b"key", b"value"))
THREE = ("mnist-etcd-0", "mnist-etcd-1", "mnist-etcd-2")


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    def two_in_a_row() -> int:
        port = ports.free_port()
        assert port < 65535
        assert ports.is_free(port + 1)
        return port

    started = Members(tmp_path, eventually(two_in_a_row))
    yield started
    for index in started.processes:
        started.stop(index)


def test_etcd_forms_a_cluster_takes_a_member_back_and_grows_by_the_variables_alone(members: Members) -> None:
    assert {members.start(index) for index in range(3)} == {"new"}
    eventually(lambda: members.call(0, "kv/put", key=KEY, value=VALUE), 60)
    members.holds(2, *THREE)
    # A retry with the data of the volume.
    members.stop(1)
    members.start(1, generation=2, attempt=1)
    members.holds(1, *THREE)
    # A rescale: the cluster learns of it first, as etcd demands, then the new member joins.
    urls = [f"http://{members.address(3)}:{members.port + 1}"]
    eventually(lambda: members.call(0, "cluster/member/add", peerURLs=urls), 60)
    assert members.start(3, count=4, generation=3) == "existing"
    members.holds(3, *THREE, "mnist-etcd-3")
