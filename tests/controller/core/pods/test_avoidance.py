"""Pods that stay away from nodes (docs/reference/progress.md, section 4)."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from frameworkcontroller.core.pods.avoidance import NAME, REQUIRED, avoid

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


def avoided(spec: dict[str, Any]) -> dict[str, Any]:
    fields = {key: Raw(json.dumps(value)) for key, value in spec.items()}
    avoid(fields, ("n-1", "n-2"))
    return {key: msgspec.json.decode(value) for key, value in fields.items()}
