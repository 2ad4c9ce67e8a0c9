"""What waits to be written, and to be let go of: no input of one holds up or pushes out what others wait for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkhistory.archive.database import Database
from frameworkhistory.follow.follower import Follower
from frameworkkube.errors import ApiStatusError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from testkit.waiting import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def state(name: str = "fw", version: int = 1, *, deleting: bool = False, gpus: str = "1") -> Framework:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "lab",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [names.HISTORY_FINALIZER],
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"metadata": {}, "spec": {"containers": [container]}}
    spec = {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": pod}}]}
    return FRAMEWORK_DECODER.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}))


@contextlib.asynccontextmanager
async def following(folder: Path) -> AsyncIterator[Follower]:
    """A follower with a database, whose informers are not at work."""
    client = KubeClient(Endpoint("http://127.0.0.1:1"))
    with contextlib.closing(Database(f"sqlite:///{folder}/archive.db")) as database:
        database.open()
        try:
            yield Follower(client, database.engine)
        finally:
            await client.close()


async def test_a_framework_whose_release_is_refused_holds_up_no_other(tmp_path: Path) -> None:
    async with following(tmp_path) as follower:
        released: list[str] = []

        async def release(held: Framework) -> None:
            if held.metadata.name == "refused":
                raise ApiStatusError(403, "Forbidden", "a policy says no")
            released.append(held.metadata.name)

        follower._release = release  # type: ignore[method-assign] # -- the answers of the API server
        for name in ("first", "second", "refused"):
            follower._hold(state(name, deleting=True))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follower._release_always())

            async def check() -> None:
                assert released == ["first", "second"]

            await eventually_async(check, timeout=5)
            task.cancel()
