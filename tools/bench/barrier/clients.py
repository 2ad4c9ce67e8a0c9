"""Barriers of one gang, many at a time: bare watches in one process, and real ones as processes."""

import contextlib
import json
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import urlencode, urlsplit

from bench.barrier.gang import NAMESPACE, Gang, Stage

# A machine cannot open 1,000 watches at once; those of a real gang open over some seconds, too.
_OPENING_AT_A_TIME = 50


@contextlib.contextmanager
def bare_watches(stage: Stage, gang: Gang, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """Open watches of the roster for the block, many in one process.

    They stand for barriers on other machines, so they must cost little here: the value is a list of sockets.
    """
    server = urlsplit(stage.cluster.server)
    tls = ssl.create_default_context(cafile=str(stage.cluster.ca_file))
    metadata = stage.frameworks.config_map(gang.name)["metadata"]
    params = {
        "watch": "1",
        "fieldSelector": f"metadata.name={metadata['name']}",
        "resourceVersion": metadata["resourceVersion"],
        "allowWatchBookmarks": "true",
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps?{urlencode(params)}"
    request = f"GET {path} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer {stage.token}\r\n\r\n"

    def opened(_number: int) -> ssl.SSLSocket:
        address = (server.hostname or "", server.port or 443)
        found = tls.wrap_socket(socket.create_connection(address), server_hostname=server.hostname)
        found.sendall(request.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += found.recv(1)
        assert head.startswith(b"HTTP/1.1 200 "), head
        found.setblocking(False)  # noqa: FBT003 -- the standard library's signature
        return found

    with contextlib.ExitStack() as sockets, ThreadPoolExecutor(_OPENING_AT_A_TIME) as opening:
        yield [sockets.enter_context(found) for found in opening.map(opened, range(count))]


def arrivals(watches: list[ssl.SSLSocket]) -> tuple[list[float], int]:
    """Wait until all watches have the complete roster; return when each had it, in monotonic seconds, and the bytes."""
    times: list[float] = []
    received = {found: bytearray() for found in watches}
    with selectors.DefaultSelector() as ready:
        for found in watches:
            ready.register(found, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select():
                found = cast("ssl.SSLSocket", key.fileobj)
                if _is_complete(found, received[found]):
                    times.append(time.monotonic())
                    ready.unregister(found)
    return times, sum(map(len, received.values()))


def _is_complete(found: ssl.SSLSocket, received: bytearray) -> bool:
    """Read the available bytes; return whether they end the event with the complete roster."""
    with contextlib.suppress(ssl.SSLWantReadError):
        while data := found.recv(2**16):
            received += data
        raise AssertionError("the watch has ended")
    return received.endswith(b"}\n\r\n") and (rb"\"complete\":true" in received or b'"roster.gz"' in received)


# A single thread that does nothing else, so that it notes the end of a process at once, by the same clock as ours. In a
# cluster barriers run on other nodes than the API server and the controller, so here they have the lowest priority.
_PROCESSES_SCRIPT = """
import json, os, sys, time
os.nice(19)
barriers = {}
for environment in json.loads(sys.stdin.readline()):
    reading, writing = os.pipe()
    output = [(os.POSIX_SPAWN_DUP2, writing, 2)]
    command = [sys.executable, "-OO", "-m", "frameworkbarrier"]
    barriers[os.posix_spawn(command[0], command, environment, file_actions=output)] = reading
    os.close(writing)
for reading in barriers.values():
    os.read(reading, 4096)
print("waiting", flush=True)
sys.stdin.readline()
def used(pid):
    threads = (open(f"/proc/{pid}/task/{thread}/schedstat") for thread in os.listdir(f"/proc/{pid}/task"))
    return sum(int(file.read().split()[0]) for file in threads) / 1e6
waited = {pid: used(pid) for pid in barriers}
print("noted", flush=True)
while barriers:
    pid, status, usage = os.wait4(-1, 0)
    at = time.monotonic()
    log = os.read(barriers.pop(pid), 65536).decode(errors="replace")
    cpu_ms = (usage.ru_utime + usage.ru_stime) * 1e3 - waited[pid]
    row = {"at": at, "cpu_ms": cpu_ms, "code": os.waitstatus_to_exitcode(status), "log": log}
    print(json.dumps(row), flush=True)
"""


class Barriers:
    """Real barriers of the first Tasks of a gang, as processes that write below a folder; all wait for the gang."""

    def __init__(self, gang: Gang, count: int, folder: Path) -> None:
        outputs = [folder / str(index) for index in range(count)]
        for output in outputs:
            output.mkdir()
        command = [sys.executable, "-I", "-S", "-c", _PROCESSES_SCRIPT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        environments = [gang.environment(index, str(output)) for index, output in enumerate(outputs)]
        self._say(json.dumps(environments), answer="waiting")

    def note(self) -> None:
        """Start to count the CPU time of each barrier."""
        self._say("", answer="noted")

    def ends(self) -> list[dict[str, float]]:
        """Wait until all have ended; return of each when (`at`, monotonic seconds) and its `cpu_ms` since `note`."""
        rows = [json.loads(line) for line in self._output]
        for row in rows:
            assert row["code"] == 0, row
        return rows

    def close(self) -> None:
        """Kill those that have not ended."""
        self._process.kill()
        self._process.communicate()

    def _say(self, line: str, *, answer: str) -> None:
        self._input.write(f"{line}\n")
        self._input.flush()
        received = self._output.readline()
        assert received == f"{answer}\n", received
