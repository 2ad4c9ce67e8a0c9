"""Whether a cluster can run Frameworks, from what its API server says. Real clusters say it in the other suites."""

from __future__ import annotations

from typing import Any

import pytest

from frameworkclient.diagnosis.health import STATUS_ANNOTATION, Facts, Refusal, answers
from frameworkcontroller.api.definition import crd
from tests.client.documents import NOW

FORBIDDEN = Refusal(403, "no")
MISSING = Refusal(404, "not found")
SOUND: dict[str, Any] = {
    "namespace": "demo",
    "version": {"gitVersion": "v1.36.3"},
    "definition": crd(),
    "discovery": {"resources": [{"name": "frameworks"}, {"name": "frameworks/status"}]},
    "lease": {"spec": {"holderIdentity": "a", "renewTime": "2026-01-01T12:05:10.000000Z", "leaseDurationSeconds": 12}},
    "pod": {
        "metadata": {"annotations": {STATUS_ANNOTATION: '{"env":"file"}'}},
        "spec": {"initContainers": [{"name": "frameworkbarrier", "image": "barrier:1"}]},
    },
    "permissions": {"list pods": True},
    "policies": (),
    "now": NOW,
}


def page(**changed: Any) -> list[str]:
    return [f"{one.grade} {one.subject}: {one.text}" for one in answers(Facts(**{**SOUND, **changed}))]


def test_a_sound_cluster_is_ok_in_every_line() -> None:
    assert page() == [
        "ok Kubernetes: v1.36.3",
        "ok definition: Frameworks are served, with all fields that this program knows",
        "ok controller: a leads, its Lease was renewed 2s ago",
        "ok injector: it adds the barrier, image barrier:1",
        "ok env files: variables of presets reach containers by the kubelet",
        "ok permissions: all that this program needs in namespace demo",
    ]


def older_definition() -> dict[str, Any]:
    found = crd()
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["activeDeadlineSeconds"]
    return found


POLICY = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "old": ({"version": {"gitVersion": "v1.29.1-eks"}}, "failing Kubernetes: v1.29.1-eks is older than 1.30"),
    "not served": ({"discovery": MISSING}, "failing definition: Frameworks are not served"),
    "older definition": (
        {"definition": older_definition()},
        "warning definition: it is older than this program and lacks spec.activeDeadlineSeconds",
    ),
    "unreadable definition": ({"definition": FORBIDDEN}, "ok definition: Frameworks are served; their definition may"),
    "no controller": ({"lease": MISSING}, "failing controller: no controller holds its Lease"),
    "lease forbidden": ({"lease": FORBIDDEN}, "warning controller: its Lease may not be read"),
    "silent controller": (
        {"lease": {"spec": SOUND["lease"]["spec"] | {"renewTime": "2026-01-01T12:00:00.000000Z"}}},
        "failing controller: a has not renewed its Lease for 5m12s",
    ),
    "no injector": ({"pod": {"spec": {}}}, "failing injector: a Pod with the label of the barrier gets no barrier"),
    "webhook": (
        {"pod": Refusal(500, 'failed calling webhook "w": x509')},
        "failing injector: its webhook does not answer: failed calling",
    ),
    "pods forbidden": ({"pod": FORBIDDEN}, "warning injector: not known, because a dry run of a Pod is refused: no"),
    "wrapped": (
        {"pod": {"spec": SOUND["pod"]["spec"], "metadata": {"annotations": {STATUS_ANNOTATION: '{"env":"wrap"}'}}}},
        "warning env files: the cluster has none",
    ),
    "permissions": (
        {"permissions": {"list pods": False, "get pods": True}},
        "warning permissions: you may not list pods",
    ),
    "network": ({"policies": (POLICY,)}, "warning network: NetworkPolicy deny forbids all Pods to send"),
}


@pytest.mark.parametrize(("changed", "line"), CASES.values(), ids=CASES)
def test_what_is_not_as_it_should_be_is_one_line(changed: dict[str, Any], line: str) -> None:
    assert any(found.startswith(line) for found in page(**changed)), page(**changed)
