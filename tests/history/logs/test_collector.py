"""Logs are kept, or told to be lost: of Pods that end, restart, are deleted and replaced, over faults of all around."""

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from frameworkhistory.logs.reader import LOST, SNAPSHOT, Reader
from frameworkhistory.logs.tail import CUT
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from testkit.waiting import eventually_async
from tests.client.documents import Json, container
from tests.history.logs.server import IN_PLACE, PREFIX, Archive, Log, Scene, collecting, ended, lines, pod
from tests.kube.virtualtime import in_virtual_time
from tests.support.memory import memory

NAME, UID = "training-worker-0", "uid-worker-0"
WAITING = container(state="waiting", restarts=1, reason="CrashLoopBackOff")
GONE_TEXT = b"unable to retrieve container logs for containerd://1"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with collecting(tmp_path) as found:
        yield found


async def kept(scene: Scene, uid: str = UID) -> None:
    async def check() -> None:
        assert scene.collector.kept(uid)

    await eventually_async(check, timeout=30)


@contextlib.asynccontextmanager
async def listing(scene: Scene) -> AsyncIterator[None]:
    """Let the informer find the Pods of the server."""
    running = asyncio.create_task(scene.collector.run())
    await asyncio.wait_for(scene.collector.informers[0].synced.wait(), 30)
    yield
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def rows(scene: Scene, number: int) -> None:
    async def check() -> None:
        assert len(scene.archive.rows) == number

    await eventually_async(check, timeout=30)


def barrier(state: str, restarts: int = 0, code: int = 0) -> Json:
    found = container("frameworkbarrier", state, restarts=restarts)
    found["state"][state] |= {"exitCode": code} if state == "terminated" else {}
    return found


ALL = lines(*range(3))
# A Pod, its log, that of the run before, and what is known of it then: by restart the text, or why there is none.
ENDED: dict[str, tuple[Json, bytes | None, bytes | None, dict[int, bytes | str]]] = {
    "has ended": (ended(), ALL, None, {0: ALL}),
    "ended without a last newline": (ended(), ALL[:-1], None, {0: ALL[:-1]}),
    "has written nothing": (ended(), b"", None, {0: ""}),
    "was restarted once": (ended(restarts=1), ALL, lines(7), {0: lines(7), 1: ALL}),
    "was restarted often": (ended(restarts=9), ALL, lines(7), {7: LOST, 8: lines(7), 9: ALL}),
    "waits for its next start": (pod("worker-0", WAITING), ALL, lines(7), {0: lines(7), 1: ALL}),
    "runs again": (pod("worker-0", container(restarts=1)), ALL, lines(7), {0: lines(7)}),
    "runs again in place": (pod("worker-0", container(restarts=1), more=IN_PLACE), None, None, {0: LOST}),
    "is gone at its node": (ended(), GONE_TEXT, None, {0: LOST}),
    "has no log": (ended(), None, None, {0: LOST}),
    "never ran": (pod("worker-0", container(state="waiting"), phase="Failed"), None, None, {}),
}


@pytest.mark.parametrize("name", ENDED)
async def test_each_run_is_kept_or_known_to_be_lost(scene: Scene, name: str) -> None:
    document, log, previous, expected = ENDED[name]
    if log is not None:
        scene.server.logs[NAME] = Log(log)
    if previous is not None:
        scene.server.previous[NAME] = Log(previous)
    scene.show(document)
    await rows(scene, len(expected))
    for restart, found in expected.items():
        row = scene.archive.row(restart=restart)
        if isinstance(found, bytes):
            assert await scene.archive.text(restart=restart) == found
            assert (row["bytes"], row["gap"], row["is_whole"]) == (len(found), "", True)
            assert row["packed"] == len(gzip.compress(found, 6))
            assert row["key"] == f"demo/framework-uid/0/worker-0/0-{UID}-main-{restart}.log.gz"
        else:
            assert (row["key"], row["gap"], row["is_whole"]) == ("", found, not found)
    if document["status"]["phase"] != "Running":
        await kept(scene)


async def test_where_no_logs_are_kept_pods_are_followed_all_the_same(scene: Scene) -> None:
    scene.collector._storage = None
    scene.show(ended())
    assert list(scene.collector.pods("demo", "training")) == ["worker-0"]
    assert scene.collector.kept(UID)
    scene.show(None)
    assert (scene.collector.pods("demo", "training"), scene.server.asked) == ({}, [])
    assert not scene.collector._uids, "a Framework of no Pods takes no memory"


async def test_init_containers_are_kept_where_they_have_failed_before_the_application(scene: Scene) -> None:
    none = container(state="waiting", reason="PodInitializing")
    ran = container(state="terminated", exitCode=1)
    scene.show(pod("worker-0", none, init=[barrier("terminated", code=201)], phase="Failed"), Log(lines(1)))
    scene.show(pod("worker-1", none, init=[barrier("terminated")]), Log(lines(1)))
    scene.show(pod("worker-2", ran, init=[barrier("terminated", code=143)], phase="Failed"), Log(lines(1)))
    await rows(scene, 2)
    assert await scene.archive.text(name="frameworkbarrier") == lines(1)
    assert scene.archive.row("worker-2")["key"]


@pytest.mark.parametrize("faults", [[429], [500, 503], [-20], [-40, 502, -90]], ids=str)
async def test_faults_of_the_api_server_lose_nothing(scene: Scene, faults: list[int]) -> None:
    scene.server.faults.extend(faults)
    scene.show(ended(), Log(ALL))
    assert not scene.collector.kept(UID)
    await kept(scene)
    assert await scene.archive.text() == ALL
    assert scene.server.answers[NAME] == len(faults) + 1


async def test_what_cannot_be_read_for_long_is_a_gap_with_the_reason(tmp_path: Path) -> None:
    async with collecting(tmp_path, read_seconds=1.0) as scene:
        scene.server.faults.extend([403] * 9)
        scene.show(ended())
        await kept(scene)
        assert scene.archive.row()["gap"] == "its log could not be read: 403 Forbidden: no"
        assert scene.server.answers[NAME] < 9


async def test_only_the_end_of_a_long_log_is_kept_unless_all_is_wanted(tmp_path: Path) -> None:
    written = lines(*range(3000))
    async with collecting(tmp_path, log_bytes=4000) as scene:
        for index, more in enumerate([{}, {f"{PREFIX}/keep-log": "whole"}]):
            scene.show(ended(f"worker-{index}", more=more), Log(written))
            await kept(scene, f"uid-worker-{index}")
        assert written.endswith(text := await scene.archive.text())
        assert 3900 < len(text) <= 4000
        assert text.startswith(b"2026-")
        assert not scene.archive.row()["is_whole"]
        assert await scene.archive.text("worker-1") == written
        assert scene.archive.row("worker-1")["is_whole"]
        assert [one.get("tailLines") for one in scene.server.asked] == ["130", None]


async def test_one_line_of_50_mb_costs_no_more_than_another_log(scene: Scene) -> None:
    scene.server.logs[NAME] = Log(lines(1)[:-1], *[b"x" * 1_000_000] * 50)
    with memory() as used:
        scene.show(ended())
        await kept(scene)
        assert used() < 8 << 20
    text = await scene.archive.text()
    assert text.startswith(lines(1)[:30] + CUT + b"xxx")
    assert len(text) < (1 << 20) + 100


async def test_storage_that_was_away_gets_all_and_one_that_stays_away_makes_gaps(tmp_path: Path) -> None:
    async with collecting(tmp_path, store_seconds=4.0) as scene:
        scene.server.logs[NAME] = Log(ALL)
        (tmp_path / "logs").rmdir()
        (tmp_path / "logs").write_text("no directory")
        scene.show(ended())
        await asyncio.sleep(1)
        assert not scene.archive.rows
        (tmp_path / "logs").unlink()
        await kept(scene)
        assert await scene.archive.text() == ALL
        assert scene.server.answers[NAME] == 1

    (tmp_path / "away").mkdir()
    async with collecting(tmp_path / "away", store_seconds=0.0) as scene:
        scene.server.logs[NAME] = Log(ALL)
        (tmp_path / "away" / "logs").rmdir()
        (tmp_path / "away" / "logs").write_text("no directory")
        scene.show(ended())
        await kept(scene)
        assert scene.archive.row()["gap"].startswith("its log could not be stored: ")


async def test_a_database_that_was_away_gets_each_row_and_nothing_is_called_kept_before_not_even_at_the_end(
    tmp_path: Path,
) -> None:
    async with collecting(tmp_path) as scene:
        scene.archive.is_away = True
        scene.show(ended(), Log(ALL))
        await asyncio.sleep(1)
        assert not scene.collector.kept(UID)
        await scene.collector.close()
        assert not scene.collector.kept(UID)
        assert not scene.archive.rows
    async with collecting(tmp_path) as scene:
        scene.archive.is_away = True
        scene.show(ended(), Log(ALL))
        await asyncio.sleep(0.5)
        scene.archive.is_away = False
        await kept(scene)
        assert await scene.archive.text() == ALL


async def test_what_has_a_row_is_not_read_again_and_what_has_none_is_stored_under_the_same_key(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for killed_before_the_row in (False, True):
        async with collecting(tmp_path, archive) as scene:
            scene.show(ended(), Log(ALL))
            await kept(scene)
            assert scene.server.answers[NAME] == (not archive.asked or killed_before_the_row or archive.asked == 1)
        if not killed_before_the_row:
            key = archive.row()["key"]
            async with collecting(tmp_path, archive) as scene:
                scene.show(ended())
                await kept(scene)
                assert not scene.server.asked
            archive.rows.clear()
    assert archive.row()["key"] == key
    assert len(list((tmp_path / "logs").rglob("*.gz"))) == 1


async def test_a_gang_that_restarts_in_place_is_followed_through_its_epochs(scene: Scene) -> None:
    own: dict[str, Any] = {"more": IN_PLACE}
    scene.server.faults.append(-len(lines(0, 1)) - 5)
    log = Log(lines(0), runs=True)
    scene.show(pod("worker-0", container(), init=[barrier("running")], **own), log)
    await asyncio.sleep(0.2)
    await log.write(lines(1))
    await log.write(lines(2))  # of which the connection breaks
    await asyncio.sleep(2.5)
    await log.write(lines(3) + b"2026-01-01T12:00:00.900000000Z no newline", runs=False)
    del scene.server.logs[NAME]  # the kubelet removes it
    ending = container(state="terminated", exitCode=1)
    scene.show(pod("worker-0", ending, init=[barrier("running")], **own))
    await rows(scene, 1)
    assert await scene.archive.text() == lines(*range(4)) + b"2026-01-01T12:00:00.900000000Z no newline"
    scene.show(pod("worker-0", container(restarts=1), init=[barrier("running", 1)], **own), Log(lines(50), runs=True))
    await asyncio.sleep(0.3)
    await scene.server.logs[NAME].write(runs=False)
    scene.show(ended(restarts=1, init=[barrier("terminated", 1)], **own))
    await kept(scene)
    both = [scene.archive.row(restart=restart) for restart in (0, 1)]
    assert [(row["epoch"], row["gap"]) for row in both] == [(0, ""), (1, "")]
    assert await scene.archive.text(restart=1) == lines(50)


async def test_a_pod_that_is_deleted_while_it_runs_is_followed_to_its_end(scene: Scene) -> None:
    log = Log(lines(0), runs=True)
    scene.show(pod(), log)
    await asyncio.sleep(0.2)
    assert not scene.server.asked
    scene.show(pod(deleted=True))
    await asyncio.sleep(0.2)
    await log.write(lines(1), runs=False)
    scene.show(None)
    await rows(scene, 1)
    assert await scene.archive.text() == lines(0, 1)
    assert scene.archive.row()["gap"] == ""


async def test_the_end_of_a_connection_is_not_the_end_of_a_log(scene: Scene) -> None:
    log = Log(lines(0), runs=True)
    scene.show(pod(deleted=True), log)
    await asyncio.sleep(0.2)
    await log.write(runs=False)
    await asyncio.sleep(0.1)
    log.written.append(lines(1, 20))
    scene.show(ended(deleted=True))
    await rows(scene, 1)
    assert await scene.archive.text() == lines(0, 1, 20)
    assert scene.archive.row()["gap"] == ""


async def test_beyond_the_bound_a_pod_that_is_deleted_is_read_at_once_and_the_rest_is_a_gap(tmp_path: Path) -> None:
    async with collecting(tmp_path, followed=0) as scene:
        scene.show(pod(deleted=True), Log(lines(0), runs=True))
        await rows(scene, 1)
        assert await scene.archive.text() == lines(0)
        assert (scene.archive.row()["gap"], scene.archive.row()["is_whole"]) == (SNAPSHOT, False)


async def test_of_a_pod_that_is_gone_what_was_not_read_is_a_gap_and_its_successors_log_is_not_taken_for_its(
    scene: Scene,
) -> None:
    scene.show(pod())
    scene.show(None)
    await rows(scene, 1)
    assert scene.archive.row()["gap"] == LOST
    scene.server.faults.append(500)
    scene.show(ended(uid="uid-b"), Log(lines(9)))
    await asyncio.sleep(0.1)
    scene.show(pod(uid="uid-c"))
    await rows(scene, 2)
    assert scene.archive.rows["uid-b", "main", 0]["gap"].startswith("its log could not be read: 500")


async def test_a_run_that_has_a_successor_by_the_time_of_the_answer_is_read_as_the_one_before(scene: Scene) -> None:
    scene.server.logs[NAME], scene.server.previous[NAME] = Log(lines(9)), Log(ALL)
    scene.show(ended(phase="Running"))
    later = pod("worker-0", container(restarts=1))
    scene.server.pods[NAME] = later
    await asyncio.sleep(0.3)
    assert not scene.archive.rows
    scene.show(later)
    await rows(scene, 1)
    assert await scene.archive.text() == ALL


async def test_of_a_pod_no_more_containers_are_kept_than_the_controller_lets_it_have(scene: Scene) -> None:
    many = [container(f"c{number}", state="waiting") for number in range(1000)]
    scene.server.pods[NAME] = found = pod("worker-0", *many, init=many)
    found["spec"]["containers"] = many
    async with listing(scene):
        (known,) = scene.collector.pods("demo", "training").values()
        lists = known.spec.containers, known.spec.init_containers, known.statuses
        assert [len(one) for one in lists] == [256, 256, 512]


async def test_pods_of_no_framework_and_uids_that_are_paths_are_left_alone(scene: Scene) -> None:
    for uid in ("", "../../other", "a/b"):
        scene.show(ended(more={"FC_FRAMEWORK_UID": uid}))
    await asyncio.sleep(0.2)
    assert not scene.server.asked


async def test_nothing_is_left_in_the_storage_of_a_framework_that_nobody_knows(scene: Scene, tmp_path: Path) -> None:
    scene.show(ended(more={"FC_FRAMEWORK_UID": "forged"}), Log(ALL))
    await kept(scene)
    assert len(scene.server.asked) == 1
    assert not list((tmp_path / "logs").rglob("*.gz"))


async def test_pods_are_found_by_an_informer_and_what_is_not_kept_at_the_end_is_left_to_the_next(
    scene: Scene,
) -> None:
    scene.server.pods[NAME], scene.server.logs[NAME] = ended(more={f"{PREFIX}/keep-log": "whole"}), Log(ALL)
    async with listing(scene):
        assert not scene.collector.kept("of a Pod that the watch may show yet")
        await kept(scene)
        assert await scene.archive.text() == ALL
        assert "tailLines" not in scene.server.asked[0]


async def test_pods_that_end_at_once_are_read_within_the_bounds(tmp_path: Path) -> None:
    number, written = 200, lines(*range(102))
    async with collecting(tmp_path, reads=8, bytes_per_second=256 << 10) as scene:
        scene.server.pause = 0.01
        for index in range(number):
            scene.server.logs[f"training-worker-{index}"] = Log(written)
        begin = time.monotonic()
        for index in range(number):
            scene.show(ended(f"worker-{index}"))
        await rows(scene, number)
        assert time.monotonic() - begin > number * len(written) / (256 << 10) - 1
        assert scene.server.most_open == 8
        assert not any(row["gap"] for row in scene.archive.rows.values())
        assert max(scene.server.answers.values()) == 1


async def test_logs_of_one_namespace_hold_up_none_of_another(tmp_path: Path) -> None:
    async with collecting(tmp_path, reads=4) as scene:
        scene.server.pause = 0.5
        for index in range(21):
            scene.show(ended(f"worker-{index}", metadata={"namespace": "lab"} if index == 20 else {}), Log(ALL))
        await kept(scene, "uid-worker-20")
        assert len(scene.archive.rows) < 10
        assert scene.server.most_open == 5


@in_virtual_time
async def test_bytes_of_one_namespace_hold_up_none_of_another() -> None:
    reader = Reader(KubeClient(Endpoint("http://127.0.0.1:1")), 32, 1 << 20, 1.0)

    async def read(namespace: str, number: int) -> None:
        for _ in range(number):
            await reader._count(namespace, 16 << 10)

    flood = [asyncio.create_task(read("demo", 1000)) for _ in range(100)]
    await asyncio.sleep(0.5)
    begin = asyncio.get_running_loop().time()
    await read("lab", 10)
    assert asyncio.get_running_loop().time() - begin < 1, "of 100 logs, each would wait for 1.6 s"
    for one in flood:
        one.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    await asyncio.sleep(3)
    await read("lab", 1)
    assert [*reader._free_at] == ["lab", ""]


async def test_logs_of_one_namespace_are_not_all_that_are_followed(tmp_path: Path) -> None:
    async with collecting(tmp_path, followed=4) as scene:
        for index in range(11):
            where = {"namespace": "lab"} if index == 10 else {}
            scene.show(
                pod(f"worker-{index}", init=[barrier("running")], more=IN_PLACE, metadata=where), Log(ALL, runs=True)
            )
        assert scene.collector.followed == {"demo": 4, "lab": 1}
