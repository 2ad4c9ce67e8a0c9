"""A fuzzer of the whole request path: ``python -m injector.fuzz --inputs 100000`` from the folder ``tests``.

Golden reviews are mutated at random, bytes and JSON alike, which needs no tool and tells whether memory grows;
``guided`` does it by coverage. ``check`` is what must hold for any body at all; the tests use it too.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import json
import random
import resource
import sys
import time
from collections import Counter
from typing import Any

import jsonpatch

from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.reasons import Outcome, Reason
from frameworkinjector.review import Answer, answer
from injector.goldens import CASES, pod_of

CONFIG = Config(version="1.2.3")
SECONDS = 0.5
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1e308,
    2**70,
    "",
    "x",
    "\ud800",
    "\u0000",
    "frameworkbarrier",
    "/mnt/frameworkbarrier",
    "/etc/hosts",
    [],
    {},
    [[]],
    [None],
    {"": None},
    "x" * 10_000,
    {"name": "frameworkbarrier"},
)

PIECES = (b"{", b"[", b'"', b",", b"\\u", b"\xff", b"1e999", b"null", b"[" * 2000)


def review_of(pod: Any, **request: Any) -> bytes:
    """A review of the creation of a Pod, parts of the request replaced."""
    whole = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "demo",
        "object": pod,
        **request,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}).encode()


def check(body: bytes, env_files: EnvFiles = EnvFiles.QUOTED) -> Answer:
    """Reviews a body and asserts what must hold whatever it is."""
    started = time.perf_counter()
    given = answer(body, CONFIG, env_files)
    elapsed = time.perf_counter() - started
    assert elapsed < SECONDS, f"took {elapsed:.2f} s"
    assert given.verdict.reason is not Reason.INTERNAL_ERROR, repr(given.failure)
    assert given.status == (given.verdict.reason.code if given.verdict.reason.outcome is Outcome.REJECTED else 200)
    assert "\n" not in given.verdict.sentence
    decoded = json.loads(given.body)
    if given.status != 200:
        assert 400 <= given.status < 500
        return given
    response = decoded["response"]
    assert response["allowed"] is (given.verdict.reason.outcome is not Outcome.REFUSED)
    if given.verdict.reason is Reason.INJECTED:
        try:
            review = json.loads(body)
        except ValueError:
            # What is skipped is not judged: such a body never comes from an API server.
            return given
        operations = json.loads(base64.b64decode(response["patch"]))
        assert {one["op"] for one in operations} <= {"add", "replace"}
        assert all(one["op"] == "add" or one["path"].endswith("/command") for one in operations)
        review["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], operations)
        again = answer(json.dumps(review).encode(), CONFIG, env_files)
        assert again.verdict.reason is Reason.ALREADY_PRESENT
    else:
        assert "patch" not in response
    return given


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        one = waiting.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list):
                waiting.append(one[key])
    return found


def mutated(known: list[bytes], draw: random.Random, bytes_share: float = 0.3) -> bytes:
    """One of the seeds with its JSON changed in a few places, or, in this share of the cases, its bytes."""
    seed = draw.choice(known)
    if draw.random() >= bytes_share:
        with contextlib.suppress(ValueError, RecursionError):
            return _mutated_json(json.loads(seed), draw)
    changed = bytearray(seed)
    for _ in range(draw.randint(1, 8)):
        _change_bytes(changed, draw)
    return bytes(changed)


def _mutated_json(value: Any, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        _change(value if draw.random() < 0.1 else _pod_in(value), draw)
    return json.dumps(value).encode()


def _pod_in(review: Any) -> Any:
    """The Pod, where most of what can go wrong is; the whole if there is none."""
    request = review.get("request") if isinstance(review, dict) else None
    return (request.get("object") if isinstance(request, dict) else None) or review


def _change(review: Any, draw: random.Random) -> None:
    places = _places(review)
    if not places:
        return
    container, key = draw.choice(places)
    other, other_key = draw.choice(places)
    match draw.randint(0, 3):
        case 0:
            container[key] = copy.deepcopy(draw.choice(ODD))
        case 1:
            del container[key]
        case 2:
            container[key] = copy.deepcopy(other[other_key])
        case _ if isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        case _:
            name = draw.choice(("command", "env", "volumeMounts", "annotations", "name", "spec"))
            container[name] = copy.deepcopy(draw.choice(ODD))


def _change_bytes(body: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(body) + 1)
    match draw.randint(0, 3):
        case 0:
            body[start : start + 1] = bytes([draw.randrange(256)])
        case 1:
            del body[start : start + draw.randint(1, 50)]
        case 2:
            body[start:start] = draw.choice(PIECES)
        case _:
            body[start:start] = body[: draw.randint(0, 200)]


def seeds() -> list[bytes]:
    """A review of each golden Pod."""
    return [review_of(pod_of(case)) for case in CASES]


def main() -> int:
    """Fuzzes until the number of inputs is reached; an input that breaks a promise is printed, and ends it with 1."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    draw, known, outcomes = random.Random(options.seed), seeds(), Counter[str]()
    before = 0
    for number in range(options.inputs):
        body = mutated(known, draw)
        try:
            outcomes[check(body, draw.choice(list(EnvFiles))).verdict.reason.slug] += 1
        except BaseException:
            print(f"seed {options.seed}, input {number}: {body!r}", file=sys.stderr)
            raise
        if number == options.inputs // 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"seed {options.seed}: {options.inputs} inputs, memory grew by {(after - before) / 1024:.1f} MiB after a tenth"
    )
    for slug, count in outcomes.most_common():
        print(f"{count:8} {slug}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
