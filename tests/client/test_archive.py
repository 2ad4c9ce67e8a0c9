"""What commands do when a Framework or its Pods are gone: they go on with what the archive has, and say so."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from frameworkclient import (
    AccessError,
    Archived,
    ArgumentError,
    Client,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    archive,
)
from frameworkclient.access import Access
from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands import reading
from frameworkclient.cli.options import Format, LogFlags
from frameworkclient.views.framework import FrameworkView
from frameworkhistory.archive import tables
from frameworkkube.http.credentials import Endpoint
from tests.client.archive import NOON, PlayedArchive, row
from tests.client.documents import completion, container, framework, pod_document, role, task, workers
from tests.client.played import FRAMEWORKS, PODS, PlayedServer
from tests.support.frameworkctl import Frameworkctl, Outcome, interrupt
from tests.support.kubeconfig import kubeconfig

CONFIG_MAPS = "/api/v1/namespaces/kube-public/configmaps"
SERVICES = "/api/v1/namespaces/frameworkcontroller-system/services"
DELETED = "from the archive, as of 2026-01-01 12:02 UTC: it was deleted then\n"
FAILED = completion(7, "ContainerPermanentFailed", trigger={"message": "", "taskRoleName": "worker", "taskIndex": 1})


def ended(*tasks: Any, attempt: int = 1, **more: Any) -> FrameworkView:
    return workers(
        *tasks, state="Completed", attempt=attempt, end=FAILED, completionTime="2026-01-01T12:01:00Z", **more
    )


def line(second: int, text: str) -> str:
    return f"2026-01-01T12:00:{second:02}.000000000Z {text}\n"


class Beside:
    """A cluster and its archive, and the command line of a user with a token."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.archive, self.folder = PlayedServer(), PlayedArchive(), folder
        self.url = self.history = ""

    def client(self, **more: Any) -> AsyncClient:
        endpoint = Endpoint(self.url, **{"authorization": "Bearer secret", **more.pop("endpoint", {})})
        return AsyncClient(found=Access(endpoint, "demo"), **{"history": self.history, **more})

    @property
    def user(self) -> Frameworkctl:
        config = kubeconfig(self.folder / "config", cluster={"server": self.url})
        return Frameworkctl(Path(config), "demo", self.folder)

    async def ctl(self, words: str, **environ: str) -> Outcome:
        return await asyncio.to_thread(self.user, words, environ=environ)


@pytest.fixture
async def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Beside]:
    for name in (archive.ADDRESS, archive.TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    found = Beside(tmp_path)
    async with found.cluster.serving() as found.url, found.archive.serving() as found.history:
        found.archive.tokens = {"secret"}
        yield found


async def test_commands_go_on_with_a_framework_that_is_gone_and_say_as_of_when(beside: Beside) -> None:
    beside.cluster.objects[CONFIG_MAPS] = {"frameworkhistory": {"data": {"url": beside.history}}}
    about = {"type": "Warning", "reason": "GangHung", "message": "it \x1b[31mhangs", "object": "Pod training-worker-1"}
    beside.archive.events = [
        row(tables.EVENTS, uid="later", first=NOON, last=NOON + 9, **about),
        row(tables.EVENTS, uid="first", first=NOON, last=NOON, count=3, **{**about, "reason": "Began"}),
    ]
    beside.archive.keep(ended(task(0, "Completed"), task(1, "Completed", end=FAILED)), deleted=NOON + 120)
    beside.archive.log("worker-1", line(1, "one"), attempt=1)

    got = await beside.ctl("get training -o json")
    assert (json.loads(got.output)["metadata"]["uid"], got.errors) == ("framework-uid", DELETED)
    described = await beside.ctl("describe training")
    assert described.errors == DELETED
    assert "Age         2m" in described.output, "not until today"
    assert "Pod training-worker-1   it hangs" in described.output
    said = await beside.ctl("why training")
    todo = "correct the reason, and submit it again"
    assert (todo in said.output, "frameworkctl retry" in said.output, said.errors) == (True, False, DELETED)
    events = await beside.ctl("events training")
    assert [one[2] for one in events.table] == ["Began", "GangHung"]
    assert "(x3)" in events.output
    assert await beside.ctl("logs training") == Outcome(0, "[worker-1] one\n", DELETED)
    neither = await beside.ctl("get another")
    assert neither.code == 1
    assert "there is none; check the name and the namespace; and cannot get Framework demo/another: " in neither.errors
    assert neither.errors.endswith(f"the archive {beside.history}: the archive knows no such Framework\n")


async def test_what_was_deleted_as_it_ran_has_no_next_step_and_what_was_not_seen_is_told(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    from frameworkclient.cli.commands.why import why

    beside.archive.keep(workers(task(0), ready="1/1"), gap="the end was not seen")
    async with beside.client() as client:
        await why(client, "training", Format.TABLE)
    told = capsys.readouterr()
    assert told.err.endswith("12:01 UTC: it was not seen after that; not known: the end was not seen\n")
    assert told.out == "Framework demo/training is AttemptRunning, 1/1 ready. Nothing holds it up.\n"


async def test_without_an_archive_nothing_is_different_and_one_request_more(beside: Beside) -> None:
    """Of what is found, the archive is not asked at all."""
    await beside.cluster.put(FRAMEWORKS, ended(task(0)).to_dict())
    assert (await beside.ctl("get training -o name")).code == 0
    before = len(beside.cluster.requests)
    missing = await beside.ctl("get another")
    expected = "frameworkctl: cannot get Framework demo/another: there is none; check the name and the namespace\n"
    assert missing == Outcome(1, "", expected)
    paths = [path for _, path, _ in beside.cluster.requests[before:]]
    assert paths == [f"{FRAMEWORKS}/another", f"{CONFIG_MAPS}/frameworkhistory"]
    assert "name it with --history" in (await beside.ctl("list --all")).errors
    assert beside.archive.requests == []


def named(name: str, uid: str, **more: Any) -> FrameworkView:
    metadata = {"name": name, "uid": uid, **more}
    return framework(role("worker", 1), tasks={"worker": [task(0)]}, metadata=metadata, ready="1/1")


async def test_a_list_of_all_has_each_once_the_newest_first_and_says_from_where(beside: Beside) -> None:
    live = named("live", "a", creationTimestamp="2026-01-01T12:00:40Z").to_dict()
    await beside.cluster.put(FRAMEWORKS, live)
    spent = {"running": 3.0, "queued": 1.0, "lost": 0.0}
    beside.archive.keep(named("late", "c"), created=NOON + 50, phrase="Succeeded", result="Succeeded", **spent)
    beside.archive.keep(named("live", "a"), created=NOON + 40)
    beside.archive.keep(named("live", "b"), created=NOON, lost=None)
    there = {"FRAMEWORKCTL_HISTORY": beside.history}
    listed = await beside.ctl("list --all -o wide", **there)
    assert listed.output.splitlines()[0].split()[5:7] == ["AGE", "SOURCE"]
    assert [(one[0], "archive" in one, "cluster" in one) for one in listed.table] == [
        ("late", True, False),
        ("live", False, True),
        ("live", True, False),
    ]
    assert ["75 %" in one for one in listed.table] == [True, False, False]
    items = json.loads((await beside.ctl("list --all -o json", **there)).output)["items"]
    assert [one["metadata"]["uid"] for one in items] == ["a", "c", "b"]
    assert all(one["status"]["attemptStatus"]["taskRoleStatuses"] for one in items), "whole objects"
    names = await beside.ctl("list --all -o name", **there)
    assert [one.rpartition("/")[2] for one in names.output.split()] == ["live", "late", "live"]
    assert names.errors == "2 Frameworks of the list, the last of it, from the archive\n"
    assert (await beside.ctl("list --all -w", **there)).code == 2


async def test_history_reads_pages_until_its_limit_and_what_is_newer_than_a_time(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PAGE", 2)
    for number in range(5):
        beside.archive.keep(named(f"f{number}", f"uid-{number}"), created=NOON + 60 - 10 * number)
    async with beside.client() as client:
        assert [one.name for one in await client.history()] == ["f0", "f1", "f2", "f3", "f4"]
        assert len(await client.history(limit=3)) == 3
        assert await client.history(namespace="other") == ()
        begin = datetime.fromtimestamp(NOON + 30, UTC)
        assert [one.uid for one in await client.history(since=begin)] == ["uid-0", "uid-1", "uid-2", "uid-3"]
        with pytest.raises(ArgumentError, match="looks for one label"):
            await client.history(label="a=b,c")

    def blocking() -> tuple[Archived, ...]:
        file = kubeconfig(beside.folder / "config", cluster={"server": beside.url})
        with Client(kubeconfig=file, namespace="demo", history=beside.history) as client:
            return client.history(limit=1)

    (first,) = await asyncio.to_thread(blocking)
    assert (first.created, first.deleted) == (datetime.fromtimestamp(NOON + 60, UTC), None)


async def test_logs_of_pods_that_are_gone_are_merged_with_those_that_are_there(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each Task the last run, as of Pods that are there; of an attempt all runs, and nothing twice."""
    tasks = task(0, "AttemptRunning", attempt=1), task(1, "Completed", end=FAILED), task(2, "Completed", end=FAILED)
    await beside.cluster.put(FRAMEWORKS, workers(*tasks, attempt=1).to_dict())
    started = pod_document("worker-0", statuses=[container()], metadata={"annotations": {"FC_TASK_ATTEMPT_ID": "1"}})
    await beside.cluster.put(PODS, started)
    beside.cluster.logs["training-worker-0"] = [line(2, "two").strip(), line(4, "four").strip()]
    kept = beside.archive
    kept.keep(workers(*tasks, attempt=1))
    kept.log("worker-0", line(0, "run 0 of the one that is there"), attempt=1)
    kept.log("worker-0", line(2, "two, again"), attempt=1, run=1, pod="uid-worker-0")
    kept.log("worker-1", line(1, "run 0"), attempt=1)
    kept.log("worker-1", line(1, "restarted"), attempt=1, run=1, pod="p")
    kept.log("worker-1", line(3, "three") + line(5, "five"), attempt=1, run=1, pod="p", restart=1, is_whole=False)
    kept.log("worker-1", line(3, "of a barrier"), attempt=1, run=1, pod="p", container="frameworkbarrier")
    kept.log("worker-2", "", attempt=1, gap="its node was gone\x1b]0;title\x07")
    kept.log("worker-0", line(0, "the attempt before"), attempt=0)

    async def logs(**wanted: Any) -> tuple[str, str]:
        async with beside.client() as client:
            code = await reading.write_logs(client, "training", LogFlags(**wanted))
        assert code == 0
        told = capsys.readouterr()
        return told.out, told.err

    out, err = await logs()
    assert out == "[worker-0] two\n[worker-1] three\n[worker-0] four\n[worker-1] five\n"
    notes = ["--- worker-1: the archive has the end of its log alone", "--- worker-2: its node was gone"]
    assert err.splitlines() == ["the logs of worker-1, worker-2 are from the archive", *notes]
    assert (await logs(tail=1))[0] == "[worker-0] four\n[worker-1] five\n"
    assert (await logs(grep_text="ee"))[0] == "[worker-1] three\n"
    assert (await logs(task="worker-1", since="60"))[0] == ""
    assert (await logs(task="worker-1", since="999999999"))[0] == "[worker-1] three\n[worker-1] five\n"
    assert (await logs(task="worker-1", previous=True))[0] == "[worker-1] restarted\n"
    assert (await logs(task="worker-1", barrier=True))[0] == "[worker-1/frameworkbarrier] of a barrier\n"
    assert (await logs(attempt=1))[0] == "[worker-0] the attempt before\n"
    whole = [one.partition("] ")[2] for one in (await logs(attempt=2))[0].splitlines()]
    assert whole == ["run 0 of the one that is there", "run 0", "restarted", "two", "three", "four", "five"]
    await logs(attempt=2, save=beside.folder / "saved")
    files = {path.name: path.read_text() for path in (beside.folder / "saved").iterdir()}
    assert files["worker-1.attempt-1-1.log"] == "restarted\nthree\nfive\n"
    assert set(files) == {
        f"worker-{name}.log" for name in ("0.attempt-1-0", "0.attempt-0-1", "1.attempt-1-0", "1.attempt-1-1")
    }
    with pytest.raises(ArgumentError, match=r"^--attempt 3: Framework training has had 2 attempts$"):
        await logs(attempt=3)

    kept.tokens = {"another"}
    out, err = await logs()
    assert (out, "does not accept your token" in err) == ("[worker-0] two\n[worker-0] four\n", True)
    assert "no logs of worker-1, worker-2: its Pod is gone with its end" in err


async def test_logs_of_what_is_gone_need_no_following_and_none_at_all_is_an_error(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    beside.archive.keep(ended(task(0, "Completed")), deleted=NOON + 120)
    stamped = LogFlags(follow=True, timestamps=True)
    async with beside.client() as client:
        assert await reading.write_logs(client, "training", stamped) == 1
        assert capsys.readouterr().err == f"{DELETED}the archive has no logs of training that were asked for\n"
        beside.archive.log("worker-0", line(1, "one"), attempt=1)
        beside.archive.log("worker-0", line(2, "two"), attempt=1, container="side")
        assert await reading.write_logs(client, "training", stamped) == 0
    begin = "2026-01-01T12:00:0"
    expected = f"[worker-0/main] {begin}1.000000000Z one\n[worker-0/side] {begin}2.000000000Z two\n"
    assert capsys.readouterr().out == expected


async def test_no_archive_names_a_file_that_is_written(beside: Beside) -> None:
    beside.archive.keep(ended(task(0, "Completed")), deleted=NOON + 120)
    beside.archive.log("../worker-0", line(1, "one"), attempt=1)
    folder = beside.folder / "saved"
    async with beside.client() as client:
        with pytest.raises(UnreachableError, match="does not answer as an archive does"):
            await reading.write_logs(client, "training", LogFlags(save=folder))
    assert not list(beside.folder.rglob("*.log"))


def html(status: int = 200, **headers: str) -> web.Response:
    return web.Response(text="<html>", content_type="text/html", status=status, headers=headers)


MAY_NOT = "you need the permission to list frameworks in namespace demo"
CLEAR = "http://history.example"
NO_TOKEN, OLD, JANE = (
    {"endpoint": one}
    for one in ({"authorization": None}, {"authorization": "Bearer old"}, {"headers": (("Impersonate-User", "jane"),)})
)
# What it says, the kind of error, how it was asked, and what it answers.
ERRORS: dict[str, tuple[type[Exception], dict[str, Any], Callable[[], web.Response | None]]] = {
    "your kubeconfig has none: give one by `kubectl create token NAME | ": (RefusedError, NO_TOKEN, lambda: None),
    "does not accept your token; log in again": (RefusedError, OLD, lambda: None),
    MAY_NOT: (ForbiddenError, {}, lambda: web.json_response({"error": MAY_NOT}, status=403)),
    "sends you elsewhere to sign in": (RefusedError, {}, lambda: html(302, Location="https://login.example")),
    "does not answer as an archive does": (UnreachableError, {}, html),
    "in a minute": (RefusedError, {}, lambda: web.json_response({"error": "in a minute"}, status=503)),
    "archive http://127.0.0.1:1 cannot be reached: ": (UnreachableError, {"history": "http://127.0.0.1:1"}, html),
    f"--history {CLEAR}: your token would travel in clear text": (AccessError, {"history": CLEAR}, html),
    "--history a.example: must be an address such as https": (ArgumentError, {"history": "a.example"}, html),
    "the archive knows you, not whom you act as": (AccessError, JANE, html),
    "token file none is empty or unreadable": (AccessError, {"history_token_file": "none"}, html),
}


@pytest.mark.parametrize("message", ERRORS)
async def test_an_archive_that_does_not_answer_says_why_and_what_to_do(beside: Beside, message: str) -> None:
    kind, more, answer = ERRORS[message]
    beside.archive.refuse = answer
    async with beside.client(**more) as client:
        with pytest.raises(kind, match=message):
            await client.history()
        with pytest.raises(NotFoundError, match=f"demo/training: there is none; .*; and .*{message}"):
            await reading.look_up(client, "training")


async def test_a_token_is_read_again_when_it_is_refused_and_another_one_may_stand_in_a_file(beside: Beside) -> None:
    fresh = Endpoint(beside.url, authorization="Bearer secret")
    async with beside.client(endpoint={"authorization": "Bearer old", "reload": lambda: fresh}) as client:
        assert await client.history() == ()
    (beside.folder / "token").write_text("secret\n")
    more = {"headers": (("Impersonate-User", "jane"),), "authorization": "Bearer of the cluster"}
    async with beside.client(endpoint=more, history_token_file=str(beside.folder / "token")) as client:
        assert await client.history() == ()


def kubectl(folder: Path, script: str) -> dict[str, str]:
    """Return the environment in which a script is `kubectl`."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


async def test_the_page_is_forwarded_until_ctrl_c_by_the_kubectl_of_the_user(beside: Beside) -> None:
    beside.cluster.objects[SERVICES] = {"frameworkhistory": {}, "a-frameworkhistory": {}}
    forwards = "import os, sys, time\nopen('args', 'w').write(' '.join([str(os.getpid()), *sys.argv[1:]]))\n"
    forwards += "print('Forwarding from 127.0.0.1:4321 -> 8080', flush=True)\ntime.sleep(3600)\n"
    words = "ui --release a --context home --as jane --as-group x"
    process = beside.user.start(words, environ=kubectl(beside.folder, forwards))
    assert process.stdout is not None
    said = await asyncio.to_thread(process.stdout.readline)
    assert said == "http://127.0.0.1:4321 shows what has run; Ctrl-C ends it\n"
    pid, _, forwarded = (beside.folder / "args").read_text().partition(" ")
    flags = "--namespace=frameworkcontroller-system --context=home --as=jane --as-group=x"
    assert forwarded == f"port-forward {flags} service/a-frameworkhistory :page"
    assert (await asyncio.to_thread(interrupt, process)).code == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


async def test_what_keeps_the_page_from_being_forwarded_is_said(beside: Beside) -> None:
    beside.cluster.objects[SERVICES] = {"frameworkhistory": {}}
    missing = await beside.ctl("ui --release b")
    assert "there is no Service frameworkcontroller-system/b-frameworkhistory: install the archive" in missing.errors
    assert "ui needs kubectl, and there is none in PATH" in (await beside.ctl("ui", PATH="")).errors
    failed = await beside.ctl("ui", **kubectl(beside.folder, "raise SystemExit('error: no Pod')"))
    assert failed.errors.splitlines()[0] == "error: no Pod"
    assert failed.errors.endswith("frameworkcontroller-system/frameworkhistory has ended with exit code 1\n")
    assert (missing.code, failed.code) == (1, 1)
