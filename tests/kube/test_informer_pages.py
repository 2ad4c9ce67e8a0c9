"""The size of a list's pages: bounded in bytes, and few pages where objects are small."""

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from frameworkkube.errors import AnswerTooLargeError
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.lists import FIRST_OBJECTS, MOST_BYTES, WANTED_BYTES, PageSize
from frameworkkube.informer.watch_events import WireDecoder
from testkit.waiting import patience
from tests.kube.lab import Lab
from tests.kube.pods import Meta, error, pod
from tests.kube.scripted import Connection, ScriptedServer, answer, watch

KIB, MIB = 1 << 10, 1 << 20


@dataclass
class Collection:
    """Serves objects of these sizes in bytes, so many per page as are asked for, and remembers the pages."""

    sizes: list[int]
    sent: list[tuple[int, int]] = field(default_factory=list)
    """First object and size of each page."""

    async def serve(self, connection: Connection) -> None:
        query = connection.request.query
        first = int(query.get("continue", "0"))
        last = min(first + int(query["limit"]), len(self.sizes))
        items = b",".join(self._item(place) for place in range(first, last))
        token = str(last) if last < len(self.sizes) else ""
        head = json.dumps({"resourceVersion": "9000", "continue": token}).encode()
        body = b'{"metadata":%s,"items":[%s]}' % (head, items)
        self.sent.append((first, len(body)))
        await answer(200, body)(connection)

    def _item(self, place: int) -> bytes:
        item = pod(f"pod-{place}", place + 1)
        return json.dumps(item | {"large": "x" * self.sizes[place]}).encode()


@pytest.fixture
def listed(lab: Lab) -> Callable[..., Awaitable[None]]:
    """Lists a collection with a fresh informer."""

    async def of(collection: Collection, **settings: int) -> None:
        lab.on("GET", then=collection.serve)
        lab.on("watch", then=watch(end="silence"))
        made = lab.follow(**settings)
        await asyncio.wait_for(made.synced.wait(), patience(10))
        assert len(made) == len(collection.sizes)

    return of


async def test_many_large_objects_come_in_pages_of_a_few_mebibytes(listed: Callable[..., Awaitable[None]]) -> None:
    collection = Collection([MIB] * 100)
    await listed(collection)
    sizes = [size for _, size in collection.sent]
    assert sizes[0] <= (FIRST_OBJECTS + 1) * MIB, "a list begins with few objects"
    assert max(sizes[1:]) <= WANTED_BYTES
    assert len(sizes) <= 1 + 80 / 7 + 1


async def test_small_objects_come_in_few_requests(listed: Callable[..., Awaitable[None]]) -> None:
    collection = Collection([100] * 2_000)
    await listed(collection)
    assert [first for first, _ in collection.sent] == [0, 20, 520, 1020, 1520]


async def test_a_page_of_objects_that_have_become_large_is_not_read_to_its_end(
    listed: Callable[..., Awaitable[None]], lab: Lab
) -> None:
    collection = Collection([100] * FIRST_OBJECTS + [200 * KIB] * 300)
    await listed(collection)
    cut_off = [first for first, size in collection.sent if size > MOST_BYTES]
    assert cut_off == [FIRST_OBJECTS], "it learns from one such page"
    assert max(size for first, size in collection.sent if first > FIRST_OBJECTS) <= WANTED_BYTES
    assert len(lab.seen) == len(collection.sizes), "each object is reported once"


async def test_the_next_list_begins_with_what_the_last_one_has_learned(lab: Lab) -> None:
    collection = Collection([MIB] * 24)
    lab.on("GET", then=collection.serve)
    lab.on("watch", watch(error(410, "Expired")))
    lab.on("watch", then=watch(end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    again = next(place for place, (first, _) in enumerate(collection.sent) if place and first == 0)
    assert max(size for _, size in collection.sent[again:]) <= WANTED_BYTES


def test_a_single_object_is_read_whatever_its_size() -> None:
    size = PageSize(500)
    assert size.max_bytes == MOST_BYTES
    for _ in range(5):
        size.was_too_large()
    assert (size.objects, size.max_bytes) == (1, None)
    size.took(1, 100 * MIB)
    assert size.objects == 1
    size.took(0, 100)
    assert size.objects == 1, "an empty page says nothing"
    size.took(1, 100)
    assert size.objects == 500


async def test_an_answer_beyond_its_bound_is_an_error_of_its_own(server: ScriptedServer, client: KubeClient) -> None:
    server.on("GET", then=answer(200, b"x" * 1_000))
    assert len(await client.request("GET", "/", max_bytes=1_000)) == 1_000
    with pytest.raises(AnswerTooLargeError, match="GET /: the answer has more than 999 bytes"):
        await client.request("GET", "/", max_bytes=999)
    assert len(await client.request("GET", "/")) == 1_000


class Encoded(msgspec.Struct, frozen=True):
    """An object of which a part stays encoded, as a Framework."""

    metadata: Meta
    spec: msgspec.Raw


def test_one_object_does_not_keep_its_page_in_memory() -> None:
    wire = WireDecoder(msgspec.json.Decoder(Encoded))
    tracemalloc.start()
    try:
        items = [pod(f"pod-{place}", 1) | {"spec": "x" * MIB} for place in range(10)]
        page = wire.page(json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())
        kept = page.items[5]
        del items, page
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(kept, Encoded)
    assert MIB <= held < 2 * MIB
