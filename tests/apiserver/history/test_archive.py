"""The archive as a process, beside a controller, on a real API server: whatever ends when, nothing is lost."""

import json
import random
import re
import ssl
import time
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import trustme

from frameworkcontroller.api import names
from localcluster import Cluster
from testkit.frameworks import POD, ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.apiserver import create_nested
from tests.support.beside.player import Player
from tests.support.history import HistoryProcess
from tests.support.http import fetch, serving
from tests.support.postgres import postgres
from tests.support.s3 import S3Server
from tests.support.waiting import has

pytestmark = pytest.mark.apiserver

RETRY: dict[str, Any] = {"retry": {"fancyRetryPolicy": False, "maxRetryCount": 3}}
IN_A_SMALL_FOLDER = ("unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c")
IN_A_SMALL_FOLDER += ('mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"',)


@pytest.fixture
def history(cluster: Cluster, namespace: str, tmp_path: Path) -> HistoryProcess:
    """The archive of the test's namespace, which is not started yet."""
    return HistoryProcess(cluster, tmp_path, (namespace,))


@pytest.fixture
def process(cluster: Cluster, namespace: str, tmp_path: Path, history: HistoryProcess) -> ControllerProcess:
    """A controller that waits for the archive."""
    return ControllerProcess(cluster, tmp_path, {"namespaces": [namespace], "history": {"url": history.url}})


def is_gone(frameworks: Frameworks, name: str) -> None:
    assert name not in {one["metadata"]["name"] for one in frameworks.raw.get(frameworks.path)["items"]}


def is_held(frameworks: Frameworks, name: str) -> None:
    assert names.HISTORY_FINALIZER in frameworks.get(name)["metadata"].get("finalizers", [])


def is_deleted(history: HistoryProcess, name: str) -> dict[str, Any]:
    found = history.framework(name)
    assert found["deleted"] is not None
    return found


def test_a_life_is_kept_beyond_its_end(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [1, 1, 0]}
    with ends_cleanly(process), history.running(), player.playing():
        process.start()
        frameworks.create("fw", role("worker", 2, **RETRY))
        status = frameworks.wait("fw", "Completed", 60)
        eventually(lambda: is_held(frameworks, "fw"), 15)
        frameworks.raw.delete(f"{frameworks.path}/fw")
        eventually(lambda: is_gone(frameworks, "fw"), 10)
        row = eventually(lambda: is_deleted(history, "fw"), 10)
    assert (row["state"], row["result"], row["code"], row["gap"]) == ("Completed", "Succeeded", 0, "")
    with history.reader() as reader:
        runs = {(one["index"], one["run"]): (one["code"], one["gap"]) for one in reader.runs(row["id"])}
        assert runs == {(0, 0): (1, ""), (0, 1): (1, ""), (0, 2): (0, ""), (1, 0): (0, "")}
        (attempt,) = reader.attempts(row["id"])
        assert (attempt["code"], attempt["gap"], attempt["tasks"]) == (0, "", 2)
        spans = reader.spans(row["id"])
        assert all(one["ended"] is not None for one in spans)
        assert {"scheduling", "running"} <= {one["state"] for one in spans}
        kept = reader.whole(row["id"])
        assert kept is not None
        assert status["attemptStatus"]["instanceUID"].encode() in kept
        # A Pod that nobody's kubelet runs has no log: that is known, too.
        assert {one["run"] for one in reader.logs(row["id"])} >= {0, 1}
        assert reader.events(row["id"])
        roster = reader.roster(row["id"], 0)
        assert roster is not None
        assert json.loads(roster)["framework"]["uid"] == row["uid"]


def test_a_framework_as_deep_as_the_api_server_stores_is_kept_and_goes(
    cluster: Cluster, history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks
) -> None:
    """It was left out, and so held for ever once it was deleted."""
    one = ("framework/deep", f"--namespace={frameworks.namespace}", "--timeout=30s")  # Python's JSON follows it no more
    with ends_cleanly(process), history.running():
        process.start()
        create_nested(cluster, frameworks, "deep", 9900)
        cluster.kubectl("wait", f"--for=jsonpath={{.metadata.finalizers[0]}}={names.HISTORY_FINALIZER}", *one)
        cluster.kubectl("delete", *one)
        row = eventually(lambda: is_deleted(history, "deep"), 10)
        assert (row["attempts"], row["gap"]) == (1, "")
        assert "… (cut)" in history.page(f"/frameworks/{frameworks.namespace}/deep/spec")


def test_an_archive_that_is_away_delays_a_retry_for_half_a_minute_and_loses_no_last_state(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan = {"worker-0": [1, 0], "stays-0": ["stay"]}
    with ends_cleanly(process), player.playing():
        process.start()
        begun = time.monotonic()
        frameworks.create("again", role("worker", 1, **RETRY))
        frameworks.create("deleted", role("stays", 1))
        eventually(lambda: frameworks.created("again-worker-0", "deleted-stays-0"), 20)
        frameworks.wait("deleted", "AttemptRunning")
        eventually(lambda: is_held(frameworks, "deleted"), 15)
        frameworks.raw.delete(f"{frameworks.path}/deleted")
        # Its Pod goes at once, and the object waits.
        eventually(lambda: frameworks.created("again-worker-0"), 20)
        assert frameworks.get("deleted")["metadata"]["deletionTimestamp"]
        frameworks.wait("again", "Completed", 90)
        assert 30 <= time.monotonic() - begun < 80
        uid = frameworks.get("again")["metadata"]["uid"]
        eventually(lambda: is_held(frameworks, "again"), 15)
        frameworks.raw.delete(f"{frameworks.path}/again")
        assert frameworks.get("again")["metadata"]["deletionTimestamp"]
        with history.running():
            for name in ("again", "deleted"):
                eventually(lambda name=name: is_gone(frameworks, name), 20)
                eventually(lambda name=name: is_deleted(history, name), 10)
        # It was deleted while it ran: the end of its attempt is kept, too.
        assert history.framework("deleted")["code"] == -210
        row = history.framework("again", uid)
        assert (row["state"], row["result"], row["deleted"] is not None) == ("Completed", "Succeeded", True)
        with history.reader() as reader:
            runs = {one["run"]: (one["code"], bool(one["gap"])) for one in reader.runs(row["id"])}
        assert runs == {0: (None, True), 1: (0, False)}
        assert history.framework("deleted")["deleted"] is not None


def test_an_archive_that_is_killed_again_and_again_has_the_same_in_the_end(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    draw = random.Random(7)
    player.plan = {"worker-0": [1, 1, 0]}
    with ends_cleanly(process), player.playing():
        process.start()
        history.start()
        for number in range(12):
            frameworks.create(f"fw{number}", role("worker", 2, **RETRY))
        for _ in range(8):
            time.sleep(draw.uniform(0.2, 2))
            history.kill()
            history.start(ready=False)
        history.kill()
        with history.running():
            for number in range(12):
                frameworks.wait(f"fw{number}", "Completed", 120)
                frameworks.raw.delete(f"{frameworks.path}/fw{number}")
            for number in range(12):
                eventually(lambda number=number: is_gone(frameworks, f"fw{number}"), 30)
                eventually(lambda number=number: is_deleted(history, f"fw{number}"), 10)
        for number in range(12):
            row = history.framework(f"fw{number}")
            assert (row["state"], row["result"], row["deleted"] is not None) == ("Completed", "Succeeded", True)
            with history.reader() as reader:
                runs = {(one["index"], one["run"]): one for one in reader.runs(row["id"])}
            assert sorted(runs) == [(0, 0), (0, 1), (0, 2), (1, 0)]
            for (_, run), one in runs.items():
                assert one["gap"] or one["ended"] is not None, (number, run)
            assert runs[0, 2]["code"] == 0


def test_a_database_that_is_away_holds_what_is_deleted_and_nothing_is_lost(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    with postgres() as server, ends_cleanly(process), player.playing():
        history.database = server.database()
        process.start()
        with history.running():
            frameworks.create("before", role("worker", 1))
            frameworks.wait("before", "Completed", 60)
            eventually(lambda: history.framework("before"), 10)
            server.stop()
            try:
                frameworks.create("meanwhile", role("worker", 1))
                frameworks.wait("meanwhile", "Completed", 90)
                for name in ("before", "meanwhile"):
                    eventually(lambda name=name: is_held(frameworks, name), 15)
                    frameworks.raw.delete(f"{frameworks.path}/{name}")
                time.sleep(3)
                assert len(frameworks.raw.get(frameworks.path)["items"]) == 2
            finally:
                server.start()
            for name in ("before", "meanwhile"):
                eventually(lambda name=name: is_gone(frameworks, name), 60)
                row = eventually(lambda name=name: is_deleted(history, name), 10)
                assert (row["state"], row["result"], row["attempts"], row["gap"]) == ("Completed", "Succeeded", 1, "")


def test_a_database_that_is_full_delays_a_retry_for_half_a_minute_says_so_and_loses_no_last_state(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    (small := tmp_path / "small").mkdir()
    history.prefix, history.database = (*IN_A_SMALL_FOLDER, str(small)), f"sqlite:///{small}/history.db"
    player.plan = {"worker-0": [1, 0], "stays-0": ["stay"]}

    def kept(path: str) -> Any:
        return json.loads(history.page(f"/api/v1/frameworks/{frameworks.namespace}/{path}"))

    with ends_cleanly(process), player.playing(), history.running():
        process.start()
        frameworks.create("deleted", role("stays", 1))
        frameworks.wait("deleted", "AttemptRunning")
        eventually(lambda: is_held(frameworks, "deleted"), 15)
        eventually(lambda: kept("deleted"), 10)
        assert history.process is not None
        ballast = Path(f"/proc/{history.process.pid}/root{small}/ballast")
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
            file.writelines(repeat(bytes(1 << 16)))
        begun = time.monotonic()
        frameworks.create("again", role("worker", 1, **RETRY))
        frameworks.raw.delete(f"{frameworks.path}/deleted")
        # Its Pod goes at once, and the object waits.
        eventually(lambda: frameworks.created("again-worker-0"), 20)
        frameworks.wait("again", "Completed", 90)
        assert 30 <= time.monotonic() - begun < 80
        frameworks.raw.delete(f"{frameworks.path}/again")
        assert frameworks.get("deleted")["metadata"]["deletionTimestamp"]
        assert "database or disk is full" in history.log
        told = fetch(history.internal_port, "/metrics")[1]
        assert re.search("^frameworkhistory_database_errors_total [1-9]", told, re.MULTILINE), told
        assert re.search(r"^frameworkhistory_seconds_behind [1-9]\d", told, re.MULTILINE), told
        ballast.unlink()
        for name, code in (("again", 0), ("deleted", -210)):
            eventually(lambda name=name: is_gone(frameworks, name), 60)
            status, gap = kept(name)["framework"]["status"], kept(name)["archive"]["gap"]
            end = status["attemptStatus"]["completionStatus"]["code"]
            assert (status["state"], end, gap) == ("Completed", code, "")
        runs = {one["run"]: (one["code"], one["gap"]) for one in kept("again/runs")["runs"]}
        assert runs == {0: (1, ""), 1: (0, "")}


def test_logs_are_kept_in_a_bucket_and_shown_from_there_those_of_a_time_when_it_was_away_too(
    history: HistoryProcess, process: ControllerProcess, frameworks: Frameworks, player: Player, s3: S3Server
) -> None:
    raw, where, tls = frameworks.raw, frameworks.namespace, ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    history.more = ("--logs=s3://bucket/logs",)
    worker, log = role("worker", 1, pod={"spec": POD["spec"] | {"nodeName": where}}), b"2026-01-01T12:00:00Z <hello>\n"

    def shows(name: str, words: str = "&lt;hello&gt;") -> None:
        assert words in history.page(f"/frameworks/{where}/{name}/log")

    with serving(lambda _: (200, log), tls=tls) as kubelet, ends_cleanly(process), player.playing(), history.running():
        endpoint = {"kubeletEndpoint": {"Port": int(kubelet.rpartition(":")[2])}}
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        raw.create("/api/v1/nodes", {"metadata": {"name": where}})
        raw.merge(f"/api/v1/nodes/{where}/status", {"status": {"addresses": addresses, "daemonEndpoints": endpoint}})
        process.start()
        frameworks.create("before", worker)
        frameworks.wait("before", "Completed", 60)
        eventually(lambda: shows("before"), 10)
        s3.stop()
        shows("before", "cannot be read from where it is kept")
        frameworks.create("meanwhile", worker)
        has(lambda: history.log, "a log is tried again to be kept", 30)
        s3.start()
        frameworks.wait("meanwhile", "Completed", 60)
        for name in ("before", "meanwhile"):
            frameworks.raw.delete(f"{frameworks.path}/{name}")
            eventually(lambda name=name: is_gone(frameworks, name), 30)
            eventually(lambda name=name: shows(name), 60)
        raw.delete(f"/api/v1/nodes/{where}")
    assert len([*(s3.folder / "data/bucket/logs" / where).glob("*/0/worker-0/*.log.gz")]) == 2
