"""Whether a cluster can run Frameworks, and Kueue fits to it, from what its API server says.

Real clusters, and a real Kueue, say it in the other suites.
"""

import json
from typing import Any

import pytest

from frameworkclient.diagnosis.health import STATUS_ANNOTATION, Facts, Refusal, answers
from frameworkclient.diagnosis.placement import PlacementFacts, placement_answers
from frameworkcontroller.api.definition import crd
from frameworkcontroller.api.pod_group import KINDS
from tests.client.documents import NOW

FORBIDDEN = Refusal(403, "no")
MISSING = Refusal(404, "not found")


def lease(renewed: str) -> dict[str, Any]:
    times = {"renewTime": f"2026-01-01T{renewed}.000000Z", "leaseDurationSeconds": 12}
    return {"spec": {"holderIdentity": "a", **times}}


def injected(env: str) -> dict[str, Any]:
    """A Pod with the barrier, and how variables reach its containers."""
    barrier = {"name": "frameworkbarrier", "image": "barrier:1"}
    status = {STATUS_ANNOTATION: f'{{"env":"{env}"}}'}
    return {"metadata": {"annotations": status}, "spec": {"initContainers": [barrier]}}


SOUND: dict[str, Any] = {
    "namespace": "demo",
    "version": {"gitVersion": "v1.36.3"},
    "definition": crd(),
    "discovery": {"resources": [{"name": "frameworks"}, {"name": "frameworks/status"}]},
    "lease": lease("12:05:10"),
    "pod": injected("file"),
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


OLDER = crd()
del OLDER["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["suspend"]
WEBHOOK = Refusal(500, 'failed calling webhook "w": x509')
POLICY = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "old": ({"version": {"gitVersion": "v1.29.1-eks"}}, "failing Kubernetes: v1.29.1-eks is older than 1.30"),
    "not served": ({"discovery": MISSING}, "failing definition: Frameworks are not served"),
    "older": ({"definition": OLDER}, "warning definition: it is older than this program and lacks spec.suspend"),
    "unreadable definition": ({"definition": FORBIDDEN}, "ok definition: Frameworks are served; their definition may"),
    "no controller": ({"lease": MISSING}, "failing controller: no controller holds its Lease"),
    "lease forbidden": ({"lease": FORBIDDEN}, "warning controller: its Lease may not be read"),
    "silent controller": ({"lease": lease("12:00:00")}, "failing controller: a has not renewed its Lease for 5m12s"),
    "no injector": ({"pod": {"spec": {}}}, "failing injector: a Pod with the label of the barrier gets no barrier"),
    "webhook": ({"pod": WEBHOOK}, "failing injector: its webhook does not answer: failed calling"),
    "pods forbidden": ({"pod": FORBIDDEN}, "warning injector: not known, because a dry run of a Pod is refused: no"),
    "wrapped": ({"pod": injected("wrap")}, "warning env files: the cluster has none"),
    "may not": ({"permissions": {"list pods": False, "get pods": True}}, "warning permissions: you may not list pods"),
    "network": ({"policies": (POLICY,)}, "warning network: NetworkPolicy deny forbids all Pods to send"),
}


@pytest.mark.parametrize(("changed", "line"), CASES.values(), ids=CASES)
def test_what_is_not_as_it_should_be_is_one_line(changed: dict[str, Any], line: str) -> None:
    assert any(found.startswith(line) for found in page(**changed)), page(**changed)


def settings(text: str) -> dict[str, Any]:
    return {"data": {"frameworkcontroller.yaml": text}}


def ours(**kueue: bool) -> dict[str, Any]:
    return settings(f"kueue: {json.dumps(kueue)}\n#workers: 4\n")


def allowed(is_allowed: bool) -> dict[str, Any]:
    return {"status": {"allowed": is_allowed}}


def theirs(text: str) -> dict[str, Any]:
    return {"data": {"controller_manager_config.yaml": text}}


OWNERS = 'integrations:\n  frameworks: [pod]\n  externalFrameworks: ["ConfigMap.v1."]\n'
MANAGES = ours(enabled=True, manageFrameworksWithoutQueueName=True)
ALL_JOBS = "manageJobsWithoutQueueName: true\n"
KUEUE: dict[str, Any] = {
    "controller": ours(enabled=True),
    "discovery": {"resources": [{"name": "workloads"}]},
    "config": theirs(OWNERS),
    "review": allowed(True),
    "groups": dict.fromkeys(KINDS, MISSING),
    "account": "system:serviceaccount:fc:fc",
    "nodes": allowed(True),
}
API = "kueue.x-k8s.io/v1beta2 is"
TAKES = "so Kueue may take Pods of Frameworks for its own"
UNREAD = "warning Kueue: its configuration is not known: "
UNKNOWN = "warning Kueue: whether Frameworks are queued is not known: "
LACKS = (
    "warning Kueue: its integrations.externalFrameworks lacks ConfigMap.v1. in ConfigMap kueue-manager-config in "
    "kueue-system"
)
PAST = "warning Kueue: manageJobsWithoutQueueName is true"
USER = "system:serviceaccount:kueue-system:kueue-controller-manager"
GROUPED = settings("gangScheduling: {schedulers: [kubernetes]}")
SERVED = {"kubernetes": {"resources": [{"name": "podgroups"}]}}
NO_GROUPS = "failing groups: scheduling.k8s.io/v1beta1 is not served"
RANKED = settings("rankTopology: {enabled: true}")
MAY_NOT = {"controller": RANKED, "nodes": allowed(False)}
UNRANKED = "warning ranks: system:serviceaccount:fc:fc may not list nodes, so ranks follow the indices"
PLACEMENT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "sound": ({}, [f"ok Kueue: {API} served and set up for Frameworks"]),
    "not queued": ({"controller": ours(enabled=False), "config": FORBIDDEN}, []),
    "without settings": ({"controller": settings("#kueue: {}\n")}, []),
    "no Kueue": ({"controller": FORBIDDEN, "discovery": MISSING}, []),
    "not served": (
        {"discovery": MISSING},
        [f"failing Kueue: {API} not served, so Frameworks with the label of a queue wait"],
    ),
    "controller forbidden": ({"controller": FORBIDDEN}, [f"{UNKNOWN}no"]),
    "controller broken": ({"controller": settings("kueue: [1]")}, [f"{UNKNOWN}Expected `object`, got `array` - at"]),
    "configuration forbidden": ({"config": FORBIDDEN}, [f"{UNREAD}no"]),
    "configuration broken": ({"config": theirs("a: [")}, [f"{UNREAD}controller_manager_config.yaml, line 2: "]),
    "not named": ({"config": theirs("integrations: {frameworks: [pod]}")}, [f"{LACKS}, {TAKES}"]),
    "all jobs": ({"config": theirs(ALL_JOBS + OWNERS)}, [f"{PAST}, and Frameworks without a queue run past its quota"]),
    "all jobs and Frameworks": ({"config": theirs(ALL_JOBS + OWNERS), "controller": MANAGES}, ["ok Kueue: "]),
    "no access": ({"review": allowed(False)}, [f"warning Kueue: {USER} may not list ConfigMaps, {TAKES}"]),
    "access unknown": ({"review": FORBIDDEN}, ["warning Kueue: whether it may list ConfigMaps is not known: no"]),
    "nothing right": ({"config": theirs(ALL_JOBS), "review": {}}, [LACKS, PAST, f"warning Kueue: {USER}"]),
    "groups": ({"controller": GROUPED, "groups": SERVED}, ["ok groups: scheduling.k8s.io/v1beta1 is served"]),
    "groups that nobody asks for": ({"controller": settings(""), "groups": SERVED}, []),
    "groups, and an older API server": ({"controller": GROUPED}, [NO_GROUPS]),
    "groups without their kind": ({"controller": GROUPED, "groups": {"kubernetes": {}}}, [NO_GROUPS]),
    "ranks": ({"controller": RANKED}, ["ok ranks: the controller may list nodes"]),
    "ranks by index": ({"controller": settings(""), "nodes": allowed(False)}, []),
    "ranks, and no access": (MAY_NOT, [UNRANKED]),
    "ranks, and access unknown": (
        {"controller": RANKED, "nodes": FORBIDDEN},
        ["warning ranks: whether the controller may list nodes is"],
    ),
}


@pytest.mark.parametrize(("changed", "lines"), PLACEMENT.values(), ids=PLACEMENT)
def test_what_doctor_says_of_what_places_pods(changed: dict[str, Any], lines: list[str]) -> None:
    found = list(placement_answers(PlacementFacts(**{**KUEUE, **changed})))
    texts = [f"{one.grade} {one.subject}: {one.text}" for one in found]
    assert len(texts) == len(lines), texts
    assert all(text.startswith(begin) for text, begin in zip(texts, lines, strict=True)), texts
    assert all(bool(one.fix) is (one.grade != "ok") for one in found)
