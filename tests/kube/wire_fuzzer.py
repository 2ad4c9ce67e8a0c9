"""A fuzzer of what a watch or a list answers: `python -m tests.kube.wire_fuzzer --inputs 100000`.

It breaks one object, or the bytes around it, between healthy ones. Whatever comes, the decoder of lines and pages
raises nothing but its own errors; and where only the object is broken, its neighbours are decoded.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from typing import Any

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.meta import PARTIAL_DECODER
from frameworkcontroller.api.pod import POD_DECODER
from frameworkkube.errors import KubeError
from frameworkkube.http.lines import LineSplitter
from frameworkkube.informer.watch_events import UndecodableObject, WireDecoder
from tests.kube.pods import event, listing, raw_object

DECODERS: dict[str, WireDecoder[Any]] = {
    "Framework": WireDecoder(FRAMEWORK_DECODER),
    "ConfigMap": WireDecoder(PARTIAL_DECODER),
    "Pod": WireDecoder(POD_DECODER),
}
# A document of some kilobytes takes less than a millisecond; this much shows that a parser is not linear.
MAX_CPU_SECONDS = 1.0
NAMED = ("name", "namespace", "uid", "resourceVersion")
FIELDS = (*NAMED, "labels", "annotations", "ownerReferences", "deletionTimestamp")
VALUES: tuple[bytes, ...] = (
    *(b"null", b"true", b"0", b"-1", b"1e999", b"9" * 5000, b'""', b'"x"', b"[]", b"{}", b"[[]]", b'{"":null}'),
    *(b'"\\ud800"', b'"\\x"', b'"\xff"', b'"\x01"', b"NaN", b"tru", b'{"a":}', b"<html>", b'"' + b"x" * 10_000 + b'"'),
    *(b"[" * depth + b"]" * depth for depth in (900, 1100, 5000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (900, 1100, 5000)),
)
ODD_BYTES = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\xff", b"\n", b"\0", b"\xef\xbb\xbf", b"null")


def healthy(kind: str, name: str) -> bytes:
    """Return an object that can be decoded."""
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "resourceVersion": "7", "labels": {"a": "b"}}
    body: dict[str, Any] = {"metadata": metadata, "kind": kind}
    if kind == "Framework":
        body["spec"] = {"taskRoles": [{"name": "w", "taskNumber": 1, "task": {"pod": {"spec": {"containers": []}}}}]}
    if kind == "Pod":
        state = {"terminated": {"exitCode": 1, "reason": "Error"}}
        body["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
    return json.dumps(body).encode()


def broken_object(kind: str, draw: random.Random) -> bytes:
    """Return an object of which some values are something else; its braces match, and its resourceVersion is a text.

    A line without one is nobody's object, and ends the watch.
    """
    metadata = {name: b'"%s"' % name.encode() for name in NAMED}
    parts = {"metadata": b"", "kind": b'"%s"' % kind.encode(), "spec": b"{}", "status": b"{}"}
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.5:
            metadata[draw.choice(FIELDS)] = draw.choice(VALUES)
        else:
            parts[draw.choice(("kind", "spec", "status"))] = draw.choice(VALUES)
    parts["metadata"] = raw_object(metadata | {"resourceVersion": b'"7"'})
    return raw_object(parts)


def changed(document: bytes, draw: random.Random) -> bytes:
    """Return a document of which some bytes are changed, cut off, or repeated."""
    body = bytearray(document)
    for _ in range(draw.randint(1, 6)):
        start = draw.randrange(len(body) + 1)
        match draw.randint(0, 4):
            case 0:
                body[start : start + 1] = bytes([draw.randrange(256)])
            case 1:
                del body[start : start + draw.randint(1, 60)]
            case 2:
                body[start:start] = draw.choice(ODD_BYTES)
            case 3:
                body[start:start] = body[: draw.randint(0, 200)]
            case _:
                del body[start:]
    return bytes(body)


def check(kind: str, draw: random.Random) -> str:
    """Decode something broken, assert what must hold, and return what became of it."""
    begun = time.process_time()
    hostile = broken_object(kind, draw)
    match draw.randint(0, 3):
        case 0:
            outcome = _check_page(kind, hostile)
        case 1:
            outcome = _check_line(kind, hostile, draw)
        case 2:
            outcome = _tried(lambda: DECODERS[kind].page(changed(listing(9, healthy(kind, "a"), hostile), draw)))
        case _:
            line = event("MODIFIED", draw.choice((hostile, healthy(kind, "a"))))
            outcome = _check_stream(kind, changed(line, draw), draw)
    elapsed = time.process_time() - begun
    assert elapsed < MAX_CPU_SECONDS, f"took {elapsed:.2f} s of CPU time"
    return outcome


def _check_page(kind: str, hostile: bytes) -> str:
    """One broken object in a page: its neighbours are there."""
    objects = (healthy(kind, "a"), hostile, healthy(kind, "z"))
    first, between, last = list[Any](DECODERS[kind].page(listing(9, *objects)).items)
    assert (first.metadata.name, last.metadata.name) == ("a", "z")
    return "left out of a page" if isinstance(between, UndecodableObject) else "decoded in a page"


def _check_line(kind: str, hostile: bytes, draw: random.Random) -> str:
    """A line with one broken object: it is an event."""
    change = draw.choice(("ADDED", "MODIFIED", "DELETED"))
    found = DECODERS[kind].event(event(change, hostile))
    assert found is not None
    assert found.type == change
    return "left out of a watch" if isinstance(found.object, UndecodableObject) else "decoded in a watch"


def _check_stream(kind: str, line: bytes, draw: random.Random) -> str:
    """Anything in a stream that comes in pieces: the line after it is decoded."""
    splitter, lines = LineSplitter(), list[bytes]()
    stream = line + b"\n" + event("ADDED", healthy(kind, "z")) + b"\n"
    while stream:
        size = draw.randint(1, len(stream))
        lines += splitter.feed(stream[:size])
        stream = stream[size:]
    outcomes = [_tried(lambda each=each: DECODERS[kind].event(each)) for each in lines]
    last: Any = DECODERS[kind].event(lines[-1])
    assert last.object.metadata.name == "z"
    return outcomes[0]


def _tried(decode: Any) -> str:
    try:
        decode()
    except KubeError as error:
        return type(error).__name__
    return "decoded"


def main() -> int:
    """Fuzz until the number of inputs is reached; print which input breaks an assertion."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    options = parser.parse_args()
    outcomes = Counter[str]()
    for number in range(options.inputs):
        draw = random.Random(f"{options.seed}/{number}")
        try:
            outcomes[check(draw.choice(sorted(DECODERS)), draw)] += 1
        except BaseException:
            print(f"seed {options.seed}, input {number}", file=sys.stderr)
            raise
    summary = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    print(f"seed {options.seed}: {options.inputs} inputs: {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
