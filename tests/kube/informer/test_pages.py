"""The size of a list's pages: bounded in bytes, and few pages where objects are small."""

import asyncio
import tracemalloc
from dataclasses import dataclass, field

import msgspec
import pytest

from frameworkkube.informer import informer
from frameworkkube.informer.lists import FIRST_OBJECTS, MOST_BYTES, WANTED_BYTES, PageSize
from frameworkkube.informer.watch_events import WireDecoder
from tests.kube.lab import Lab
from tests.kube.pods import Meta, error, listing, pod
from tests.kube.scripted import Connection, answer, watch

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
        items = (pod(f"pod-{place}", place + 1) | {"large": "x" * self.sizes[place]} for place in range(first, last))
        body = listing(9000, *items, token=str(last) if last < len(self.sizes) else "")
        self.sent.append((first, len(body)))
        await answer(200, body)(connection)


async def list_of(lab: Lab, collection: Collection) -> None:
    """Lists a collection with a fresh informer."""
    lab.on("GET", then=collection.serve)
    lab.on("watch", then=watch(end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.has_synced)
    assert len(made) == len(collection.sizes)


async def test_many_large_objects_come_in_pages_of_a_few_mebibytes_and_again_in_the_next_list(lab: Lab) -> None:
    lab.on("watch", watch(error(410, "Expired")))
    collection = Collection([MIB] * 48)
    await list_of(lab, collection)
    await lab.eventually(lambda: len(lab.of("watch")) == 2)
    sizes = [size for _, size in collection.sent]
    assert sizes[0] <= (FIRST_OBJECTS + 1) * MIB, "a list begins with few objects"
    assert max(sizes[1:]) <= WANTED_BYTES
    again = next(place for place, (first, _) in enumerate(collection.sent) if place and first == 0)
    assert again <= 1 + 28 / 7 + 1


async def test_small_objects_come_in_few_requests(lab: Lab) -> None:
    collection = Collection([100] * 2_000)
    await list_of(lab, collection)
    assert [first for first, _ in collection.sent] == [0, 20, 520, 1020, 1520]


async def test_a_page_of_objects_that_have_become_large_is_not_read_to_its_end(lab: Lab) -> None:
    collection = Collection([100] * FIRST_OBJECTS + [200 * KIB] * 300)
    await list_of(lab, collection)
    cut_off = [first for first, size in collection.sent if size > MOST_BYTES]
    assert cut_off == [FIRST_OBJECTS], "it learns from one such page"
    assert max(size for first, size in collection.sent if first > FIRST_OBJECTS) <= WANTED_BYTES
    assert len(lab.seen) == len(collection.sizes), "each object is reported once"


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


class Encoded(msgspec.Struct, frozen=True):
    """An object of which a part stays encoded, as a Framework."""

    metadata: Meta
    spec: msgspec.Raw


def test_one_object_does_not_keep_its_page_in_memory() -> None:
    wire = WireDecoder(msgspec.json.Decoder(Encoded))
    tracemalloc.start()
    try:
        page = wire.page(listing(1, *(pod(f"pod-{place}", 1) | {"spec": "x" * MIB} for place in range(10))))
        kept = page.items[5]
        del page
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(kept, Encoded)
    assert MIB <= held < 2 * MIB


async def test_a_page_makes_way_for_others_while_it_is_taken_over(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight mebibytes of large Pods it was one turn of half a second."""
    monkeypatch.setattr(informer, "_HANDLING_SECONDS", -1.0)
    turns, known = 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    lab.on("GET", then=Collection([100] * FIRST_OBJECTS).serve)
    lab.on("watch", then=watch(end="silence"))
    made = lab.follow(on_change=lambda *_change: known.append(turns))
    lab.run(others())
    await made.synced.wait()
    assert len(set(known)) == FIRST_OBJECTS
