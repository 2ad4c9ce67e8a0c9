"""Random mutations of reviews of the golden Pods, of their bytes and of their JSON, and what must hold for any body.

`test_fuzz` draws some thousand of them; `coverage_fuzzer` is guided by coverage, and `tests/cost` by what they cost.
"""

import base64
import contextlib
import copy
import json
import random
import time
from typing import Any

import jsonpatch

from frameworkinjector import names
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.reasons import Reason, Ruling
from frameworkinjector.review.review import Answer, answer
from frameworkinjector.review.settings import KNOWN
from tests.injector.golden_pods import CASES, pod_of
from tests.injector.reviews import CONFIG, review_of

# Of CPU time, which other processes do not take away. A review takes about a millisecond; this much shows that an input
# makes it take quadratic time.
MAX_REVIEW_SECONDS = 5.0
# Values that replace parts of a JSON document.
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 2**70, "", "x", "\ud800", "\u0000", "frameworkbarrier", "/mnt/frameworkbarrier",
    "/etc/hosts", [], {}, [[]], [None], {"": None}, "x" * 10_000, {"name": "frameworkbarrier"},
)  # fmt: skip

# Values of annotations: of the right form, nearly so, and what made a parser slow or an answer large once.
ODD_TEXTS = (
    "", "app", "auto", "sidecar", "1", "-1", "9" * 400, "1e99", "a=b,c!=d,e in (f,g),h notin (i),j,!k",
    "a= ," * 22 + "!!", "a in (" * 500, "a in (" + "b," * 20_000 + ")", "!" * 5_000, "ps=1,worker=2",
    "worker=" + "1" * 200, "worker=1," * 5_000, "/" * 5_000, "/mnt/x/../../etc", "{{ gang }}" * 200, "{" * 5_000,
    "cpu=1,memory=64Mi", "cpu=1e400,memory=9999999999999999999999Ei", "1ms" * 2_000, "\u2028\n", "x" * 70_000,
)  # fmt: skip
# Amounts of resources, and what stands in their place.
ODD_AMOUNTS: tuple[Any, ...] = (
    "1", "100m", "64Mi", "0", "-1", "1e400", "." * 2_000, "9" * 400, "1Ki1", 1, 1.5, None, {}, [],
)  # fmt: skip

# Bytes that are inserted into a body.
ODD_BYTES = (b"{", b"[", b'"', b",", b"\\u", b"\xff", b"1e999", b"null", b"[" * 2000)


def check(body: bytes, env_files: EnvFiles = EnvFiles.QUOTED, config: Config = CONFIG) -> Answer:
    """Review a body, and assert what must hold for any body at all."""
    started = time.thread_time()
    given = answer(body, config, env_files)
    elapsed = time.thread_time() - started
    assert elapsed < MAX_REVIEW_SECONDS, f"took {elapsed:.2f} s of CPU time"
    assert given.verdict.reason is not Reason.INTERNAL_ERROR, repr(given.failure)
    assert given.status == (given.verdict.reason.code if given.verdict.reason.ruling is Ruling.REJECTED else 200)
    assert "\n" not in given.verdict.sentence
    decoded = json.loads(given.body)
    if given.status != 200:
        assert 400 <= given.status < 500
        return given
    response = decoded["response"]
    assert response["allowed"] is (given.verdict.reason.ruling is not Ruling.REFUSED)
    if given.verdict.reason is Reason.INJECTED:
        try:
            review = json.loads(body)
        except ValueError:
            # The decoder does not validate fields that it skips; an API server never sends such a body.
            return given
        pod = review["request"]["object"]
        operations = json.loads(base64.b64decode(response["patch"]))
        assert [one["path"] for one in operations if not _keeps(pod, one)] == []
        review["request"]["object"] = jsonpatch.apply_patch(pod, operations)
        again = answer(json.dumps(review).encode(), CONFIG, env_files)
        assert again.verdict.reason is Reason.ALREADY_PRESENT
    else:
        assert "patch" not in response
    return given


def _keeps(pod: Any, operation: dict[str, Any]) -> bool:
    """Report whether an operation leaves what the user wrote, in its order: it adds, or puts a word before a command.

    Only what the injector itself writes is replaced, which a copied Pod template may carry.
    """
    *parents, key = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    for part in parents:
        pod = pod[int(part)] if isinstance(pod, list) else pod[part]
    if operation["op"] == "replace":
        return bool(key == "command" and operation["value"][1:] == pod[key])
    return operation["op"] == "add" and (
        isinstance(pod, list) or key in {names.STATUS, names.READS} or not pod.get(key)
    )


def _places_in(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in a JSON value."""
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
    """Return one of the seeds with its JSON changed in a few places, or its bytes in `bytes_share` of all cases."""
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
    """Return the Pod, which most of the code reads; the whole review if there is none."""
    request = review.get("request") if isinstance(review, dict) else None
    return (request.get("object") if isinstance(request, dict) else None) or review


def _change(review: Any, draw: random.Random) -> None:
    places = _places_in(review)
    if not places:
        return
    if draw.random() < 0.3:
        draw.choice((_annotate, _multiply, _ask_for_resources))(review, draw)
        return
    container, key = draw.choice(places)
    other, other_key = draw.choice(places)
    match draw.randint(0, 3):
        case 0:
            container[key] = copy.deepcopy(draw.choice(ODD_VALUES))
        case 1:
            del container[key]
        case 2:
            container[key] = copy.deepcopy(other[other_key])
        case _ if isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        case _:
            name = draw.choice(("command", "env", "volumeMounts", "annotations", "name", "spec"))
            container[name] = copy.deepcopy(draw.choice(ODD_VALUES))


def _annotate(pod: Any, draw: random.Random) -> None:
    """Set an annotation of the barrier to a text that is odd, or long."""
    annotations = _folder(_folder(pod, "metadata"), "annotations")
    if annotations is not None:
        annotations[names.PREFIX + draw.choice(KNOWN)] = draw.choice(ODD_TEXTS)


def _folder(value: Any, key: str) -> Any:
    """Return the dictionary at a key, made if there is none; None where there cannot be one."""
    if not isinstance(value, dict):
        return None
    if not isinstance(value.get(key), dict):
        value[key] = {}
    return value[key]


def _multiply(pod: Any, draw: random.Random) -> None:
    """Repeat the containers so often that there are many, or too many."""
    containers = _containers_of(pod)
    if 0 < len(containers) < 10:
        one = containers[0]
        for number in range(draw.choice((3, 98, 100, 101, 500))):
            containers.append({**one, "name": f"more{number}"} if isinstance(one, dict) else one)


def _ask_for_resources(pod: Any, draw: random.Random) -> None:
    """Give the containers requests and limits, equal or not."""
    for one in _containers_of(pod):
        if isinstance(one, dict):
            amounts = {name: draw.choice(ODD_AMOUNTS) for name in ("cpu", "memory")}
            other = amounts if draw.random() < 0.5 else {"cpu": draw.choice(ODD_AMOUNTS)}
            one["resources"] = {"requests": amounts, "limits": other}


def _containers_of(pod: Any) -> list[Any]:
    spec = pod.get("spec") if isinstance(pod, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return containers if isinstance(containers, list) else []


def _change_bytes(body: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(body) + 1)
    match draw.randint(0, 3):
        case 0:
            body[start : start + 1] = bytes([draw.randrange(256)])
        case 1:
            del body[start : start + draw.randint(1, 50)]
        case 2:
            body[start:start] = draw.choice(ODD_BYTES)
        case _:
            body[start:start] = body[: draw.randint(0, 200)]


def seeds() -> list[bytes]:
    """Return a review of each golden Pod."""
    return [review_of(pod_of(case)) for case in CASES]
