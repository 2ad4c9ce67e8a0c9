"""What the barrier's container asks for, by what the application's containers ask for."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkbarrier.values import BadValueError
from frameworkinjector.review import quantity, resources
from frameworkinjector.review.config import Config
from frameworkinjector.review.pod import Container, Pod, Resources, Spec
from frameworkinjector.review.resources import Claims, read_limits, read_requests
from tests.support.rows import each

STANDARD = Config(version="1").resources


@each(
    "text, value",
    [
        ("0", 0), ("2", 2), ("0.5", Fraction(1, 2)), ("1.", 1), ("100m", Fraction(1, 10)), ("250u", Fraction(1, 4000)),
        ("1k", 1000), ("1.5Gi", 3 * 2**29), ("64Mi", 2**26), ("12e6", 12_000_000), ("12E-3", Fraction(12, 1000)),
        ("9223372036854775807", 2**63 - 1), ("1.000000001e-9", Fraction(2, 10**9)), ("0.1n", Fraction(1, 10**9)),
    ],
)  # fmt: skip
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, value: Fraction | int) -> None:
    assert quantity.read(text).billionths == value * quantity.ONE


@each(
    "text", ["", " 1", "1 ", "-1", "+1", ".", "1KB", "1ki", "1e", "1e999999999", "1" * 70, "1.0.0", "٣", "0x10", "nan"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        quantity.read(text)


@given(resource=st.sampled_from(resources.RESOURCES), billionths=st.integers(0, 2**92))
@settings(deadline=None)
def test_a_computed_amount_is_rounded_up_a_little_and_reads_as_what_it_is(resource: str, billionths: int) -> None:
    found = quantity.written(resource, billionths)
    assert quantity.read(found.text) == found
    assert 0 <= found.billionths - billionths < quantity.ONE * (Fraction(1, 1000) if resource == "cpu" else 1024)


Asked = tuple[dict[str, str], dict[str, str]]


def asks(requests: str = "", limits: str = "") -> Asked:
    """Return requests and limits, each of a list as `cpu=1,memory=8Gi`."""
    read = [dict(item.split("=") for item in text.split(",") if item) for text in (requests, limits)]
    return read[0], read[1]


def both(amounts: str) -> Asked:
    return asks(amounts, amounts)


def decoded(requests: Mapping[str, str], limits: Mapping[str, str]) -> Resources:
    return msgspec.json.decode(msgspec.json.encode({"requests": requests, "limits": limits}), type=Resources)


def chosen(
    containers: list[Asked], *, sidecar: bool, own: tuple[str, str] = ("", ""), of_pod: Asked | None = None
) -> Asked:
    """Return what the barrier asks for; `own` are the Pod's annotations `requests` and `limits`."""
    made = [Container(resources=decoded(*one)) for one in containers]
    pod = Pod(spec=Spec(made, resources=None if of_pod is None else decoded(*of_pod)))
    claims = Claims(read_requests(own[0]) if own[0] else {}, read_limits(own[1]) if own[1] else {})
    found = resources.decide(pod, claims, STANDARD, sidecar=sidecar)
    return found.get("requests", {}), found.get("limits", {})


MEDIUM, FREE, SMALL = both("cpu=2,memory=8Gi"), asks("cpu=1,memory=1Gi"), both("cpu=100m,memory=96Mi")
LARGEST = [both("cpu=1,memory=8Gi"), both("cpu=4,memory=1Gi")]
SPREAD = [asks("cpu=2,memory=1Gi", "cpu=4,memory=1Gi"), asks("cpu=1,memory=1Gi", "cpu=3,memory=2Gi")]
GIB, OF_POD = both("memory=1Gi"), {"of_pod": asks("", "cpu=2")}
BARRIERS: dict[str, tuple[list[Asked], bool, dict[str, Any], Asked]] = {
    "a best-effort Pod stays one": ([asks(), asks()], False, {}, asks()),
    "and so it does beside a sidecar": ([asks()], True, {}, asks()),
    "as an init container as much as the largest of each": (LARGEST, False, {}, both("cpu=4,memory=8Gi")),
    "limits count as requests": ([asks("", "cpu=2,memory=8Gi")], False, {}, MEDIUM),
    "no limit where a container has none": ([MEDIUM, FREE], False, {}, asks("cpu=2,memory=8Gi")),
    "nor as a sidecar": ([MEDIUM, FREE], True, {}, asks("cpu=10m,memory=32Mi")),
    "what it needs beside a small application": ([both("cpu=10m,memory=16Mi")], False, {}, SMALL),
    "also as a sidecar": ([both("cpu=10m,memory=16Mi")], True, {}, SMALL),
    "as a sidecar little beside a large one": ([both("cpu=64,memory=1Ti")], True, {}, SMALL),
    "limits to requests as the application at most": (SPREAD, False, {}, asks("cpu=2,memory=1Gi", "cpu=4,memory=2Gi")),
    "and so they are as a sidecar": (SPREAD, True, {}, asks("cpu=34m,memory=48Mi", "cpu=100m,memory=96Mi")),
    "nothing of what the Pod as a whole has": ([asks()], False, {"of_pod": FREE}, asks()),
    "nor as a sidecar of such a Pod": ([asks()], True, {"of_pod": FREE}, asks()),
    "the rest where the Pod as a whole has a limit": ([GIB], False, OF_POD, GIB),
    "as a sidecar little of the rest": ([GIB], True, OF_POD, both("memory=96Mi")),
    "the request of the annotation also as its limit": (
        [MEDIUM], True, {"own": ("memory=64Mi", "")}, both("cpu=100m,memory=64Mi"),
    ),
    "the limit of the annotation also as its request": (
        [MEDIUM], True, {"own": ("", "memory=1Gi")}, both("cpu=100m,memory=1Gi"),
    ),
    "both of the annotations": (
        [MEDIUM], True, {"own": ("cpu=50m,memory=64Mi", "cpu=1")}, asks("cpu=50m,memory=64Mi", "cpu=1,memory=64Mi"),
    ),
    "the annotations where the application asks for nothing": (
        [asks()], False, {"own": ("cpu=50m", "memory=1Gi")}, asks("cpu=50m,memory=32Mi", "memory=1Gi"),
    ),
}  # fmt: skip


@each("containers, sidecar, more, expected", BARRIERS.values(), ids=BARRIERS)
def test_the_barrier_takes_by_what_the_application_takes(
    containers: list[Asked], sidecar: bool, more: dict[str, Any], expected: Asked
) -> None:
    assert chosen(containers, sidecar=sidecar, **more) == expected


AMOUNTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(["1", "4Ki", "1Gi"]) for name in resources.RESOURCES}
)


@given(containers=st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3), sidecar=st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_request_is_above_its_limit_and_the_qos_class_of_the_pod_stays(
    containers: list[Asked], sidecar: bool
) -> None:
    # As the API server stores them: a request at most its limit.
    made = [({**requests, **limits}, limits) for requests, limits in containers]
    requests, limits = chosen(made, sidecar=sidecar)
    for resource, limit in limits.items():
        assert quantity.read(requests[resource]) <= quantity.read(limit)
    assert qos([*made, (requests, limits)]) == qos(made)


def qos(containers: list[Asked]) -> str:
    """Return the class as the API server computes it from cpu and memory."""
    classed = [
        [{name: quantity.read(amounts[name]) for name in ("cpu", "memory") if name in amounts} for amounts in one]
        for one in containers
    ]
    if not any(requests for requests, _ in classed):
        return "BestEffort"
    return "Guaranteed" if all(requests == limits and len(limits) == 2 for requests, limits in classed) else "Burstable"
