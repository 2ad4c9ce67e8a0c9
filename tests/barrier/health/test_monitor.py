"""Sidecars' children as real processes that ask each other (docs/reference/progress.md); the pauses are shorter."""

import contextlib
import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from frameworkbarrier.errors import EpochEndedError, HungError
from frameworkbarrier.gate.gate import Gatekeeper, Released, Waiting
from frameworkbarrier.gate.wait import SourceReader
from frameworkbarrier.health import child, monitor
from frameworkbarrier.health.child import Watcher, verdict
from frameworkbarrier.health.pod import VERDICT_BYTES
from frameworkbarrier.log import Log
from frameworkbarrier.settings import OwnTask, Settings
from localcluster import packages
from localcluster.processes.ports import free_port
from tests.barrier.gangs import environment, observation, roster
from tests.barrier.gate.test_sidecar import Changing
from tests.barrier.process import Barrier
from tests.barrier.source.faulty_server import Serve
from tests.support.waiting import becomes

QUICK = (
    "from frameworkbarrier.health import lead, monitor;lead.INTERVAL_SEC = 0.2; monitor.LOOK_SEC = 0.05; monitor.main()"
)

LOOP = Path(__file__).parents[3] / "examples" / "progress" / "loop.sh"
POST = re.findall(r"^\| the same, by `POST` \| `(.*)` \|$", LOOP.with_name("README.md").read_text(), re.MULTILINE)[0]


class Pod:
    """The child of one sidecar, on a loopback address of its own."""

    def __init__(self, folder: Path, index: int, port: int, **more: float) -> None:
        self.folder, self.task, self.host, self.port = folder, f"w-{index}", f"127.0.0.{index + 1}", port
        folder.mkdir()
        options = {"dir": str(folder), "port": port, "uid": f"uid-{index}", "task": self.task, "host": self.host}
        text = json.dumps({"floor": 1, "factor": 8, "first": 1.5, **options, **more})
        command = [sys.executable, "-c", QUICK, text]
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


def at_work(gang: list[Pod]) -> None:
    """Let all make steps until the first has heard of each: of one that it has not, it can say nothing."""
    steps = itertools.count()
    answers(gang[0])

    def known() -> object:
        for pod in gang:
            pod.says(str(next(steps)))
        return gang[0].gang().get("ranks")

    becomes(known, len(gang))


def answers(pod: Pod) -> None:
    """Wait until it listens."""
    listens((pod.host, pod.port))


def listens(address: tuple[str, int]) -> None:
    """Wait until a connection is taken."""

    def refused() -> int:
        with socket.socket() as one:
            return one.connect_ex(address)

    becomes(refused, 0)


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[list[Pod]]:
    port = free_port()
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
    assert found["log"].endswith("after step 10006; culprit: w-1 on n-1 /a.py:3 in read (is behind the others)")
    known = gang[0].gang()
    assert (known["slowest"], known["fastest"], known["checkpoint"], known["ranks"]) == (10006, 10007, 5, 3)
    assert known["hang"]["why"] == "is behind the others"
    assert gang[1].gang() == {}, "it does not lead"
    gang[2].says('{"step": 10008, "numbers": {"the \\"loss\\"": 0.5, "d\\u00e9j\\u00e0\\n": 2, "' + "a" * 50 + '": 3}}')
    assert gang[0].hears() == {"log": "the gang makes progress again"}
    assert b'frameworkbarrier_step{task="w-2"} 10008' in gang[0].request("GET", "/metrics")[1]
    metrics = gang[2].request("GET", "/metrics")[1].decode()
    numbers = re.findall(r"^frameworkbarrier_number\{.*name=(.*)", metrics, re.MULTILINE)
    assert numbers == ['"the \\"loss\\""} 0.5', '"déjà"} 2.0', f'"{"a" * 39}…"}} 3.0']


def test_the_next_leads_when_the_first_is_stopped_and_names_it(gang: list[Pod], tmp_path: Path) -> None:
    for pod in gang:
        pod.says("7")
    gang[0].process.kill()
    gang[0].process.wait()
    answers(gang[1])
    becomes(lambda: bool(gang[1].gang().get("hang")), wanted=True)  # it may have asked the first, or have come too late
    with Pod(tmp_path / "again", 0, gang[0].port).process as first:
        gang[0].process = first
        gang[0].tell(gang)
        becomes(gang[1].gang, {})  # the first has answered
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


@pytest.mark.parametrize("line", ["", POST], ids=["a file", "a POST"])
def test_the_shell_loop_of_the_example_says_each_step(gang: list[Pod], line: str) -> None:
    packages.require(("curl",))
    answers(gang[0])
    text = LOOP.read_text()
    own = next(each.strip() for each in text.splitlines() if "FB_PROGRESS" in each)
    environ = {"STEPS": "4", "FB_PROGRESS": f"{gang[0].folder}/rank", "FB_PROGRESS_PORT": str(gang[0].port)}
    seen = []

    def step() -> int:
        seen.append(json.loads(gang[0].request("GET", "/")[1])["step"] or 0)
        return seen[-1]

    with subprocess.Popen(["sh", "-c", text.replace(own, line or own)], env=os.environ | environ) as loop:
        while loop.poll() is None:
            step()
            time.sleep(0.1)
    assert loop.returncode == 0
    becomes(step, 4)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2, "it was seen to grow"
    assert (gang[0].folder / "rank").exists() is (line == "")


def test_10_000_posts_a_second_and_files_without_number_cost_little_memory_and_hurt_nobody(
    gang: list[Pod], serve: Serve, start: Callable[..., Barrier], tmp_path: Path
) -> None:
    (progress := tmp_path / "progress").mkdir()
    changing, address = Changing(roster({"worker": 1})), ("127.0.0.1", free_port())
    environ = environment(FB_MODE="sidecar", FB_PROGRESS_SOURCES="file,http", FB_PROGRESS_DIR=str(progress))
    barrier = start(serve(changing).url, environ | {"FB_PROGRESS_PORT": str(address[1])})
    answers(gang[1])
    listens(address)
    for number in range(600):
        (progress / f"rank.{number}").write_text("x" * 100_000)
    (child,) = psutil.Process(barrier.process.pid).children()
    before, over = child.memory_info().rss, threading.Event()
    with ThreadPoolExecutor(1) as beside:
        posting = beside.submit(post, address, over)
        try:
            time.sleep(2)
            changing.change(roster({"worker": 1}, generation=2))
            barrier.writes("generation", "2\n")
            assert gang[1].request("GET", "/")[0] == 200
            more = child.memory_info().rss - before
            assert more < 20 * 2**20
        finally:
            over.set()
        tried, sent, seconds = posting.result()
    print(f"{tried} posts in {seconds:.1f} s, of which {sent} found a place: {more >> 10} KiB more")
    assert tried / seconds > 2 * monitor.PER_SECOND, "more than it takes"
    assert sent > monitor.CONNECTIONS
    assert barrier.process.poll() is None
    with urlopen(f"http://127.0.0.1:{address[1]}/") as answer:
        assert answer.status == 200, "it has its turn again"


def post(address: tuple[str, int], over: threading.Event) -> tuple[int, int, float]:
    """Try 10,000 posts a second, and wait for none; return how many were tried and sent, and in how many seconds."""
    bodies = itertools.cycle(['{"step": %d, "section": "s%d"}', "[" * 4000, '{"numbers": {"a%d": %d}}'])
    began, tried, sent = time.monotonic(), 0, 0
    while not over.wait(max(0.0, began + tried / 10_000 - time.monotonic())):
        for number, body in zip(range(tried, tried + 100), bodies, strict=False):
            text = body.replace("%d", str(number))
            with socket.socket() as one, contextlib.suppress(OSError):  # there is no place, or it is given up
                one.setblocking(False)
                one.connect_ex(address)
                one.send(f"POST /{number} HTTP/1.1\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
                sent += 1
        tried += 100
    return tried, sent, time.monotonic() - began


@pytest.mark.parametrize("hang", ["observe", "restart"])
def test_a_hang_ends_the_sidecar_where_that_is_asked_for(
    tmp_path: Path, hang: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(child, "MODULE", ("-c", QUICK))
    (tmp_path / "rank").write_text("3")
    settings = Settings(
        role="worker", index=0, progress=("file",), progress_dir=str(tmp_path), progress_port=free_port(),
        hang=hang, hang_floor_sec=1, hang_first_sec=1,
    )  # fmt: skip
    reader, gatekeeper = SourceReader(), Gatekeeper(OwnTask("worker", 0, None))
    watching = Watcher(settings, Log(), reader.end)
    gatekeeper.listeners.append(watching.hear)
    decision = gatekeeper.decide(observation(roster({"worker": 1})))
    assert isinstance(decision, Released)
    watching.start(decision.gang)
    becomes(lambda: "the gang hangs" in capfd.readouterr().err, wanted=True)
    if hang == "observe":
        assert reader.get(0.5) is None
    else:
        with pytest.raises(HungError) as ended:
            reader.get(5)
        assert isinstance(ended.value, EpochEndedError)
        assert json.loads(str(ended.value))["culprits"][0]["task"] == "worker-0"
    watching._child.kill()  # type: ignore[union-attr]
    becomes(lambda: "progress is not watched any more" in capfd.readouterr().err, wanted=True)
    watching.hear(decision.gang, Waiting(0, 1, ()))


def test_a_verdict_fits_into_what_the_kubelet_keeps() -> None:
    culprit = {"task": "worker-9999", "node": "n" * 250, "section": "s" * 40, "stack": ["x" * 120] * 2}
    seconds = {"silent": 10**6, "limit": 10**6}
    text = verdict({"step": 2**53, **seconds, "why": "the others wait for it", "culprits": [culprit] * 8})
    assert len(text) <= VERDICT_BYTES
    assert [one.keys() for one in json.loads(text)["culprits"]] == [{"task", "node"}] * 3
