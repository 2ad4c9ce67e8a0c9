"""Frameworks and Pods that wait for the archive, on a real API server, and what is left when there is none any more."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from frameworkcontroller.api import names
from localcluster import Cluster
from localcluster.client import ApiStatusError
from localcluster.processes.ports import free_port
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver
OURS = names.HISTORY_FINALIZER


def finalizers_are(frameworks: Frameworks, name: str, *wanted: str) -> None:
    assert frameworks.get(name)["metadata"].get("finalizers", []) == list(wanted)


def is_gone(frameworks: Frameworks, name: str) -> None:
    found = frameworks.raw.get(frameworks.path)["items"]
    assert name not in {one["metadata"]["name"] for one in found}


def test_a_framework_is_held_without_its_pods_and_let_go_when_the_archive_is_given_up(
    cluster: Cluster, namespace: str, tmp_path: Path, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": ["stay"], "other-0": ["stay"]}
    history = {"url": f"http://127.0.0.1:{free_port()}"}
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace], "history": history})
    with ends_cleanly(process), player.playing():
        process.start()
        frameworks.create("done", role("short", 1))
        frameworks.create("fw", role("worker", 1))
        other = frameworks.create("other", role("other", 1))["metadata"]["name"]
        for name in ("fw", other):
            frameworks.wait(name, "AttemptRunning")
            eventually(lambda name=name: finalizers_are(frameworks, name, OURS))
        frameworks.raw.merge(f"{frameworks.path}/{other}", {"metadata": {"finalizers": ["example.com/x", OURS]}})
        before = frameworks.pods()["other-other-0"]["metadata"]["uid"]

        frameworks.raw.delete(f"{frameworks.path}/fw")
        status = frameworks.wait("fw", "Completed")
        assert status["attemptStatus"]["completionStatus"]["code"] == -210
        with pytest.raises(ApiStatusError, match="HTTP 404"):
            frameworks.config_map("fw")
        assert "fw-worker-0" not in frameworks.pods()
        finalizers_are(frameworks, "fw", OURS)
        frameworks.wait("done", "Completed", 60)  # its Pod has waited for an archive that is away
        finalizers_are(frameworks, "done", OURS)

        process.stop()
        process.settings = {"namespaces": [namespace]}
        process.start()
        eventually(lambda: is_gone(frameworks, "fw"))
        eventually(lambda: finalizers_are(frameworks, "done"))
        eventually(lambda: finalizers_are(frameworks, other, "example.com/x"))
        assert frameworks.status(other)["state"] == "AttemptRunning"
        assert frameworks.pods()["other-other-0"]["metadata"]["uid"] == before
        frameworks.raw.merge(f"{frameworks.path}/{other}", {"metadata": {"finalizers": []}})


class Archive(ThreadingHTTPServer):
    """Keeps what a test says, and notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.kept, self.asked = set[str](), set[str]()


class _Answers(BaseHTTPRequestHandler):
    server: Archive

    def do_POST(self) -> None:
        assert self.path == "/kept"
        uids = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["uids"]
        self.server.asked |= set(uids)
        body = json.dumps({"kept": sorted(self.server.kept & set(uids))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_pod_that_has_ended_is_deleted_when_its_log_is_kept(
    cluster: Cluster, namespace: str, tmp_path: Path, frameworks: Frameworks, player: Player, archive: Archive
) -> None:
    player.plan = {"worker-0": [1, "stay"]}
    history = {"url": f"http://127.0.0.1:{archive.server_address[1]}"}
    process = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace], "history": history})
    with ends_cleanly(process), player.playing():
        process.start()
        frameworks.create("fw", role("worker", 1, retry={"fancyRetryPolicy": False, "maxRetryCount": 1}))

        def is_asked_for() -> str:
            assert archive.asked
            return next(iter(archive.asked))

        uid = eventually(is_asked_for, 30)
        process.stop()
        process.start()
        pod = frameworks.pods()["fw-worker-0"]
        assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (uid, "Failed")
        assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptDeletionPending"
        archive.kept.add(uid)

        def is_retried() -> None:
            assert frameworks.pods()["fw-worker-0"]["metadata"]["uid"] != uid
            assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptRunning"

        eventually(is_retried, 10)
        frameworks.raw.delete(f"{frameworks.path}/fw")
        eventually(lambda: finalizers_are(frameworks, "fw", OURS))
        frameworks.raw.merge(f"{frameworks.path}/fw", {"metadata": {"finalizers": []}})  # as the archive does
        eventually(lambda: is_gone(frameworks, "fw"))
