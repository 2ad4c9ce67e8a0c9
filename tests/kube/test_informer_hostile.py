"""One object that cannot be read, between healthy ones: it costs only itself, in a list as in a watch."""

import asyncio
import json
import threading

import pytest

from frameworkkube.informer.watch_events import UndecodableObject, WireDecoder
from tests.kube.lab import Lab
from tests.kube.pods import Pod, added, deleted, end_of_list, error, listing, modified, pod
from tests.kube.scripted import answer, watch

DEEP = b"[" * 100_000 + b"]" * 100_000
WIDE = b"[" + b",".join([b"{}"] * 300_000) + b"]"


def item(**changed: bytes) -> bytes:
    """The object `bad`, with some of its parts replaced by these bytes."""
    whole = {key: json.dumps(value).encode() for key, value in pod("bad", 6).items()}
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), value) for key, value in (whole | changed).items()) + b"}"


def metadata(**changed: bytes) -> bytes:
    whole = {"name": b'"bad"', "namespace": b'"default"', "uid": b'"uid-bad"', "resourceVersion": b'"6"'}
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), value) for key, value in (whole | changed).items()) + b"}"


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


@pytest.mark.parametrize("hostile", (HOSTILE | HARMLESS).values(), ids=HOSTILE | HARMLESS)
@pytest.mark.parametrize("way", ["listed in pages", "in a streamed list", "watched"])
async def test_its_neighbours_are_seen(lab: Lab, hostile: bytes, way: str) -> None:
    a, z, running = added("a", 5), added("z", 7), modified("a", 10, phase="Running")
    line = b'{"type":"ADDED","object":%s}' % hostile
    if way == "in a streamed list":
        lab.on("stream", watch(a, line, z, end_of_list(9), running, end="silence"))
    elif way == "watched":
        lab.on("GET", answer(200, listing(4)))
        lab.on("watch", then=watch(a, line, z, running, end="silence"))
    else:
        page = json.dumps(listing(9, pod("a", 5), {}, pod("z", 7))).encode().replace(b"{}", hostile, 1)
        lab.on("GET", answer(200, page))
        lab.on("watch", then=watch(running, end="silence"))
    found: list[UndecodableObject] = []
    made = lab.follow(on_undecodable=found.append)
    await lab.eventually(lambda: "~a/uid-a:Running" in lab.seen)
    assert {"+a/uid-a", "+z/uid-z"} <= set(lab.seen)
    assert (made.lists, made.resource_version) == (1, "10")
    assert len(lab.of("watch")) == (0 if way == "in a streamed list" else 1)
    if hostile in HARMLESS.values():
        assert made.get("default", "bad") is not None
        assert not made.undecodable
        return
    assert made.get("default", "bad") is None
    assert list(made.undecodable) == [("default", "bad")]
    assert [(one.identity.name, one.identity.uid) for one in found] == [("bad", "uid-bad")]
    assert found[0].reason


ENDS = {"mended": modified("bad", 10), "deleted": deleted("bad", 10)}


@pytest.mark.parametrize("end", [*ENDS, "deleted while the watch was closed", "not in the next streamed list"])
async def test_an_object_is_no_longer_reported_as_undecodable_once_it_is_mended_or_gone(lab: Lab, end: str) -> None:
    deep = HOSTILE["nested deeply where nobody looks"]
    if end == "not in the next streamed list":
        lab.on("stream", watch(b'{"type":"ADDED","object":%s}' % deep, end_of_list(9), error(410, "Expired")))
        lab.on("stream", watch(added("z", 18), end_of_list(20), end="silence"))
    page = json.dumps(listing(9, {})).encode().replace(b"{}", deep, 1)
    lab.on("GET", answer(200, page), answer(200, listing(20, pod("z", 18))))
    lab.on("watch", watch(ENDS.get(end, error(410, "Expired")), added("z", 18)), then=watch(end="silence"))
    found: list[UndecodableObject] = []
    made = lab.follow(on_undecodable=found.append)
    await lab.eventually(lambda: "+z/uid-z" in lab.seen)
    if end == "not in the next streamed list":
        await lab.eventually(lambda: made.lists == 2)
    assert len(found) == 1
    assert not made.undecodable
    assert (made.get("default", "bad") is not None) == (end == "mended")


async def test_what_the_server_deleted_is_told_to_the_handler_although_its_line_is_odd(lab: Lab) -> None:
    lab.on("GET", answer(200, listing(5, pod("bad", 5))))
    line = b'{"type":"DELETED","object":%s}' % item(spec=b'{"a":1e999}')
    lab.on("watch", then=watch(b"\xef\xbb\xbf" + line, end="silence"))
    gone: list[bytes] = []
    lab.follow(on_deleted=gone.append)
    await lab.eventually(lambda: gone)
    assert json.loads(gone[0])["metadata"]["name"] == "bad"


async def test_a_handler_of_deletions_that_raises_stops_nothing(lab: Lab) -> None:
    def broken(_document: bytes) -> None:
        raise OSError("the log is closed")

    lab.on("GET", answer(200, listing(5, pod("a", 5))))
    lab.on("watch", then=watch(deleted("a", 6), added("z", 7), end="silence"))
    made = lab.follow(on_deleted=broken)
    await lab.eventually(lambda: "+z/uid-z" in lab.seen)
    assert made.failures == 1


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Status", "metadata": {}},
        {"kind": "Status", "metadata": {}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "9"}},
        b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":',
        b"<html>login</html>",
        b"",
    ],
    ids=["a status", "no version", "no items", "cut off", "html", "nothing"],
)
async def test_a_success_that_is_no_list_does_not_empty_the_cache(lab: Lab, body: object) -> None:
    lab.on("GET", answer(200, listing(5, pod("a", 5))), answer(200, body), answer(200, listing(9, pod("a", 5))))
    lab.on("watch", watch(error(410, "Expired")), then=watch(end="silence"))
    made = lab.follow()
    await lab.eventually(lambda: made.lists == 2)
    assert lab.seen == ["+a/uid-a"]


@pytest.mark.parametrize("way", ["page", "event"])
async def test_the_loop_goes_on_while_a_large_document_is_decoded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    lab.on("GET", answer(200, listing(5, pod("a", 5) | {"spec": "x" * (1 << 20)})))
    large = added("z", 7)
    large["object"]["spec"] = "x" * (1 << 20)
    lab.on("watch", then=watch(large, end="silence"))
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
