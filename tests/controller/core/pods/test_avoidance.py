"""Pods that stay away from nodes (docs/reference/progress.md, section 4)."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from frameworkcontroller.api import names
from frameworkcontroller.core.pods.avoidance import MAX_BYTES, NAME, REQUIRED, TOO_LARGE, avoid
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt

BAD = [{"key": NAME, "operator": "NotIn", "values": [node]} for node in ("n-1", "n-2")]
GPU: dict[str, Any] = {"key": "gpu", "operator": "Exists"}


def affinity(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}} | more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, affinity({"matchFields": BAD})),
        ({"affinity": None}, affinity({"matchFields": BAD})),
        ({"affinity": {"podAffinity": {}}}, affinity({"matchFields": BAD}, podAffinity={})),
        (
            affinity({"matchExpressions": [GPU]}, {"matchFields": [GPU]}, {}),
            affinity({"matchExpressions": [GPU], "matchFields": BAD}, {"matchFields": [GPU, *BAD]}, {}),
        ),
    ],
)
def test_every_way_to_a_node_leaves_them_out(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert avoided(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n-1"},
        {"nodeSelector": {"kubernetes.io/hostname": "n-1"}},
        affinity({"matchFields": [{"key": NAME, "operator": "In", "values": ["n-1"]}]}),
        affinity({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n-1"]}]}),
        {"affinity": "no"},
        {"affinity": {"nodeAffinity": []}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["no"]}}}},
        affinity({"matchFields": 5}),
        affinity({"matchExpressions": True}),
        affinity(
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In"}, {"key": [], "operator": "In"}]}
        ),
    ],
    ids=str,
)
def test_what_the_user_says_of_nodes_stays(spec: dict[str, Any]) -> None:
    assert avoided(spec) == spec


@pytest.mark.parametrize(("more", "problem"), [(0, ""), (1, TOO_LARGE)])
def test_an_affinity_that_would_be_too_large_with_the_nodes_stays(more: int, problem: str) -> None:
    def padded(text: str) -> dict[str, Any]:
        return affinity(*[{"matchFields": [GPU]}] * 300, {"matchFields": [GPU | {"x": text}]})

    added = 301 * len(json.dumps(BAD, separators=(",", ":")))
    spec = padded("y" * (MAX_BYTES + more - added - len(json.dumps(padded("")["affinity"]))))
    assert (avoided(spec, problem) == spec) == bool(problem)


@pytest.mark.parametrize("number", [30, 400, 100_000])
def test_avoided_nodes_add_no_more_to_a_pod_than_the_bound(number: int) -> None:
    template = json.dumps({"spec": affinity(*[{"a": 1}] * number)}).encode()
    nodes = tuple(f"{index}{'n' * 252}" for index in range(8))
    pod = PodTemplate(template, RoleAttempt("ns", "fw", "uid", 0, "cm", "r", "role", avoided=nodes)).render(0, "uid", 0)
    assert len(pod) < len(template) + MAX_BYTES
    assert json.loads(pod)["metadata"]["annotations"][names.NOT_AVOIDED] == TOO_LARGE


def avoided(spec: dict[str, Any], problem: str = "") -> dict[str, Any]:
    fields = {key: Raw(json.dumps(value)) for key, value in spec.items()}
    assert avoid(fields, ("n-1", "n-2")) == problem
    return {key: msgspec.json.decode(value) for key, value in fields.items()}
