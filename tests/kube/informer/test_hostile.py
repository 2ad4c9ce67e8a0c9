"""One object that cannot be read, between healthy ones: it costs only itself, in a list as in a watch."""

import asyncio
import json
import random
import threading

import pytest
from structlog.testing import capture_logs

from frameworkkube.informer.watch_events import UndecodableObject, WireDecoder
from tests.kube.lab import BOTH_WAYS, Lab
from tests.kube.pods import Pod, added, deleted, error, event, modified, pod, raw_object
from tests.kube.scripted import answer
from tests.kube.wire_fuzzer import DECODERS, check

DEEP = b"[" * 100_000 + b"]" * 100_000
WIDE = b"[" + b",".join([b"{}"] * 300_000) + b"]"


def item(**changed: bytes) -> bytes:
    """The object `bad`, with some of its parts replaced by these bytes."""
    return raw_object(pod("bad", 6) | changed)


def metadata(**changed: bytes) -> bytes:
    return raw_object({"name": "bad", "namespace": "default", "uid": "uid-bad", "resourceVersion": "6"} | changed)


HOSTILE = {
    "nested deeply where nobody looks": item(spec=DEEP),
    "nested deeply in what is decoded": item(status=b'{"phase":' + DEEP + b"}"),
    "nested deeply in the metadata": item(metadata=metadata(managedFields=DEEP)),
    "nested just beyond the interpreter's limit": item(spec=b"[" * 1100 + b"]" * 1100),
    "of another type": item(status=b'"Pending"'),
    "metadata of another type": item(metadata=metadata(labels=b"3")),
    "a label of another type": item(metadata=metadata(labels=b'{"a":{}}')),
    "text that is not UTF-8": item(status=b'{"phase":"\xff"}'),
    "text that is not UTF-8 in the metadata": item(metadata=metadata(labels=b'{"a":"\xff"}')),
    "half a surrogate pair": item(status=b'{"phase":"\\ud800"}'),
    "an escape that does not exist": item(status=b'{"phase":"\\x"}'),
    "a control character in a text": item(status=b'{"phase":"\x01"}'),
    "not a number": item(spec=b'{"a":NaN}'),
    "a word that is not JSON": item(spec=b'{"a":tru}'),
    "no value": item(spec=b'{"a":}'),
}
HARMLESS = {
    "a number out of range": item(spec=b'{"a":1e999,"b":' + b"9" * 5000 + b"}"),
    "wide": item(spec=WIDE),
    "a key of a mebibyte": item(spec=b'{"%s":1}' % (b"k" * (1 << 20))),
    "the same key again": item(spec=b'{"a":1,"a":2}'),
}


@BOTH_WAYS
@pytest.mark.parametrize("hostile", (HOSTILE | HARMLESS).values(), ids=HOSTILE | HARMLESS)
@pytest.mark.parametrize("place", ["listed", "watched"])
async def test_its_neighbours_are_seen_and_it_is_reported_once_by_name(lab: Lab, hostile: bytes, place: str) -> None:
    again, running = event("MODIFIED", hostile), modified("a", 10, phase="Running")
    if place == "listed":
        lab.listed(9, pod("a", 5), hostile, pod("z", 7), then=[again, running])
    else:
        lab.listed(4, then=[added("a", 5), event("ADDED", hostile), added("z", 7), again, running])
    found: list[UndecodableObject] = []
    with capture_logs() as logs:
        made = lab.follow(on_undecodable=found.append)
        await lab.eventually(lambda: "~a/uid-a:Running" in lab.seen)
    assert {"+a/uid-a", "+z/uid-z"} <= set(lab.seen)
    assert (made.lists, made.resource_version) == (1, "10")
    assert len(lab.of("watch")) == (0 if lab.streamed else 1)
    named = [(entry["namespace"], entry["error"]) for entry in logs if entry.get("name") == "bad"]
    if hostile in HARMLESS.values():
        assert made.get("default", "bad") is not None
        assert (dict(made.undecodable), named) == ({}, [])
        return
    assert made.get("default", "bad") is None
    assert list(made.undecodable) == [("default", "bad")]
    assert [(one.identity.name, one.identity.uid) for one in found] == [("bad", "uid-bad")]
    assert found[0].reason
    assert named == [("default", found[0].reason)]


ENDS = {"mended": modified("bad", 10), "deleted": deleted("bad", 10), "not in the next list": error(410, "Expired")}


@BOTH_WAYS
@pytest.mark.parametrize("end", ENDS)
async def test_an_object_is_no_longer_reported_as_undecodable_once_it_is_mended_or_gone(lab: Lab, end: str) -> None:
    lab.listed(9, HOSTILE["nested deeply where nobody looks"], then=[ENDS[end], added("z", 18)])
    lab.listed(20, pod("z", 18))
    found: list[UndecodableObject] = []
    made = lab.follow(on_undecodable=found.append)
    lists = 2 if end == "not in the next list" else 1
    await lab.eventually(lambda: "+z/uid-z" in lab.seen and made.lists == lists)
    assert len(found) == 1
    assert not made.undecodable
    assert (made.get("default", "bad") is not None) == (end == "mended")


@pytest.mark.parametrize("keeps", [True, False])
async def test_an_object_that_becomes_undecodable_stays_cached_until_it_is_deleted_where_that_is_asked_for(
    lab: Lab, *, keeps: bool
) -> None:
    bad = item(status=b'{"phase":7}')
    lab.listed(5, pod("bad", 5), then=[event("MODIFIED", bad), added("z", 7), event("DELETED", bad)])
    found: list[UndecodableObject] = []
    lab.follow(on_undecodable=found.append, keeps_last=keeps)
    await lab.eventually(lambda: len(lab.seen) == 3)
    gone, other = "-bad/uid-bad", "+z/uid-z"
    assert lab.seen == ["+bad/uid-bad", *([other, gone] if keeps else [gone, other])]
    assert "$.status.phase" in found[0].reason


async def test_what_the_server_deleted_is_told_to_the_handler_although_its_line_is_odd(lab: Lab) -> None:
    odd = event("DELETED", item(spec=b'{"a":1e999}'))
    lab.listed(5, pod("bad", 5), then=[b"\xef\xbb\xbf" + odd])
    gone: list[bytes] = []
    lab.follow(on_deleted=lambda _kept, document: gone.append(document))
    await lab.eventually(lambda: gone)
    assert json.loads(gone[0])["metadata"]["name"] == "bad"


@pytest.mark.parametrize("kind", DECODERS)
def test_what_is_broken_at_random_costs_only_itself(kind: str) -> None:
    """`wire_fuzzer` tries many more."""
    outcomes = {check(kind, random.Random(number)) for number in range(250)}
    assert {"left out of a page", "decoded in a page", "left out of a watch", "MalformedError", "decoded"} <= outcomes


NO_LISTS = {
    "a status": b'{"kind":"Status","metadata":{}}',
    "no version": b'{"kind":"Status","metadata":{},"items":[]}',
    "no items": b'{"kind":"PodList","metadata":{"resourceVersion":"9"}}',
    "cut off": b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":',
    "html": b"<html>login</html>",
    "nothing": b"",
}


@pytest.mark.parametrize("body", NO_LISTS.values(), ids=NO_LISTS)
async def test_a_success_that_is_no_list_does_not_empty_the_cache(lab: Lab, body: bytes) -> None:
    lab.listed(5, pod("a", 5), then=[error(410, "Expired")])
    lab.on("GET", answer(200, body))
    lab.listed(9, pod("a", 5))
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    assert lab.seen == ["+a/uid-a"]


@pytest.mark.parametrize("way", ["page", "event"])
async def test_the_loop_goes_on_while_much_is_decoded(lab: Lab, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    large = {"spec": "x" * (1 << 20)}
    lab.listed(5, pod("a", 5) | large, then=[event("ADDED", pod("z", 7) | large)])
    quick = WireDecoder.quick
    decode, loop, turns = getattr(WireDecoder, way), asyncio.get_running_loop(), list[bool]()

    def slow(decoder: WireDecoder[Pod], document: bytes) -> object:
        """Decode only once the loop has had a turn."""
        turn = threading.Event()
        loop.call_soon_threadsafe(turn.set)
        turns.append(turn.wait(30))
        return decode(decoder, document) if way == "page" else quick(decoder, document)

    monkeypatch.setattr(WireDecoder, way, slow)
    # As of a line that only two passes can read; an ordinary one takes some milliseconds, however large it is.
    monkeypatch.setattr(WireDecoder, "quick", lambda _decoder, _line: None)
    lab.follow()
    await lab.eventually(lambda: "+z/uid-z" in lab.seen)
    assert turns
    assert all(turns)
