"""Pods that are as large as a request may be: what a review of one takes in memory and time, and what it answers."""

import base64
import json
import time
import tracemalloc
from typing import Any

import pytest

from frameworkbarrier.presets import model as presets
from frameworkinjector.names import LABEL, PREFIX
from frameworkinjector.review.eligibility import ISTIO_STATUS
from frameworkinjector.review.plan import (
    MAX_ANNOTATIONS,
    MAX_CONTAINERS,
    MAX_CONTAINERS_OF_POD,
    MAX_ENTRIES,
    MAX_LABELS,
    MAX_PATHS,
)
from frameworkinjector.review.reasons import Reason
from frameworkinjector.review.review import MAX_VALUES
from frameworkinjector.review.settings import MAX_ITEMS
from frameworkinjector.review.variables import MAX_BYTES, MAX_ENV_SOURCES
from tests.injector.reviews import framework_pod, review_of, reviewed
from tests.support.rows import each

# The API server sends no larger object.
LARGEST = 3 * 1024 * 1024
MIB = 1024 * 1024
HERE = "as many as fit"


def pod_with(entries: list[Any], /, **settings: str) -> dict[str, Any]:
    own = {PREFIX + name.replace("_", "-"): value for name, value in settings.items()}
    return framework_pod(entries, {PREFIX + "preset": "tensorflow,pytorch,jax,mpi", **own})


def numbered(count: int) -> list[Any]:
    return [{"name": f"a{number}", "command": ["x"]} for number in range(count)]


def filled(item: str, *containers: Any, **of_spec: Any) -> bytes:
    """Return a review of the largest size: in the place of `HERE` stand as many of the items as fit."""
    pod = pod_with([*containers], env="none")
    pod["spec"] |= of_spec
    items = ",".join([item] * ((LARGEST - 2000) // (len(item) + 1)))
    return review_of(pod).replace(f'"{HERE}"'.encode(), items.encode())


def with_list(field: str, item: str) -> bytes:
    return filled(item, {"name": "app", field: [HERE]})


def named(count: int) -> dict[str, Any]:
    return pod_with(numbered(count), containers=",".join(f"a{number}" for number in range(count)))


def wrapped(length: int) -> dict[str, Any]:
    return pod_with([{"name": "app", "command": ["sh", "-c", "x" * length]}], env="wrap")


def with_init(count: int, init: int) -> dict[str, Any]:
    pod = pod_with(numbered(count), containers="a3,a90")
    pod["spec"]["initContainers"] = [{"name": f"i{number}"} for number in range(init)]
    return pod


def mounting(count: int, path: str = "/a") -> dict[str, Any]:
    return pod_with([{"name": "app", "command": ["x"], "volumeMounts": [{"mountPath": path}] * count}])


def with_ports(count: int) -> dict[str, Any]:
    return pod_with(numbered(1), ports=",".join(f"r{number}=1" for number in range(count)))


def with_long(field: str, length: int) -> dict[str, Any]:
    pod = pod_with(numbered(1))
    texts = pod["metadata"][field] = dict(pod["metadata"][field])
    texts["x"] = "x" * (length - 1 - sum(len(key) + len(text) for key, text in texts.items()))
    return pod


TOO_MANY = "more than 256 containers in spec.containers and spec.initContainers: use fewer."
NAME_THEM = f"at most 100: name those that need the barrier in annotation {PREFIX}containers."
SIZES = {
    "as many containers as allowed": (pod_with(numbered(MAX_CONTAINERS), preset="jax"), Reason.INJECTED, ""),
    "a container more": (pod_with(numbered(MAX_CONTAINERS + 1)), Reason.TOO_MANY_CONTAINERS, NAME_THEM),
    "few named of more": (with_init(MAX_CONTAINERS_OF_POD - 9, 9), Reason.INJECTED, ""),
    "an init container more": (with_init(MAX_CONTAINERS_OF_POD - 9, 10), Reason.POD_TOO_LARGE, TOO_MANY),
    "as many mounts as allowed": (mounting(MAX_ENTRIES), Reason.INJECTED, ""),
    "a mount more": (mounting(MAX_ENTRIES + 1), Reason.POD_TOO_LARGE, "10000 entries in env, envFrom and volumeMounts"),
    "a mount path as long as allowed": (mounting(1, "/" + "a" * (MAX_PATHS - 1)), Reason.INJECTED, ""),
    "a character more of it": (mounting(1, "/" + "a" * MAX_PATHS), Reason.POD_TOO_LARGE, "characters in mountPath"),
    "as many roles as allowed": (with_ports(MAX_ITEMS), Reason.INJECTED, ""),
    "a role more": (with_ports(MAX_ITEMS + 1), Reason.BAD_VALUE, "ports is 'r0=1"),
    "annotations as long as allowed": (with_long("annotations", MAX_ANNOTATIONS), Reason.INJECTED, ""),
    "a character more": (
        with_long("annotations", MAX_ANNOTATIONS + 1),
        Reason.POD_TOO_LARGE,
        "in metadata.annotations",
    ),
    "a long key, and a list too long": (
        framework_pod(numbered(1), {PREFIX + "k" * 100_000: "," * MAX_ITEMS}),
        Reason.BAD_VALUE,
        "…",
    ),
    "labels as long as allowed": (with_long("labels", MAX_LABELS), Reason.INJECTED, ""),
    "a character more of these": (with_long("labels", MAX_LABELS + 1), Reason.POD_TOO_LARGE, "in metadata.labels"),
    "a command as long as etcd could hold": (wrapped(1_500_000), Reason.INJECTED, ""),
    "a command whose patch is too large": (wrapped(2_200_000), Reason.PATCH_TOO_LARGE, ""),
}


@each("pod, reason, says", SIZES.values(), ids=SIZES)
def test_a_large_pod_is_injected_up_to_its_limit_and_refused_beyond(
    pod: dict[str, Any], reason: Reason, says: str
) -> None:
    answer = reviewed(review_of(pod))
    assert answer.verdict.reason is reason
    assert says in answer.verdict.sentence
    assert reason is Reason.INJECTED or len(answer.body) < 2000


@each(
    "spec, reason",
    [
        ({"resources": {"requests": {"example.org/gpu": "DIGITS"}}}, Reason.INJECTED),
        ({"resources": {"requests": {"cpu": "DIGITS"}}}, Reason.INJECTED),
        ({"containers": [{"name": "a", "resources": {"requests": {"cpu": "DIGITS"}}}]}, Reason.MALFORMED_POD),
        ({"securityContext": {"runAsUser": "DIGITS"}}, Reason.MALFORMED_POD),
        ({"initContainers": [{"livenessProbe": {"failureThreshold": "DIGITS"}}]}, Reason.MALFORMED_POD),
    ],
    ids=["of another resource", "of the Pod", "of a container", "a user", "a probe"],
)
def test_no_number_of_many_digits_is_decoded(spec: dict[str, Any], reason: Reason) -> None:
    """With the time of one decoded number for every 30 bytes a review would take half a second."""
    pod = pod_with(numbered(1))
    pod["spec"] |= spec
    # No float is as large: one that is decoded is refused.
    number = b"1" + b"0" * 3000 + (b"e3000" if "resources" in str(spec) else b"")
    assert reviewed(review_of(pod).replace(b'"DIGITS"', number)).verdict.reason is reason


def test_a_pod_has_a_bounded_number_of_values() -> None:
    few, more = (framework_pod(numbered(1), {}) | {"x": [0] * count} for count in (MAX_VALUES - 100, MAX_VALUES + 1))
    assert reviewed(review_of(few)).verdict.reason is Reason.INJECTED
    assert reviewed(review_of(more)).verdict.reason is Reason.POD_TOO_LARGE


def annotated(name: str, value: str) -> bytes:
    pod = pod_with([{"name": "a"}])
    pod["metadata"]["annotations"][name] = value
    return review_of(pod)


LINUX = {"matchExpressions": [{"key": "kubernetes.io/os"}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [LINUX] * 40_000}}

HOSTILE = {
    "ten thousand containers": review_of(pod_with(numbered(10_000))),
    "10000 named containers": review_of(named(10_000)),
    "40000 named containers": review_of(named(40_000)),
    "a long name": review_of(pod_with([{"name": "a" * (LARGEST - 5000)}])),
    "a long command to wrap": review_of(pod_with([{"name": "a", "command": ["x" * (LARGEST - 5000)]}], env="wrap")),
    "many roles": review_of(
        pod_with([{"name": "a"}], selector="a", roles=",".join(f"r{number}=1" for number in range(250_000)))
    ),
    "empty containers": filled("{}", HERE),
    "variables": with_list("env", "{}"),
    "mounts": with_list("volumeMounts", "{}"),
    "few long mounts": with_list("volumeMounts", '{"mountPath": "/a/../b"}'),
    "sources of variables": with_list("envFrom", "{}"),
    "sources of variables with long names": review_of(
        pod_with([{"name": "a", "envFrom": [{"configMapRef": {"name": "x" * 253}}] * MAX_ENV_SOURCES}])
    ),
    "a long prefix": review_of(
        pod_with([{"name": "a", "envFrom": [{"prefix": "x" * (LARGEST - 5000), "secretRef": {"name": "y"}}]}])
    ),
    "containers of Istio": annotated(ISTIO_STATUS, json.dumps({"containers": ["x"] * 200_000})),
    "a deep annotation of Istio": annotated(ISTIO_STATUS, "[" * 1_000_000),
    "terms of an affinity": review_of(
        pod_with([{"name": "a"}]) | {"spec": {"containers": [{"name": "a"}], "affinity": {"nodeAffinity": REQUIRED}}}
    ),
    "owners": review_of(
        {"metadata": {"labels": {LABEL: "enabled"}, "ownerReferences": [{}] * 250_000}, "spec": {"containers": [{}]}}
    ),
    "arguments": with_list("command", '"a"'),
    "labels": review_of({"metadata": {"labels": {f"{number:x}": "" for number in range(200_000)}}}),
    "host aliases": filled("0", {"name": "app"}, hostAliases=[HERE]),
}


BOTH = {"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}
ALL = ",".join(presets.in_order())


@pytest.mark.parametrize(
    ("containers", "reason"),
    [
        ([{"name": "a", "envFrom": [{"secretRef": {"name": "s" * 5000}}]}], Reason.MALFORMED_POD),
        ([{"name": "a", "envFrom": [BOTH] * (MAX_ENV_SOURCES // 2 + 1)}], Reason.TOO_MANY_ENV_SOURCES),
        ([{"name": "a", "envFrom": [BOTH] * (MAX_ENV_SOURCES // 2)}], Reason.POD_TOO_LARGE),
        ([{"name": "a", "envFrom": [{"secretRef": {"name": "s" * 253}}] * 2}], Reason.POD_TOO_LARGE),
        ([{"name": "a", "envFrom": [{"secretRef": {"name": "s"}}] * 3}], Reason.INJECTED),
        ([{"name": f"c{number}", "envFrom": [BOTH] * 3} for number in range(3)], Reason.POD_TOO_LARGE),
        ([{"name": f"c{number}"} for number in range(6)], Reason.POD_TOO_LARGE),
        ([{"name": f"c{number}"} for number in range(4)], Reason.INJECTED),
    ],
)
def test_a_small_pod_that_would_get_very_many_variables_is_refused(containers: list[Any], reason: Reason) -> None:
    """Of 12 KB Pods of 245 KB were made, a thousand of which kept an API server from everybody for minutes."""
    assert reviewed(review_of(pod_with(containers, preset=ALL))).verdict.reason is reason


def test_a_pod_gets_64_kib_of_variables_at_most() -> None:
    for env, few in (("file", 4), ("wrap", 30)):
        answers = [reviewed(review_of(pod_with(numbered(few * times), preset=ALL, env=env))) for times in (1, 2)]
        assert [one.verdict.reason for one in answers] == [Reason.INJECTED, Reason.POD_TOO_LARGE], env
        grown = len(base64.b64decode(json.loads(answers[0].body)["response"]["patch"]))
        assert MAX_BYTES / 2 < grown < MAX_BYTES + 1000 * few, env


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_no_pod_takes_the_injector_much_memory_or_time(body: bytes) -> None:
    assert len(body) < LARGEST * 1.2
    started = time.process_time()
    answer = reviewed(body)
    assert time.process_time() - started < 2
    tracemalloc.start()
    try:
        reviewed(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * MIB
    assert len(answer.body) < 3 * MIB
