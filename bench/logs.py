"""Measure `logs -f`: forty Pods that write a thousand lines a second each, or as fast as they can.

    .venv/bin/python bench/logs.py [--pods 40] [--rate 1000] [--seconds 20]

A server process plays the API server: one Framework, its Pods, and their logs. The client runs in this process as
`frameworkctl logs -f > /dev/null` does. Printed are the lines that were written and read, the lines per second, the CPU
time and the memory of the client. `--rate 0` writes as fast as the client reads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from frameworkclient.access import Access
from frameworkclient.aio import AsyncClient
from frameworkclient.cli.logprint import LogPrinter
from frameworkclient.cli.terminal import Colours
from frameworkkube.credentials import Endpoint

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

NAME = "training"
TEXT = "step %d loss 0.123456 accuracy 0.98765 throughput 1234.5 samples/s lr 0.0003 grad_norm 1.2345"
BEGIN = "2026-01-01T00:00:00Z"


def meta(name: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of an object."""
    return {"name": name, "namespace": "demo", "uid": f"uid-{name}", "resourceVersion": "1", **more}


def framework(state: str) -> dict[str, Any]:
    """Return the Framework in a state."""
    attempt = {"id": 0, "startTime": BEGIN, "configMapName": "c", "taskRoleStatuses": []}
    status = {"startTime": BEGIN, "state": state, "transitionTime": BEGIN, "attemptStatus": attempt}
    return {"metadata": meta(NAME), "spec": {"taskRoles": []}, "status": status}


def pod(index: int) -> dict[str, Any]:
    """Return a Pod that runs."""
    labels = {"FC_FRAMEWORK_NAME": NAME, "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": str(index)}
    status = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    return {
        "metadata": meta(f"{NAME}-worker-{index}", labels=labels),
        "spec": {"containers": [{"name": "main"}]},
        "status": status,
    }


class Server:
    """The API server of one Framework."""

    def __init__(self, pods: int, rate: int, seconds: float, report: Connection) -> None:
        self.pods, self.rate, self.seconds, self.report = pods, rate, seconds, report
        self.written = 0
        self.open = pods
        self.over = asyncio.Event()

    async def frameworks(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch of Frameworks."""
        return await self._collection(request, [framework("AttemptRunning")], [framework("Completed")])

    async def listed_pods(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch of Pods."""
        found = [pod(index) for index in range(self.pods)]
        return await self._collection(request, found, [])

    async def _collection(self, request: web.Request, items: list[Any], at_end: list[Any]) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            end = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
            for event in [*(("ADDED", item) for item in items), ("BOOKMARK", {"metadata": end})]:
                await self._send(answer, *event)
        await self.over.wait()
        kind = "MODIFIED" if at_end else "DELETED"
        for item in at_end or items:
            item["metadata"]["resourceVersion"] = "2"
            await self._send(answer, kind, item)
        await asyncio.sleep(3600)
        return answer

    async def _send(self, answer: web.StreamResponse, kind: str, item: dict[str, Any]) -> None:
        await answer.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    async def one(self, request: web.Request) -> web.Response:
        """Answer with a Pod."""
        return web.json_response(pod(int(request.match_info["index"])))

    async def log(self, request: web.Request) -> web.StreamResponse:
        """Write the log of a Pod; whoever asks again, because the Pod still runs, gets nothing new."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        if "sinceTime" in request.query:
            return answer
        began, number = time.monotonic(), 0
        while (elapsed := time.monotonic() - began) < self.seconds:
            due = int(elapsed * self.rate) if self.rate else number + 500
            now = f"2026-01-01T00:00:{min(elapsed, 59):012.9f}Z"
            lines = [f"{now} {TEXT % each}\n" for each in range(number, due)]
            number = max(due, number)
            await answer.write("".join(lines).encode())
            await asyncio.sleep(0.02 if self.rate else 0)
        self.written += number
        self.open -= 1
        if not self.open:
            self.report.send(self.written)
            self.over.set()
        return answer


def serve(pods: int, rate: int, seconds: float, report: Connection) -> None:
    """Serve until the process is terminated."""

    async def main() -> None:
        server = Server(pods, rate, seconds, report)
        app = web.Application()
        base = "/api/v1/namespaces/demo/pods"
        group = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/demo/frameworks"
        app.router.add_get(group, server.frameworks)
        app.router.add_get(f"{group}/{NAME}", lambda _: _json(framework("AttemptRunning")))
        app.router.add_get(base, server.listed_pods)
        app.router.add_get(f"{base}/{NAME}-worker-{{index}}", server.one)
        app.router.add_get(f"{base}/{NAME}-worker-{{index}}/log", server.log)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        report.send(runner.addresses[0][1])
        await asyncio.sleep(3600)

    asyncio.run(main())


async def _json(value: Any) -> web.Response:
    return web.json_response(value)


async def read(port: int, printer: LogPrinter) -> int:
    """Read all logs as the command does, and return the number of lines."""
    count = 0
    found = Access(Endpoint(f"http://127.0.0.1:{port}"), "demo")
    async with AsyncClient(found=found) as client, aclosing(client.log_batches(NAME, follow=True)) as batches:
        async for batch in batches:
            printer.write(batch)
            count += len(batch.lines)
    return count


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--rate", type=int, default=1000, help="lines a second of each Pod, 0: as fast as possible")
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(arguments.pods, arguments.rate, arguments.seconds, theirs), daemon=True
    )
    server.start()
    port = ours.recv()
    began, cpu = time.monotonic(), time.process_time()
    with Path("/dev/null").open("w") as sink:
        printer = LogPrinter(sink, Colours(enabled=True), on_terminal=True, timestamps=False)
        lines = asyncio.run(read(port, printer))
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    written = ours.recv()
    server.terminate()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"written {written} lines, read {lines}, lost {written - lines}")
    print(
        f"{lines / seconds:.0f} lines/s, {1e6 * cpu / max(lines, 1):.1f} us CPU per line, {cpu / seconds:.0%} of a core"
    )
    print(f"memory at most {memory:.0f} MiB")


if __name__ == "__main__":
    main()
