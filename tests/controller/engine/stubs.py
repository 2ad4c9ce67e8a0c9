"""What the engine stands between in its tests: an API server, who performs effects, and a log, scripted and seen."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

import msgspec
import pytest

from frameworkcontroller.api import names
from frameworkcontroller.core.effects import Done, Effect, Outcome, Subject, WriteStatus
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.observe.log import LineWriter
from tests.kube.scripted import refuse_to_list

E = TypeVar("E", bound=Effect)

FRAMEWORKS = f"/apis/{names.API_VERSION}/{names.PLURAL}"
ROLE = {"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}}
SPEC = {"executionType": "Start", "taskRoles": [ROLE]}


def framework(version: int = 1, uid: str = "u", generation: int = 1, name: str = "fw") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version), "generation": generation}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": SPEC}


def owned(name: str, by: str = "fw", **more: Any) -> dict[str, Any]:
    """An object that a Framework owns."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": by, "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "n", "resourceVersion": "1", "labels": {names.FRAMEWORK_NAME: by}}
    return {"metadata": metadata | {"ownerReferences": [owner]} | more}


class Client:
    """Lists these objects, and watches what a test shows or raises then.

    Attributes:
        others: objects of other kinds, by their plurals.
        watched: events of each kind, and errors that end its watch.
        reads: what reads answer or raise, in their order; after that, what is listed.
        read_seconds: what a read takes.
        at: the paths that were read.
        recorded: the Events.
    """

    read_seconds = 0.0

    def __init__(self, *frameworks: dict[str, Any], **others: list[dict[str, Any]]) -> None:
        self.frameworks, self.others = frameworks, others
        self.watched: defaultdict[str, asyncio.Queue[bytes | Exception]] = defaultdict(asyncio.Queue)
        self.reads, self.at, self.recorded = list[Any](), list[str](), list[dict[str, Any]]()

    async def request(self, method: str, path: str, **_more: Any) -> bytes:
        assert method == "GET"
        items = self.frameworks if path == FRAMEWORKS else self.others.get(path.rpartition("/")[2], ())
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": list(items)}).encode()

    async def stream(
        self, path: str, query: Mapping[str, str], *, on_open: Callable[[], None], **_more: Any
    ) -> AsyncIterator[bytes]:
        refuse_to_list(query)
        on_open()
        while True:
            found = await self.watched[path.rpartition("/")[2]].get()
            if isinstance(found, Exception):
                raise found
            yield found

    async def get(self, path: str, **_more: Any) -> bytes:
        self.at.append(path)
        await asyncio.sleep(self.read_seconds)
        where, _, name = path.rpartition("/")
        assert where.endswith("/namespaces/n/frameworks")
        listed = (one for one in self.frameworks if one["metadata"]["name"] == name)
        found = self.reads.pop(0) if self.reads else next(listed)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    async def create(self, path: str, body: bytes, **_more: Any) -> bytes:
        assert path == "/api/v1/namespaces/n/events"
        return await self.patch(path, body)

    async def patch(self, _path: str, body: bytes, **_more: Any) -> bytes:
        self.recorded.append(json.loads(body))
        return json.dumps(framework(name="event")).encode()

    def shows(self, kind: str, seen: Mapping[str, Any], of: str = names.PLURAL) -> None:
        self.watched[of].put_nowait(msgspec.json.encode({"type": kind, "object": seen}))


class Performer:
    """Remembers effects; their outcomes are `Done`, after the ones that a test gives for writes of the status."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes, self.performed = list(outcomes), list[Effect]()
        self.hold: asyncio.Event | None = None

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        assert subject.namespace == "n"
        self.performed.append(effect)
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(effect, WriteStatus) and self.outcomes:
            return self.outcomes.pop(0)
        return Done(uid="made", resource_version=str(100 + len(self.performed)))

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.performed if isinstance(effect, kind)]

    @property
    def writes(self) -> list[WriteStatus]:
        return self.of(WriteStatus)


class Lines(LineWriter):
    """A log that is written at once, so that a test in virtual time can wait for its lines."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        super().__init__(self.written.append)

    def put(
        self, line: Callable[[], bytes], _size: int, _owner: str = "", done: Callable[[], object] | None = None
    ) -> None:
        self.written.append(line())
        if done is not None:
            done()


def engine_of(client: Client, performer: object, config: CoreConfig | None = None, **settings: Any) -> Engine:
    return Engine(cast("Any", client), cast("Any", performer), config or Settings().core, **settings)


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[asyncio.Task[object]]:
    """Work that runs until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def running(
    client: Client, performer: object, config: CoreConfig | None = None, **settings: Any
) -> AsyncIterator[Engine]:
    engine = engine_of(client, performer, config, **settings)
    async with beside(engine.run()):
        yield engine


async def until(condition: Callable[[], object], every: float = 0.2) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(every)
    raise AssertionError("it did not happen")
