"""Sidecars' children as real processes that ask each other (docs/reference/progress.md); the pauses are shorter."""

import contextlib
import http.client
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.errors import EpochEndedError, HungError
from frameworkbarrier.gate.gate import Gatekeeper, Released, Waiting
from frameworkbarrier.gate.wait import SourceReader
from frameworkbarrier.health import child, monitor
from frameworkbarrier.health.child import Watcher, verdict
from frameworkbarrier.health.pod import VERDICT_BYTES
from frameworkbarrier.log import Log
from frameworkbarrier.settings import OwnTask, Settings
from testkit.waiting import eventually
from tests.barrier.gangs import observation, roster

QUICK = (
    "from frameworkbarrier.health import lead, monitor;lead.INTERVAL_SEC = 0.2; monitor.LOOK_SEC = 0.05; monitor.main()"
)


class Pod:
    """The child of one sidecar, on a loopback address of its own."""

    def __init__(self, folder: Path, index: int, port: int, **limits: float) -> None:
        self.folder, self.task, self.host, self.port = folder, f"w-{index}", f"127.0.0.{index + 1}", port
        folder.mkdir()
        options = {"dir": str(folder), "port": port, "uid": f"uid-{index}", "task": self.task, "host": self.host}
        command = [
            sys.executable,
            "-c",
            QUICK,
            json.dumps({"floor": 1, "factor": 8, "first": 1.5, **options, **limits}),
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, text: str, name: str = "rank.1") -> None:
        (self.folder / name).write_text(text)

    def tell(self, pods: list["Pod"], epoch: int = 0) -> None:
        assert self.process.stdin is not None
        peers = [(pod.task, pod.host, f"uid-{index}", f"n-{index}") for index, pod in enumerate(pods)]
        self.process.stdin.write(json.dumps({"epoch": epoch, "peers": peers, "ending": False}) + "\n")
        self.process.stdin.flush()

    def hears(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def hears_of_hang(self) -> dict[str, Any]:
        """Read on until the gang hangs and somebody is named: before, a peer that is late may be left out."""
        return next(found for found in iter(self.hears, None) if found.get("hang", {}).get("culprits"))

    def request(self, method: str, path: str, body: str | None = None, source: str = "127.0.0.1") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10, source_address=(source, 0))
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def gang(self) -> dict[str, Any]:
        status, body = self.request("GET", "/gang")
        return json.loads(body) if status == 200 else {}


def check(holds: bool) -> None:
    assert holds


def at_work(gang: list[Pod]) -> None:
    """Let all make steps until the first has heard of each: of one that it has not, it can say nothing."""
    steps = itertools.count()
    answers(gang[0])

    def step() -> None:
        for pod in gang:
            pod.says(str(next(steps)))
        check(gang[0].gang().get("ranks") == len(gang))

    eventually(step)


def answers(pod: Pod) -> None:
    """Wait until it listens."""
    with contextlib.closing(eventually(lambda: connected(pod))):
        pass


def connected(pod: Pod) -> socket.socket:
    try:
        return socket.create_connection((pod.host, pod.port))
    except ConnectionRefusedError as refused:
        raise LookupError from refused


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[list[Pod]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ExitStack() as stack:
        pods = [Pod(tmp_path / str(index), index, port) for index in range(3)]
        for pod in pods:
            stack.enter_context(pod.process)
            stack.callback(pod.process.terminate)
            pod.tell(pods)
        yield pods


def test_a_gang_that_stops_is_found_by_its_first_and_moves_again(gang: list[Pod]) -> None:
    at_work(gang)
    for pod in gang:
        pod.says('{"step": 10007, "checkpoint": 5}')
    gang[1].says('{"step": 10006, "section": "load\\u0007"}')
    gang[1].says('Thread 0x1 (most recent call first):\n  File "/a.py", line 3 in read\n', "rank.1.stack")
    found = gang[0].hears_of_hang()
    culprit = {"task": "w-1", "node": "n-1", "section": "load", "stack": ["/a.py:3 in read"]}
    assert found["hang"]["culprits"] == [culprit]
    assert found["log"].endswith("after step 10006; culprit: w-1 on n-1 /a.py:3 in read (is behind)")
    known = gang[0].gang()
    assert (known["slowest"], known["fastest"], known["checkpoint"], known["ranks"]) == (10006, 10007, 5, 3)
    assert known["hang"]["why"] == "is behind"
    assert gang[1].gang() == {}, "it does not lead"
    gang[2].says('{"step": 10008, "numbers": {"the \\"loss\\"": 0.5, "d\\u00e9j\\u00e0\\n": 2, "' + "a" * 50 + '": 3}}')
    assert gang[0].hears() == {"log": "the gang makes progress again"}
    assert b'frameworkbarrier_step{task="w-2"} 10008' in gang[0].request("GET", "/metrics")[1]
    metrics = gang[2].request("GET", "/metrics")[1].decode()
    numbers = [
        line.partition("name=")[2] for line in metrics.splitlines() if line.startswith("frameworkbarrier_number{")
    ]
    assert numbers == ['"the \\"loss\\""} 0.5', '"déjà"} 2.0', f'"{"a" * 39}…"}} 3.0']


def test_the_next_leads_when_the_first_is_stopped_and_names_it(gang: list[Pod], tmp_path: Path) -> None:
    for pod in gang:
        pod.says("7")
    gang[0].process.kill()
    gang[0].process.wait()
    answers(gang[1])
    eventually(lambda: check(bool(gang[1].gang().get("hang"))))  # it may have asked the first, or have come too late
    with Pod(tmp_path / "again", 0, gang[0].port).process as first:
        gang[0].process = first
        gang[0].tell(gang)
        eventually(lambda: check(gang[1].gang() == {}))  # the first has answered
        first.kill()
    assert [one["task"] for one in gang[1].hears_of_hang()["hang"]["culprits"]] == ["w-0"]


@pytest.mark.parametrize(
    ("method", "path", "body", "source", "status"),
    [
        ("POST", "/trainer", "12", "127.0.0.1", 204),
        ("POST", "/", '{"step": 3}', "127.0.0.1", 204),
        ("POST", "/", "no", "127.0.0.1", 400),
        ("POST", "/", "1" * 5000, "127.0.0.1", 413),
        ("POST", "/", "12", "127.0.0.9", 403),
        ("DELETE", "/", None, "127.0.0.1", 405),
        ("GET", "/else", None, "127.0.0.9", 404),
        ("GET", "/" + "a" * 5000, None, "127.0.0.9", 400),
    ],
)
def test_only_the_own_pod_may_post(
    gang: list[Pod], method: str, path: str, body: str | None, source: str, status: int
) -> None:
    answers(gang[0])
    assert gang[0].request(method, path, body, source)[0] == status


def test_who_keeps_its_connections_open_or_sends_without_end_stops_nobody(gang: list[Pod]) -> None:
    answers(gang[0])
    held = [socket.create_connection((gang[0].host, gang[0].port)) for _ in range(monitor.CONNECTIONS + 20)]
    for one in held[::2]:
        one.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4000\r\n\r\n")
    assert gang[0].request("GET", "/")[0] == 200, "after the time of a request the next ones have their turn"
    for one in held:
        one.close()


def test_posts_without_end_and_files_without_number_cost_little_memory(gang: list[Pod]) -> None:
    answers(gang[0])
    for number in range(600):
        gang[0].says("x" * 100_000, f"rank.{number}")
    before, end = resident(gang[0]), time.monotonic() + 2
    bodies = itertools.cycle(['{"step": %d, "section": "s%d"}', "[" * 4000, '{"numbers": {"a%d": %d}}'])
    for number, body in enumerate(bodies):
        with contextlib.suppress(OSError), socket.create_connection((gang[0].host, gang[0].port), timeout=0.2) as one:
            text = body.replace("%d", str(number))
            one.sendall(f"POST /{number} HTTP/1.1\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        if time.monotonic() > end:
            break
    assert resident(gang[0]) - before < 20 * 1024
    assert gang[0].process.poll() is None


def resident(pod: Pod) -> int:
    """Return the memory of its child, in KiB."""
    lines = Path(f"/proc/{pod.process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def watcher(
    tmp_path: Path, hang: str, reader: SourceReader, monkeypatch: pytest.MonkeyPatch
) -> tuple[Watcher, Released]:
    """Return a sidecar whose gang of one has stopped at a step."""
    monkeypatch.setattr(child, "MODULE", ("-c", QUICK))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one = roster({"worker": 1})
    settings = Settings(
        role="worker", index=0, progress=("file",), progress_dir=str(tmp_path), progress_port=port,
        hang=hang, hang_floor_sec=1, hang_first_sec=1,
    )  # fmt: skip
    found, gatekeeper = Watcher(settings, Log(), reader.end), Gatekeeper(OwnTask("worker", 0, None))
    gatekeeper.listeners.append(found.hear)
    decision = gatekeeper.decide(observation(one))
    assert isinstance(decision, Released)
    (tmp_path / "rank").write_text("3")
    return found, decision


@pytest.mark.parametrize("hang", ["observe", "restart"])
def test_a_hang_ends_the_sidecar_where_that_is_asked_for(
    tmp_path: Path, hang: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = SourceReader()
    watching, decision = watcher(tmp_path, hang, reader, monkeypatch)
    watching.start(decision.gang)
    eventually(lambda: check("the gang hangs" in capfd.readouterr().err))
    if hang == "observe":
        assert reader.get(0.5) is None
    else:
        with pytest.raises(HungError) as ended:
            reader.get(5)
        assert isinstance(ended.value, EpochEndedError)
        assert json.loads(str(ended.value))["culprits"][0]["task"] == "worker-0"
    watching._child.kill()  # type: ignore[union-attr]
    eventually(lambda: check("progress is not watched any more" in capfd.readouterr().err))
    watching.hear(decision.gang, Waiting(0, 1, ()))


def test_a_verdict_fits_into_what_the_kubelet_keeps() -> None:
    culprit = {"task": "worker-9999", "node": "n" * 250, "section": "s" * 40, "stack": ["x" * 120] * 2}
    hang = {
        "step": 2**53,
        "silent": 10**6,
        "limit": 10**6,
        "why": "does not wait for the others",
        "culprits": [culprit] * 8,
    }
    text = verdict(hang)
    assert len(text) <= VERDICT_BYTES
    assert [one.keys() for one in json.loads(text)["culprits"]] == [{"task", "node"}] * 3
