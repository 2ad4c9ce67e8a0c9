"""None of these schedulers runs here: what each of them reads is compared in Pods that wait for it."""

from typing import Any

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

EXPECTED: dict[str, dict[str, Any]] = {
    "coscheduling": {
        "schedulerName": "scheduler-plugins-scheduler",
        "labels": {"scheduling.x-k8s.io/pod-group": "coscheduling"},
    },
    "volcano": {"schedulerName": "volcano", "annotations": {"scheduling.k8s.io/group-name": "volcano"}},
}


def steps(example: Example) -> None:
    """Compare every Pod, check that none was bound, and stop the Frameworks."""
    example.apply()
    for framework, wanted in EXPECTED.items():
        for name in (f"{framework}-worker-{index}" for index in range(2)):
            example.until(f"Pod {name}", lambda name=name: example.get(f"pod/{name}"))
            pod = example.get(f"pod/{name}")
            for part in ("labels", "annotations"):
                for key, value in wanted.get(part, {}).items():
                    compare(f"{name}: {key}", pod["metadata"][part].get(key), value)
            compare(f"{name}: scheduler", pod["spec"]["schedulerName"], wanted["schedulerName"])
            compare(f"{name}: node", pod["spec"].get("nodeName"), None)
            example.say(f"{name} is as {framework} reads it, and waits")
    for framework in ("coscheduling", "volcano"):
        example.kubectl("patch", "framework", framework, "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
        example.ends("Failed", framework=framework)


def compare(what: str, found: object, wanted: object) -> None:
    """Fail unless both are equal."""
    if found != wanted:
        raise DemoError(f"{what} is {found!r}, expected {wanted!r}")
