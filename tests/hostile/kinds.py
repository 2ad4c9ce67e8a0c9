"""Kinds of hostile Frameworks: each is what one tenant can apply, and within the bounds of the API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from frameworkcontroller.api.crd import MAX_DEPENDENCIES as FULL
from localcluster.frameworks import framework, role
from localcluster.kwok import EXIT_CODE, RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster.client import Json

FOR_EVER: Json = {"fancyRetryPolicy": False, "maxRetryCount": -2}
DENIED = {"hostile": "denied"}
"""The label of Pods that a policy of the cluster refuses."""
LONG_NAME = "h" * 60
MEMBERS = 100
"""Tasks of the gang that restarts in place."""


@dataclass(frozen=True)
class Kind:
    """What is hostile, and what a plain client does that makes the same objects.

    Attributes:
        name: What it is.
        frameworks: Makes the manifests for a namespace.
        template: Of the Pods that the Frameworks ask the API server for.
        pods: How many a plain client asks for; those that the controller cannot ask for are none.
        is_retried: The Pods end, and are made again.
        is_blocked: Nobody reads what the controller logs.
        churns: The Pods are of the gang that restarts in place again and again.
    """

    name: str
    frameworks: Callable[[str], list[Json]]
    template: Json = field(default_factory=dict)
    pods: int = 0
    is_retried: bool = False
    is_blocked: bool = False
    churns: bool = False


def _pod(annotations: dict[str, str] | None = None, *, padding: int = 0, labels: dict[str, str] | None = None) -> Json:
    """Return a Pod template; what is padded is an argument, because annotations have a limit of their own."""
    container = {"name": "main", "image": "none", "args": ["x" * padding]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": annotations or {}, "labels": labels or {}}, "spec": spec}


def _tasks(number: int, template: Json, name: str = "hostile", **task: Any) -> Callable[[str], list[Json]]:
    """Return what makes one Framework of so many Tasks."""
    task.setdefault("retry", FOR_EVER)
    return lambda namespace: [framework(namespace, name, role("worker", number, pod=template, **task))]


def _of_containers(namespace: str) -> list[Json]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{}] * 90_000}}
    return [
        framework(namespace, f"hostile{number}", role("worker", 10, pod=template, retry=FOR_EVER)) for number in (1, 2)
    ]


def _of_roles(namespace: str) -> list[Json]:
    """Return ten Frameworks whose roles wait: each for the one before, all for one, 16 each for 16 others."""
    shapes: dict[str, Callable[[int], list[int]]] = {
        "chain": lambda place: [place - 1] if place else [],
        "star": lambda place: [0] if place else [],
        "layers": lambda place: list(range(place - place % FULL - FULL, place - place % FULL)) if place >= FULL else [],
    }
    made = []
    for number in range(10):
        shape = list(shapes)[number % 3]
        roles = []
        for place in range(1500):
            one = role(f"r{place}", 1)
            wanted = [{"name": f"r{other}", "status": "Complete"} for other in shapes[shape](place)]
            roles.append(one | {"dependsOn": wanted} if wanted else one)
        made.append(framework(namespace, f"hostile{number}", *roles))
    return made


_LARGE = _pod({RUN_SECONDS: "1", EXIT_CODE: "1"}, padding=200_000)
_INVALID = _pod({"not a key!": "x"}, padding=100_000)
_DENIED = _pod(padding=100_000, labels=DENIED)
_CODES = _pod({RUN_SECONDS: "0.5", EXIT_CODE: "{{FC_TASK_INDEX}}"})
_PLACEHOLDERS = _pod({"note": f"{{{{{names.POD_NAME}}}}}" * 90_000})
_ONCE = {"fancyRetryPolicy": False, "maxRetryCount": 1}

KINDS = (
    Kind("two of 90,000 empty containers", _of_containers),
    Kind("90,000 placeholders", _tasks(10, _PLACEHOLDERS, LONG_NAME)),
    Kind("1,000 Tasks of 200 KB, retried", _tasks(1000, _LARGE, retry=_ONCE), _LARGE, 1000, is_retried=True),
    Kind(
        "the same of 300, and nobody reads the log", _tasks(300, _LARGE), _LARGE, 300, is_retried=True, is_blocked=True
    ),
    Kind("ten of 1,500 roles that wait", _of_roles, _pod(), 55),
    Kind("500 Tasks of 100 KB, invalid", _tasks(500, _INVALID), _INVALID, 500),
    Kind("500 Tasks of 100 KB, denied", _tasks(500, _DENIED), _DENIED, 500),
    Kind(
        "300 exit codes, retried",
        _tasks(300, _CODES),
        _pod({RUN_SECONDS: "0.5", EXIT_CODE: "7"}),
        300,
        is_retried=True,
    ),
    Kind("a gang of 100 that restarts in place", lambda _: [], _pod(), MEMBERS, churns=True),
)
