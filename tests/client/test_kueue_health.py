"""Whether Kueue and the controller fit together, from what the API server says. `tests/apiserver` has a real one."""

from __future__ import annotations

from typing import Any

import pytest

from frameworkclient.diagnosis.health import Refusal
from frameworkclient.diagnosis.kueue import KueueFacts, kueue_answers

FORBIDDEN = Refusal(403, "no")
MISSING = Refusal(404, "not found")


def ours(**kueue: bool) -> dict[str, Any]:
    lines = "".join(f"  {key}: {str(value).lower()}\n" for key, value in kueue.items())
    return {"data": {"frameworkcontroller.yaml": f"kueue:\n{lines}#workers: 4\n"}}


def theirs(text: str) -> dict[str, Any]:
    return {"data": {"controller_manager_config.yaml": text}}


OWNERS = 'integrations:\n  frameworks: [pod]\n  externalFrameworks: ["ConfigMap.v1."]\n'
MANAGES = theirs(f"manageJobsWithoutQueueName: true\n{OWNERS}")
SOUND: dict[str, Any] = {
    "controller": ours(enabled=True),
    "discovery": {"resources": [{"name": "workloads"}]},
    "config": theirs(OWNERS),
    "review": {"status": {"allowed": True}},
}
TAKES = "so Kueue may take Pods of Frameworks for its own"
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "sound": ({}, ["ok: kueue.x-k8s.io/v1beta2 is served and set up for Frameworks"]),
    "not queued": ({"controller": ours(enabled=False), "config": FORBIDDEN}, []),
    "without settings": ({"controller": {"data": {"frameworkcontroller.yaml": "#kueue: {}\n"}}}, []),
    "no Kueue": ({"controller": FORBIDDEN, "discovery": MISSING}, []),
    "not served": (
        {"discovery": MISSING},
        ["failing: kueue.x-k8s.io/v1beta2 is not served, so Frameworks with the label of a queue wait"],
    ),
    "controller forbidden": ({"controller": FORBIDDEN}, ["warning: whether Frameworks are queued is not known: no"]),
    "controller broken": (
        {"controller": {"data": {"frameworkcontroller.yaml": "kueue: [1]"}}},
        ["warning: whether Frameworks are queued is not known: Expected `object`, got `array` - at `$.kueue`"],
    ),
    "configuration forbidden": ({"config": FORBIDDEN}, ["warning: its configuration is not known: no"]),
    "configuration broken": (
        {"config": theirs("a: [")},
        ["warning: its configuration is not known: controller_manager_config.yaml, line 2: "],
    ),
    "not named": (
        {"config": theirs("integrations: {frameworks: [pod]}")},
        [f"warning: its integrations.externalFrameworks lacks ConfigMap.v1., {TAKES}"],
    ),
    "all jobs": (
        {"config": MANAGES},
        ["warning: manageJobsWithoutQueueName is true, and Frameworks without a queue run past its quota"],
    ),
    "all jobs and Frameworks": (
        {"config": MANAGES, "controller": ours(enabled=True, manageFrameworksWithoutQueueName=True)},
        ["ok: "],
    ),
    "no access": (
        {"review": {"status": {"allowed": False}}},
        [f"warning: system:serviceaccount:kueue-system:kueue-controller-manager may not list ConfigMaps, {TAKES}"],
    ),
    "access unknown": ({"review": FORBIDDEN}, ["warning: whether it may list ConfigMaps is not known: no"]),
    "nothing right": (
        {"config": theirs("manageJobsWithoutQueueName: true"), "review": {}},
        ["warning: its integrations", "warning: manageJobs", "warning: system:serviceaccount"],
    ),
}


@pytest.mark.parametrize(("changed", "lines"), CASES.values(), ids=CASES)
def test_what_doctor_says_of_kueue(changed: dict[str, Any], lines: list[str]) -> None:
    found = list(kueue_answers(KueueFacts(**{**SOUND, **changed})))
    texts = [f"{one.grade}: {one.text}" for one in found]
    assert len(texts) == len(lines), texts
    for text, begin in zip(texts, lines, strict=True):
        assert text.startswith(begin)
    assert all(one.subject == "Kueue" and bool(one.fix) is (one.grade != "ok") for one in found)
