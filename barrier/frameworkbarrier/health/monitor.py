"""The child of the sidecar that collects progress, answers who asks, and leads if it is the first.

`python -m frameworkbarrier.health.monitor SETTINGS` reads what the gang is from its standard input, one JSON object a
line, and writes what it finds to its standard output, in the same way. It ends when its input does. What strangers send
is bounded in bytes, time, connections and memory.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frameworkbarrier.health import lead, ras, report
from frameworkbarrier.health.lead import MUTE, NAMED, Finding, Lead, Peer
from frameworkbarrier.health.pod import Pod
from frameworkbarrier.health.pulse import Limits

if TYPE_CHECKING:
    from frameworkbarrier.health.verdict import Answer, Hang

MEMORY_BYTES: Final = 160 * 2**20
"""Of address space: an interpreter with sockets has 40 MiB."""
LOOK_SEC = 1.0
CONNECTIONS = 64
PER_SECOND = 200
"""Connections that are taken; others wait in the kernel."""
REQUEST_SEC = 2.0
REQUEST_BYTES = 2048
GANG_BYTES = 4 * 2**20
RANKS = 64
"""That the metrics name."""
RATE_SEC = 300.0
LENGTH = re.compile(rb"\r\n[ \t]*content-length[ \t]*:[ \t]*(\d{1,9})[ \t]*(?:\r|$)", re.IGNORECASE)
Reply: TypeAlias = tuple[str, bytes]
BAD: Final = "400 Bad Request", b""
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class Monitor:
    """This Pod's part in the watch over its gang."""

    def __init__(self, options: dict[str, Any]) -> None:
        limits = Limits(options["floor"], options["factor"], options["first"])
        self._pod = Pod(options["dir"], limits, options.get("held", ""))
        self._host, self._port = options.get("host", ""), options["port"]
        """Where it listens: "" for all addresses of the Pod."""
        self._uid8, self._own = options["uid"], options["task"]
        self._lead = Lead(self._own, lambda peer, epoch: lead.ask(peer, epoch, self._port), options["first"])
        self._last: Any = options.get("last")
        """The verdict with which the sidecar has ended before."""
        self._ras = bool(options.get("ras"))
        self._found: Finding | None = None
        self._hang: Hang | None = None
        self._hangs = 0
        self._left_out: tuple[str, ...] = ()
        self._steps: list[tuple[float, int]] = []
        """The step of the slowest Pod over the last minutes."""

    async def run(self) -> None:
        """Collect, answer and lead until the input ends."""
        parts = [self._follow(), self._look(), self._watch(), self._serve()]
        if self._ras:
            address = os.environ.get("NCCL_RAS_ADDR", ras.ADDRESS)
            parts.append(ras.follow(lambda data: self._hear("ras", data), address))
        tasks = [asyncio.ensure_future(one) for one in parts]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _follow(self) -> None:
        reader = asyncio.StreamReader(limit=GANG_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            gang = json.loads(line)
            if gang["epoch"] != self._lead.epoch:
                self._hang = self._found = None
            self._lead.follow([Peer(*peer) for peer in gang["peers"]], gang["epoch"], is_ending=gang["ending"])

    def _hear(self, name: str, data: bytes) -> bool:
        return self._pod.hear(name, data, time.monotonic())

    async def _look(self) -> None:
        while True:
            self._pod.look(time.monotonic())
            await asyncio.sleep(LOOK_SEC)

    async def _watch(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(began + self._lead.interval_sec - time.monotonic())
            began, epoch = time.monotonic(), self._lead.epoch
            self._found = await self._lead.round(lambda: self._pod.answer(time.monotonic()))
            if self._found is None:
                self._hang = None  # another leads: what this one says when it leads again is news
            elif epoch == self._lead.epoch:
                self._take(self._found)

    def _take(self, found: Finding) -> None:
        """Say what is new in what the lead has found."""
        if found.silent != self._left_out and found.answers:
            self._left_out = found.silent
            if found.silent:
                say(log=f"of {_listed(found.silent)} nothing is known of progress, so they are left out")
        if found.hang is not None and self._hang is None:
            self._hangs += 1
            document = self._document(found, found.hang)
            say(log=_line(document), hang=document)
        if found.hang is None and self._hang is not None:
            say(log="the gang makes progress again")
        self._hang = found.hang
        now, steps = time.monotonic(), _steps(found)
        if steps:
            self._steps = [*(one for one in self._steps if one[0] > now - RATE_SEC), (now, min(steps))]

    def _document(self, found: Finding, hang: "Hang") -> dict[str, Any]:
        """Return what is said of a hang, with what is known of the first culprits."""
        nodes = {peer.task: peer.node for peer in self._lead.peers}
        named = ((task, found.answers.get(task, MUTE)) for task in hang.culprits[:NAMED])
        culprits = [
            {"task": task, "node": nodes.get(task, ""), "section": one.section, "stack": [*one.stack]}
            for task, one in named
        ]
        times = {"silent": round(hang.silent), "limit": round(hang.limit)}
        return {"epoch": self._lead.epoch, **asdict(hang), **times, "culprits": culprits}

    # --- who asks ---

    async def _serve(self) -> None:
        dual = not self._host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, dualstack_ipv6=dual)
        listener.settimeout(0)
        free, loop = asyncio.Semaphore(CONNECTIONS), asyncio.get_running_loop()
        while True:
            since = loop.time()
            for _ in range(PER_SECOND):
                await free.acquire()
                try:
                    connection, address = await loop.sock_accept(listener)
                except OSError:
                    free.release()
                    break
                asyncio.ensure_future(self._answer(connection, address[0])).add_done_callback(lambda _: free.release())
            await asyncio.sleep(max(0.0, since + 1 - loop.time()))

    async def _answer(self, connection: socket.socket, address: str) -> None:
        loop, data = asyncio.get_running_loop(), b""
        answer: Reply | None = None
        with connection, contextlib.suppress(OSError):  # a time-out is one
            connection.settimeout(0)
            async with asyncio.timeout(REQUEST_SEC):
                while answer is None:
                    more = await loop.sock_recv(connection, REQUEST_BYTES)
                    data += more
                    answer = self._reply(data, address) if more else BAD
                status, body = answer
                head = f"HTTP/1.0 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                await loop.sock_sendall(connection, head.encode() + body)

    def _reply(self, data: bytes, address: str) -> Reply | None:
        """Return the status and the body for a request, None while it is not whole."""
        head, end, body = data.partition(b"\r\n\r\n")
        if not end:
            return None if len(data) <= REQUEST_BYTES else BAD
        method, path, *_ = (*head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(), "", "")
        if method == "GET":
            return self._get(path)
        if method != "POST":
            return "405 Method Not Allowed", b""
        if address not in LOOPBACK:
            return "403 Forbidden", b""
        length = LENGTH.search(head)
        if length is None or (wanted := int(length[1])) > report.MAX_BYTES:
            return "413 Content Too Large", b""
        if len(body) < wanted:
            return None
        name = report.word(path.strip("/"), report.SECTION_CHARACTERS) or "process"
        return ("204 No Content", b"") if self._hear(f"http {name}", body[:wanted]) else BAD

    def _get(self, path: str) -> Reply:
        match path:
            case "/":
                return "200 OK", lead.encode(self._pod.answer(time.monotonic()), self._uid8, self._lead.epoch)
            case "/gang" if self._found is not None:
                return "200 OK", json.dumps(self.gang(self._found), separators=(",", ":")).encode()
            case "/metrics":
                return "200 OK", "".join(f"{line}\n" for line in self._metrics()).encode()
        return "404 Not Found", b""

    def gang(self, found: Finding) -> dict[str, Any]:
        """Return what is known of the gang, for the controller."""
        steps = _steps(found)
        saved = [one.checkpoint for one in found.answers.values() if one.checkpoint is not None]
        ages = [round(one.saved_ago) for one in found.answers.values() if one.saved_ago is not None]
        return {
            "uid": self._uid8,
            "epoch": self._lead.epoch,
            "last": self._last,
            "slowest": min(steps, default=None),
            "fastest": max((one.fastest or 0 for one in found.answers.values()), default=None) if steps else None,
            "perMinute": self._rate(),
            "checkpoint": min(saved, default=None),
            "savedSec": max(ages, default=None),
            "silent": round(min((one.silent for one in found.answers.values()), default=0.0)),
            "ranks": len(found.answers),
            "leftOut": list(found.silent[:NAMED]),
            "hang": None if found.hang is None else self._document(found, found.hang),
        }

    def _rate(self) -> float | None:
        """Return the steps a minute over the last minutes."""
        if len(self._steps) < 2:
            return None
        (since, first), (until, last) = self._steps[0], self._steps[-1]
        return round(max(last - first, 0) / (until - since) * 60, 2)

    def _metrics(self) -> Iterator[str]:
        """Yield what this Pod knows; of the gang, if it leads."""
        own = self._pod.answer(time.monotonic())
        known: dict[str, Answer] = {} if own is None else {self._own: own}
        if self._found is not None:
            known |= self._found.answers
            yield f"frameworkbarrier_gang_hangs {int(self._hang is not None)}"
            yield f"frameworkbarrier_gang_hangs_total {self._hangs}"
        for task, answer in [*known.items()][:RANKS]:
            if answer.step is not None:
                yield f'frameworkbarrier_step{{task="{task}"}} {answer.step}'
            yield f'frameworkbarrier_silent_seconds{{task="{task}"}} {answer.silent:.1f}'
            yield f'frameworkbarrier_silent_limit_seconds{{task="{task}"}} {answer.limit:.1f}'
        for name, number in self._pod.numbers().items():
            # A reader of metrics knows no escape but those of quotes and backslashes; the name is of one clean line.
            quoted = json.dumps(name, ensure_ascii=False)
            yield f'frameworkbarrier_number{{task="{self._own}",name={quoted}}} {number}'


def _steps(found: Finding) -> list[int]:
    return [one.step for one in found.answers.values() if one.step is not None]


def _line(hang: dict[str, Any]) -> str:
    where = "; ".join(f"{one['task']} on {one['node'] or '?'} {' < '.join(one['stack'])}" for one in hang["culprits"])
    return (
        f"the gang hangs: no progress for {hang['silent']} s (limit {hang['limit']} s) after step {hang['step']}; "
        f"culprit: {where.strip() or 'not known'} ({hang['why']})"
    )


def _listed(tasks: tuple[str, ...]) -> str:
    more = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    return ", ".join(tasks[:NAMED]) + more


def say(**found: Any) -> None:
    """Tell the sidecar."""
    sys.stdout.write(json.dumps({name: one for name, one in found.items() if one is not None}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run as a process of its own, until its input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS * 3, CONNECTIONS * 3))
    os.nice(5)
    try:
        asyncio.run(Monitor(json.loads(sys.argv[1])).run())
    except OSError as fault:
        say(log=f"progress is not watched: {fault}")


if __name__ == "__main__":
    main()
