"""The log of one container over connections that break, restarts, and Pods of the same name; why there is none."""

import errno
import os
import sys
from typing import Any

import msgspec
import pytest

from frameworkclient.cli.commands.reading import write_logs
from frameworkclient.cli.options import LogFlags
from frameworkclient.errors import ArgumentError, ForbiddenError
from frameworkclient.logs.absent import absent
from frameworkclient.logs.container import LOST, REST_LOST, Connections, ContainerLog
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkkube.http import session
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.client.documents import SUCCEEDED, completion, container, framework, pod, pod_document, task, workers
from tests.client.logs.test_lines import source, stamp
from tests.client.played import FRAMEWORKS, PODS, PlayedServer, a_client
from tests.kube import scripted
from tests.kube.scripted import Connection, Step, a_server, answer, refusal

RUNNING, RESTARTED = pod(statuses=[container()]), pod(statuses=[container(restarts=1)])
ENDED = pod(statuses=[container("main", "terminated", exitCode=0)])
LATER = [RUNNING, RUNNING, RUNNING, ENDED]
NOT_FOUND, FORBIDDEN = refusal(404, "NotFound"), refusal(403, "Forbidden")
FOLLOW, PREVIOUS = {"follow": "true"}, {"previous": "true"}


def since(number: int) -> dict[str, str]:
    return {**FOLLOW, "sinceTime": stamp(number)}


def log(*numbers: int, lost: int = 0, of: TaskPod = RUNNING) -> list[Step]:
    """An answer with these lines, which breaks off if bytes are lost, and one with the Pod that has written them."""
    content = "".join(f"{stamp(number)} {number}\n" for number in numbers).encode()

    async def step(connection: Connection) -> None:
        await connection.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content) + lost}\r\n\r\n".encode() + content)
        if lost:
            connection.reset()

    return [step, answer(200, msgspec.json.encode(of))]


async def followed(
    steps: list[Step], states: list[TaskPod | None], selection: LogSelection | None = None
) -> tuple[str, list[dict[str, str]]]:
    """Follow the log on a scripted server, in no time; what is known of the Pod changes, and the last state stays.

    Returns:
        Its texts and notes, and what was asked for.
    """
    left, texts = list(states), list[str]()

    def newest() -> TaskPod | None:
        return left.pop(0) if len(left) > 1 else left[0]

    async def no_time(seconds: float) -> None:
        pass

    async with a_server() as server, scripted.a_client(server) as client:
        server.on("GET", *steps)
        reader = ContainerLog(client, "demo", source(uid="uid-worker-0"), selection or LogSelection())
        async for batch in reader.follow(newest, no_time, Connections()):
            texts += [line.text for line in batch.lines] + [batch.note] * bool(batch.note)
    queries = [one.query for one in server.requests if one.path == "/api/v1/namespaces/demo/pods/training-worker-0/log"]
    assert all((query.pop("container"), query.pop("timestamps")) == ("main", "true") for query in queries)
    return " ".join(texts), queries


FOLLOWED: dict[str, tuple[list[Step], list[TaskPod | None], str, list[dict[str, str]]]] = {
    "breaks off": ([*log(1, 2, lost=9), *log(2, 3)], [*LATER], "1 2 3", [FOLLOW, since(2)]),
    "ends while its container runs": ([*log(1), *log(1, 2)], [*LATER], "1 2", [FOLLOW, since(1)]),
    "has not begun": ([refusal(400, "BadRequest", "is waiting to start"), *log(1)], [*LATER], "1", [FOLLOW, FOLLOW]),
    "is gone with its Pod": ([NOT_FOUND], [RUNNING, None], LOST, [FOLLOW]),
    "breaks off before its Pod is gone": (
        [*log(1, lost=9), NOT_FOUND],
        [RUNNING, RUNNING, None],
        f"1 {REST_LOST}",
        [FOLLOW, since(1)],
    ),
    "is not known yet to a kubelet that has just started": (
        [*log(1), NOT_FOUND, *log(1, 2)],
        [*[RUNNING] * 6, ENDED],
        "1 2",
        [FOLLOW, since(1), since(1)],
    ),
    "is refused by an API server that has just started": (
        [*log(1, lost=9), FORBIDDEN, FORBIDDEN, *log(1, 2)],
        [*[RUNNING] * 7, ENDED],
        "1 2",
        [FOLLOW, since(1), since(1), since(1)],
    ),
    "cannot be read": (
        [*log(1, lost=9), *(refusal(500, "InternalError", "no") for _ in "xyz")],
        [ENDED],
        "1 its log could not be read: 500 InternalError: no",
        [FOLLOW, *[since(1)] * 3],
    ),
    "is of another Pod": (log(1, of=pod(uid="b", statuses=[container()])), [RUNNING, None], LOST, [FOLLOW]),
    # The answer may be of the next run, as the Pod says right after.
    "is of the next run": ([*log(7, 8, of=RESTARTED), *log(1, 2)], [RUNNING, RESTARTED], "1 2", [FOLLOW, PREVIOUS]),
}


@pytest.mark.parametrize("name", FOLLOWED)
async def test_a_log_is_read_to_its_end_each_line_once_and_what_is_missing_is_told(name: str) -> None:
    steps, states, texts, asked = FOLLOWED[name]
    assert await followed(steps, states) == (texts, asked)


async def test_only_the_first_answer_is_limited_by_the_flags_and_a_missing_permission_ends_it() -> None:
    selection = LogSelection(tail=1, since_seconds=60)
    _, asked = await followed([*log(5, lost=9), *log(5, 6)], [*LATER], selection)
    assert asked == [FOLLOW | {"tailLines": "1", "sinceSeconds": "60"}, since(5)]
    for steps in ([FORBIDDEN], [*log(1), *[FORBIDDEN] * 4]):
        with pytest.raises(ForbiddenError):
            await followed(steps, [RUNNING])


async def test_too_many_open_files_are_the_reason_and_not_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(session.Sockets, "make", no_more)
    client = KubeClient(Endpoint("http://127.0.0.1:1"))
    log = ContainerLog(client, "demo", source(), LogSelection())
    (batch,) = [batch async for batch in log.read(previous=False)]
    await client.close()
    assert batch.note.startswith("its log could not be read: GET /api/v1/namespaces/demo/pods/training-worker-0/log")
    assert batch.note.endswith("Too many open files in this process; allow more: ulimit -n")


FAILED = completion(1, "ContainerFailed")
NOT_KEPT = "OnFailure does not keep one that has succeeded"
KEPT = "spec.retainPods keeps Pods that have ended"
WITHOUT = "it still ran when its Framework ended, somebody has removed it, or a retry needed its name"
GONE = "its Pod is gone with its end"
NEXT = "frameworkctl why training says what it waits for"


def ended(retain: str, end: object) -> FrameworkView:
    return workers(task(0, "Completed", end=end), spec={"retainPods": retain}, state="Completed")


WITHOUT_POD = {
    f"{GONE}; set spec.retainPods: OnFailure before it runs again": ended("Never", FAILED),
    f"{GONE}, and {NOT_KEPT}; set spec.retainPods: Always before it runs again": ended("OnFailure", SUCCEEDED),
    f"its Pod is gone, though {KEPT}: {WITHOUT}": ended("OnFailure", FAILED),
    f"it has no Pod; {NEXT}": workers(task(0, "AttemptCreationPending")),
}


def told(view: FrameworkView, pods: dict[str, TaskPod], **wanted: Any) -> str:
    return "\n".join(absent(view, pods, LogSelection(**wanted), "frameworkctl"))


def test_a_task_without_a_pod_says_why_and_tasks_whose_pods_have_no_log_share_a_sentence() -> None:
    for reason, view in WITHOUT_POD.items():
        assert told(view, {}) == f"no logs of worker-0: {reason}"
    view = workers(*(task(number) for number in range(4)))
    waits = pod(node="n", init=[container("frameworkbarrier")], statuses=[container(state="waiting")])
    run = {f"worker-{number}": pod(f"worker-{number}", statuses=[container()]) for number in (1, 2, 3)}
    has_not_started = f"its Pod has not started (waits in the barrier); {NEXT}"
    assert told(view, {"worker-0": waits, **run}) == f"no logs of worker-0: {has_not_started}"
    not_restarted = "no container of its Pod has been restarted"
    assert told(view, run, task="worker-1", previous=True) == f"no logs of worker-1: {not_restarted}"
    no_barrier = "no logs of worker-1, worker-2, worker-3: its Pod has no barrier"
    assert told(view, run, barrier=True, role="worker").endswith(f"\n{no_barrier}")
    assert told(framework(state=""), {}) == f"no logs: Framework training has no Tasks yet; {NEXT}"


async def test_logs_of_nothing_fail_and_those_of_no_task_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    server = PlayedServer()
    await server.put(FRAMEWORKS, ended("Never", FAILED).to_dict())
    async with a_client(server) as client:
        for follow in (False, True):
            code = await write_logs(client, "training", LogFlags(follow=follow))
            assert (code, capsys.readouterr()) == (1, ("", f"no logs of worker-0: {next(iter(WITHOUT_POD))}\n"))
        with pytest.raises(ArgumentError, match=r"--task worker-9: role worker of Framework training has 1 Task$"):
            await write_logs(client, "training", LogFlags(task="worker-9"))


async def test_a_terminal_that_cannot_move_its_cursor_gets_no_control_sequences_either(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, one = PlayedServer(), pod_document(statuses=[container()])
    await server.put(FRAMEWORKS, workers(task(0)).to_dict())
    await server.put(PODS, one)
    server.logs[one["metadata"]["name"]] = [f"{stamp(1)} \x1b[2Jcleared"]
    monkeypatch.setenv("TERM", "dumb")
    async with a_client(server) as client:
        for is_terminal, shown in ((True, "cleared"), (False, "\x1b[2Jcleared")):
            monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)  # noqa: B023 -- used at once
            await write_logs(client, "training", LogFlags())
            assert capsys.readouterr().out == f"[worker-0] {shown}\n"
