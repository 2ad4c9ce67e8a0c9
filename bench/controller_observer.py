"""What the controller's benchmark observes from outside: Pods and Frameworks by watches, requests by metrics."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api.meta import Meta, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.pod import Pod
    from frameworkkube.rest import KubeClient


class ObservedStatus(Wire, frozen=True):
    """The part of a Framework's status that the benchmark reads."""

    state: str = ""


class ObservedFramework(Wire, frozen=True):
    """The part of a Framework that the benchmark reads."""

    metadata: Meta
    status: ObservedStatus | None = None


@dataclass(frozen=True)
class Counted:
    """The API server's counts of all clients' requests, except watches.

    Attributes:
        status_writes: Writes of Framework statuses.
        requests: All requests for the objects of Frameworks.
        written: The bytes of request bodies.
    """

    status_writes: int = 0
    requests: int = 0
    written: float = 0.0

    def since(self, before: Counted) -> Counted:
        """Return the counts since an earlier reading."""
        return Counted(
            self.status_writes - before.status_writes, self.requests - before.requests, self.written - before.written
        )


async def counted(client: KubeClient) -> Counted:
    """Read the counts of the API server so far."""
    text = (await client.request("GET", "/metrics", accept="text/plain", timeout_seconds=60)).decode()
    status = total = 0
    written = 0.0
    for line in text.splitlines():
        if not re.search(r'resource="(frameworks|pods|configmaps|events|roles|rolebindings)"', line):
            continue
        value = float(line.rpartition(" ")[2])
        if line.startswith("apiserver_request_body_size_bytes_sum{"):
            written += value
        elif line.startswith("apiserver_request_total{") and 'verb="WATCH"' not in line:
            total += int(value)
            if 'resource="frameworks"' in line and 'subresource="status"' in line:
                status += int(value)
    return Counted(status, total, written)


@dataclass
class Observer:
    """Counts Pods and Frameworks by watches of its own, independent of the controller."""

    pods: dict[str, str] = field(default_factory=dict)
    created: int = 0
    ran: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Count a change of a Pod; the informer calls it."""
        if new is not None:
            if old is None:
                self.created += 1
            if new.status.phase != "Pending":
                self.ran.add(new.metadata.uid)
        self.changed.set()

    def on_framework(self, _old: Any, new: Any) -> None:
        """Count a change of a Framework; the informer calls it."""
        if new is not None and new.status is not None and new.status.state == "Completed":
            self.completed.add(new.metadata.uid)
        self.changed.set()

    async def until(self, done: Callable[[], bool], start: float, limit: float = 900.0) -> float:
        """Wait until `done` holds, at most `limit` seconds, and return the seconds since `start`."""
        async with asyncio.timeout(limit):
            while not done():
                self.changed.clear()
                await self.changed.wait()
        return time.monotonic() - start
