"""What the barrier's container asks for, by what the application's containers ask for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkbarrier.values import BadValueError
from frameworkinjector.review import quantity, resources
from frameworkinjector.review.config import Config
from frameworkinjector.review.pod import Container, Pod, Resources, Spec
from frameworkinjector.review.resources import Claims, read_limits, read_requests
from tests.support.rows import each

NOTHING = Claims()
STANDARD = Config(version="1").resources


@each(
    "text, value",
    [
        ("0", 0), ("2", 2), ("0.5", Fraction(1, 2)), ("1.", 1), ("100m", Fraction(1, 10)), ("250u", Fraction(1, 4000)),
        ("1k", 1000), ("1.5Gi", 3 * 2**29), ("64Mi", 2**26), ("12e6", 12_000_000), ("12E-3", Fraction(12, 1000)),
        ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, value: Fraction | int) -> None:
    assert quantity.read(text).value == value


@each(
    "text", ["", " 1", "1 ", "-1", "+1", ".", "1KB", "1ki", "1e", "1e999999999", "1" * 70, "1.0.0", "٣", "0x10", "nan"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        quantity.read(text)


@given(resource=st.sampled_from(resources.RESOURCES), value=st.fractions(min_value=0, max_value=2**62))
@settings(deadline=None)
def test_a_computed_amount_is_rounded_up_a_little_and_reads_as_what_it_is(resource: str, value: Fraction) -> None:
    found = quantity.written(resource, value)
    assert quantity.read(found.text) == found
    assert 0 <= found.value - value < (Fraction(1, 1000) if resource == "cpu" else 1024)


def chosen(
    *containers: dict[str, dict[str, str]],
    sidecar: bool = False,
    own: Claims = NOTHING,
    of_pod: Resources | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the requests and the limits of the barrier."""
    made = [Container(resources=Resources(one.get("requests"), one.get("limits"))) for one in containers]
    pod = Pod(spec=Spec(list(made), resources=of_pod))
    found = resources.decide(pod, own, STANDARD, sidecar=sidecar)
    return found.get("requests", {}), found.get("limits", {})


def both(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


FREE = {"requests": {"cpu": "1", "memory": "1Gi"}}
LIMITS = {"limits": {"cpu": "2", "memory": "8Gi"}}
SMALL, LARGE = {"cpu": "100m", "memory": "96Mi"}, {"cpu": "4", "memory": "8Gi"}
BARRIERS = {
    "a best-effort Pod stays one": ([{}, {}], False, {}, {}),
    "and so it does beside a sidecar": ([{}], True, {}, {}),
    "as an init container as much as the largest of each": ([both("1", "8Gi"), both("4", "1Gi")], False, LARGE, LARGE),
    "limits count as requests": ([LIMITS], False, {"cpu": "2", "memory": "8Gi"}, {"cpu": "2", "memory": "8Gi"}),
    "no limit where a container has none": ([both("2", "8Gi"), FREE], False, {"cpu": "2", "memory": "8Gi"}, {}),
    "nor as a sidecar": ([both("2", "8Gi"), FREE], True, {"cpu": "10m", "memory": "32Mi"}, {}),
    "what it needs beside a small application": ([both("10m", "16Mi")], False, SMALL, SMALL),
    "also as a sidecar": ([both("10m", "16Mi")], True, SMALL, SMALL),
    "as a sidecar little beside a large one": ([both("64", "1Ti")], True, SMALL, SMALL),
}


@each("containers, sidecar, requests, limits", BARRIERS.values(), ids=BARRIERS)
def test_the_barrier_takes_by_what_the_application_takes(
    containers: list[dict[str, dict[str, str]]], sidecar: bool, requests: dict[str, str], limits: dict[str, str]
) -> None:
    assert chosen(*containers, sidecar=sidecar) == (requests, limits)


@each("sidecar", [False, True])
def test_the_limits_are_to_the_requests_as_those_of_the_application_at_most(sidecar: bool) -> None:
    one = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}}
    other = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi"}}
    requests, limits = chosen(one, other, sidecar=sidecar)
    for resource, most in (("cpu", 3), ("memory", 2)):
        assert quantity.read(limits[resource]).value <= most * quantity.read(requests[resource]).value


@each("sidecar", [False, True])
def test_what_the_pod_as_a_whole_has_is_shared(sidecar: bool) -> None:
    of_pod = Resources(None, {"cpu": "2"})
    memory = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    requests, limits = chosen(memory, sidecar=sidecar, of_pod=of_pod)
    assert set(requests) == set(limits) == {"memory"}
    assert chosen({}, sidecar=sidecar, of_pod=Resources({"cpu": "2", "memory": "1Gi"})) == ({}, {})


@each(
    "requests, limits, expected",
    [
        ("memory=64Mi", "", ({"cpu": "100m", "memory": "64Mi"}, {"cpu": "100m", "memory": "64Mi"})),
        ("", "memory=1Gi", ({"cpu": "100m", "memory": "1Gi"}, {"cpu": "100m", "memory": "1Gi"})),
        ("cpu=50m,memory=64Mi", "cpu=1", ({"cpu": "50m", "memory": "64Mi"}, {"cpu": "1", "memory": "64Mi"})),
    ],
)
def test_the_half_that_the_annotations_leave_open_keeps_a_pod_guaranteed(
    requests: str, limits: str, expected: tuple[dict[str, str], dict[str, str]]
) -> None:
    own = Claims(read_requests(requests) if requests else {}, read_limits(limits) if limits else {})
    assert chosen(both("2", "8Gi"), sidecar=True, own=own) == expected


def test_the_annotations_hold_also_where_the_application_asks_for_nothing() -> None:
    own = Claims(read_requests("cpu=50m"), read_limits("memory=1Gi"))
    assert chosen({}, own=own) == ({"cpu": "50m", "memory": "32Mi"}, {"memory": "1Gi"})


AMOUNTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(["1", "4Ki", "1Gi"]) for name in resources.RESOURCES}
)


@given(containers=st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3), sidecar=st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_request_is_above_its_limit_and_the_qos_class_of_the_pod_stays(
    containers: list[tuple[dict[str, str], dict[str, str]]], sidecar: bool
) -> None:
    # As the API server stores them: a request at most its limit.
    made = [
        {"requests": {**limits, **{k: v for k, v in requests.items() if k not in limits}}, "limits": limits}
        for requests, limits in containers
    ]
    requests, limits = chosen(*made, sidecar=sidecar)
    for resource, limit in limits.items():
        assert quantity.read(requests[resource]) <= quantity.read(limit)
    assert qos([*made, {"requests": requests, "limits": limits}]) == qos(made)


def qos(containers: list[dict[str, dict[str, str]]]) -> str:
    """Return the class as the API server computes it from cpu and memory."""
    if not any(set(one["requests"]) & {"cpu", "memory"} for one in containers):
        return "BestEffort"
    equal = all(
        quantity.read(one["requests"][name]) == quantity.read(one["limits"][name])
        for one in containers
        for name in ("cpu", "memory")
        if name in one["limits"]
    )
    return "Guaranteed" if equal and all({"cpu", "memory"} <= set(one["limits"]) for one in containers) else "Burstable"
