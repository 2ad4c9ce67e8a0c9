"""Kinds of hostile Frameworks: each is what tenants can apply and edit, within the bounds of the API server."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from frameworkcontroller.api import foreign, names
from frameworkcontroller.api.spec import MAX_EDGES, MAX_ROLES, MAX_TASKS
from frameworkcontroller.core.pods.template import MAX_CONTAINERS_OF_POD
from localcluster.client import ApiStatusError, Json
from localcluster.cluster.kwok import EXIT_CODE, RUN_SECONDS
from testkit.frameworks import Frameworks, framework, role
from testkit.restarting_gang import TEMPLATE, RestartingGang

FOR_EVER: Json = {"fancyRetryPolicy": False, "maxRetryCount": -2}
DENIED = {"hostile": "denied"}
"""The label of Pods that a policy of the cluster refuses."""
MEMBERS = 100
"""Tasks of the gang that restarts in place; gangs of no controller, and Pods of each."""
SCALES = (10, 1000)
SCALE_SECONDS = 2.0
"""From one scale to the next."""
EDIT_SECONDS = 0.1
SUSPENDED = 8
LONG = 40
"""Frameworks whose ConfigMaps are deleted."""
_WIDTH = 10
"""Roles of a layer; 1,000 roles have 9,900 edges then, and so many of them get one more to reach the limit."""
_MORE_EDGES = MAX_EDGES - (MAX_ROLES - _WIDTH) * _WIDTH


def _nothing(_: Frameworks) -> Iterator[float]:
    yield from ()


@dataclass(frozen=True)
class Kind:
    """What is hostile.

    Attributes:
        name: What it is.
        frameworks: Makes the manifests for a namespace.
        edits: What the tenant does afterwards; yields the seconds from one step to the next.
        edits_of_plain: The same beside the plain client, if it is something else there.
        kubelet: What kubelets report, beside the plain client too; yields likewise.
        is_asked_for: Whether the controller can ask for the Pods at all; those with too many containers it never can.
        scales: The numbers of Tasks, in turn.
        read_rate: Bytes of the controller's log that its reader takes in a second at most; 0 if it is stuck.
    """

    name: str
    frameworks: Callable[[str], list[Json]]
    edits: Callable[[Frameworks], Iterator[float]] = _nothing
    edits_of_plain: Callable[[Frameworks], Iterator[float]] | None = None
    kubelet: Callable[[Frameworks], Iterator[float]] = _nothing
    is_asked_for: bool = True
    scales: tuple[int, ...] = ()
    read_rate: float = math.inf

    @property
    def pods(self) -> list[Json]:
        """What a plain client asks for: the Pods of all TaskRoles that do not wait, with the `scales` of each."""
        return [
            {
                "prefix": f"{one['metadata']['name']}-{each['name']}",
                "template": each["task"]["pod"],
                "scales": self.scales or [each["taskNumber"]],
            }
            for one in (self.frameworks("") if self.is_asked_for else ())
            for each in one["spec"]["taskRoles"]
            if "dependsOn" not in each and len(each["task"]["pod"]["spec"]["containers"]) <= MAX_CONTAINERS_OF_POD
        ]


def _pod(annotations: dict[str, str] | None = None, *, padding: int = 0, labels: dict[str, str] | None = None) -> Json:
    """Return a Pod template; what is padded is an argument, because annotations have a limit of their own."""
    container = {"name": "main", "image": "none", "args": ["x" * padding]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": annotations or {}, "labels": labels or {}}, "spec": spec}


def _empty(containers: int) -> Json:
    return {"spec": {"restartPolicy": "Never", "containers": [{}] * containers}}


def _made(
    template: Json,
    tasks: int,
    *,
    roles: int = 1,
    frameworks: int = 1,
    name: str = "hostile",
    retry: Json | None = FOR_EVER,
    **spec: Any,
) -> Callable[[str], list[Json]]:
    """Return what makes Frameworks `hostile0`..., each of TaskRoles `r0`... with so many Tasks, retried so."""

    def make(namespace: str) -> list[Json]:
        each = [role(f"r{place}", tasks, pod=template, retry=retry) for place in range(roles)]
        return [framework(namespace, f"{name}{number}", *each, **spec) for number in range(frameworks)]

    return make


# --- roles that wait -------------------------------------------------------------------------------------------------


def _roles(shape: str, number: int = MAX_ROLES, more: int = _MORE_EDGES) -> list[Json]:
    """Return TaskRoles that wait: each for the one before, all for one, or each layer for the one before.

    Args:
        shape: `chain`, `star` or `layers`.
        number: Of the roles.
        more: So many roles of layers wait for one more role.
    """
    shapes: dict[str, Callable[[int], range]] = {
        "chain": lambda place: range(max(0, place - 1), place),
        "star": lambda place: range(min(1, place)),
        "layers": lambda place: _layer_before(place, more),
    }
    made = []
    for place in range(number):
        wanted = [{"name": f"r{other}", "status": "Complete"} for other in shapes[shape](place)]
        made.append(role(f"r{place}", 1) | ({"dependsOn": wanted} if wanted else {}))
    return made


def _layer_before(place: int, more: int) -> range:
    first = place - place % _WIDTH - _WIDTH
    return range(first - (2 * _WIDTH <= place < 2 * _WIDTH + more), first + _WIDTH) if first >= 0 else range(0)


def _waiting(namespace: str) -> list[Json]:
    shapes = itertools.islice(itertools.cycle(("chain", "star", "layers")), 10)
    return [framework(namespace, f"hostile{number}", *_roles(shape)) for number, shape in enumerate(shapes)]


def _idle(namespace: str, number: int = 130) -> list[Json]:
    later = role("later", MAX_TASKS - 1) | {"dependsOn": [{"name": "first", "status": "Complete"}]}
    return [framework(namespace, f"hostile{place}", role("first", 1, pod=_pod()), later) for place in range(number)]


def _without_pods(namespace: str) -> list[Json]:
    none = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}
    bad = role("bad", MAX_TASKS - 1, pod=_empty(MAX_CONTAINERS_OF_POD + 1), completion=none)
    return [framework(namespace, f"hostile{number}", role("first", 1, pod=_pod()), bad) for number in range(80)]


def _with_an_edge_too_many(namespace: str) -> list[Json]:
    roles = _roles("layers", more=_MORE_EDGES + 1)
    return [framework(namespace, f"hostile{number}", *roles) for number in range(10)]


def _with_a_role_too_many(frameworks: Frameworks) -> Iterator[float]:
    roles = _roles("star", MAX_ROLES + 1)
    while True:
        # The API server refuses it.
        with contextlib.suppress(ApiStatusError):
            frameworks.create("hostile", *roles)
        yield EDIT_SECONDS


# --- edits -----------------------------------------------------------------------------------------------------------


def _described(frameworks: Frameworks) -> Iterator[float]:
    for number in itertools.count():
        frameworks.merge(f"hostile{number % 10}", description=f"edit {number}")
        yield EDIT_SECONDS


def _suspended(frameworks: Frameworks) -> Iterator[float]:
    """Suspend all of them, and resume them."""
    for number in itertools.count():
        frameworks.merge(f"hostile{number % SUSPENDED}", suspend=number // SUSPENDED % 2 == 0)
        yield EDIT_SECONDS


def _retemplated(frameworks: Frameworks) -> Iterator[float]:
    for number in itertools.count():
        template = _pod({"not a key!": str(number)})
        (manifest,) = _made(template, 3, roles=160)(frameworks.namespace)
        frameworks.merge("hostile0", **manifest["spec"])
        yield EDIT_SECONDS


def _rescaled(frameworks: Frameworks) -> Iterator[float]:
    for number in itertools.cycle(SCALES):
        (manifest,) = _made(_pod(), number)(frameworks.namespace)
        frameworks.merge("hostile0", **manifest["spec"])
        yield SCALE_SECONDS


def _without_config_maps(frameworks: Frameworks, pods: int = 0) -> Iterator[float]:
    """Delete the ConfigMaps of its own attempts, each of which begins the next attempt.

    The plain client has none: of so many `pods` each, those are deleted that go with the first attempt, so that it
    makes them again as often as the controller does.
    """
    for number in itertools.count():
        name = f"hostile{number % LONG}"
        paths = [f"configmaps/{names.config_map_name(name)}"]
        if number < LONG:
            paths += [f"pods/{name}-r0-{index}" for index in range(pods)]
        for path in paths:
            with contextlib.suppress(ApiStatusError):
                frameworks.raw.delete(f"/api/v1/namespaces/{frameworks.namespace}/{path}")
        yield EDIT_SECONDS


def _contradicting(frameworks: Frameworks) -> Iterator[float]:
    """Make Pods of gangs of no controller, every other of which never agrees about its size, and edit each once."""
    path = f"/api/v1/namespaces/{frameworks.namespace}/pods"
    for number in itertools.count():
        gang, index = number % MEMBERS, number // MEMBERS
        says = {
            foreign.PODS.name: f"gang{gang}",
            foreign.PODS.index: str(index),
            foreign.PODS.size: str(MEMBERS + gang % 2 * index),
        }
        pod = _pod(says, labels={names.BARRIER_LABEL: "enabled"})
        pod["metadata"]["name"] = f"hostile{number}"
        frameworks.raw.create(path, pod)
        if number >= MEMBERS:
            edit = {"metadata": {"annotations": {foreign.PODS.size: str(MEMBERS + gang % 2 * number)}}}
            frameworks.raw.merge(f"{path}/hostile{number - MEMBERS}", edit)
        yield 0.0


def _restarted(frameworks: Frameworks) -> Iterator[float]:
    """Report that all members of the gang start again."""
    gang = RestartingGang(frameworks, "hostile", MEMBERS)
    for restarts in itertools.count():
        # A Pod may not be there yet, or be replaced meanwhile.
        with contextlib.suppress(AssertionError):
            gang.report_all(restarts)
        yield 0.0


_LARGE = _pod({RUN_SECONDS: "1", EXIT_CODE: "1"}, padding=200_000)
_CODES = _pod({RUN_SECONDS: "0.5", EXIT_CODE: f"{{{{{names.TASK_INDEX}}}}}"})
_PLACEHOLDERS = _pod({"note": f"{{{{{names.POD_NAME}}}}}" * 90_000})

_AGAIN = {"fancyRetryPolicy": True, "maxRetryCount": 0}

KINDS = (
    Kind("24 of 39 roles of 256 empty containers", _made(_empty(MAX_CONTAINERS_OF_POD), 1, roles=39, frameworks=24)),
    Kind(
        "12 of 257 containers a Pod, 12 of 10,240 in all",
        lambda namespace: [
            *_made(_empty(MAX_CONTAINERS_OF_POD + 1), 1, roles=38, frameworks=12)(namespace),
            *_made(_empty(MAX_CONTAINERS_OF_POD), 1, roles=40, frameworks=12, name="large")(namespace),
        ],
    ),
    Kind("90,000 placeholders", _made(_PLACEHOLDERS, 10, name="h" * 60), is_asked_for=False),
    Kind("2,000 Tasks of 200 KB that crash", _made(_LARGE, 2000)),
    Kind("300 of 200 KB that crash, nobody reads the log", _made(_LARGE, 300), read_rate=0),
    Kind("300 of 200 KB that crash, a reader of 20 MB/s", _made(_LARGE, 300), read_rate=20e6),
    Kind("ten of 1,000 roles that wait", _waiting),
    Kind("ten of 10,001 edges", _with_an_edge_too_many),
    Kind("1,001 roles, applied ten times a second", lambda _: [], _with_a_role_too_many),
    Kind("ten of 1,000 roles, edited ten times a second", _waiting, _described),
    Kind("500 Tasks of 100 KB, invalid", _made(_pod({"not a key!": "x"}, padding=100_000), 500)),
    Kind(
        "160 roles of 3 invalid Pods, edited ten times a second",
        _made(_pod({"not a key!": "x"}), 3, roles=160),
        _retemplated,
    ),
    Kind(
        "110 of 500 invalid Tasks, retried as a whole",
        _made(_pod({"not a key!": "x"}), 500, frameworks=110, retry=None, retryPolicy=FOR_EVER),
        is_asked_for=False,
    ),
    Kind(
        f"{LONG} of 450 KB, whose ConfigMaps are deleted ten times a second",
        _made(_pod(), 1, frameworks=LONG, description="x" * 450_000, retryPolicy=_AGAIN),
        _without_config_maps,
    ),
    Kind(
        f"{LONG} whose ConfigMaps are deleted ten times a second",
        _made(_pod(), 2, frameworks=LONG, retryPolicy=_AGAIN),
        _without_config_maps,
        functools.partial(_without_config_maps, pods=2),
    ),
    Kind("500 Tasks of 100 KB, denied", _made(_pod(padding=100_000, labels=DENIED), 500)),
    Kind("100 roles of 10 Tasks of 10 KB, denied", _made(_pod(padding=10_000, labels=DENIED), 10, roles=100)),
    Kind("300 Tasks that crash, each with its exit code", _made(_CODES, 300)),
    Kind("400 of two Tasks that crash", _made(_pod({RUN_SECONDS: "0.5", EXIT_CODE: "1"}), 2, frameworks=400)),
    Kind("400 Tasks that end at once", _made(_pod({RUN_SECONDS: "0.1"}), 400)),
    Kind(
        "130 of 10,000 Tasks, not started",
        _made(_pod(), 10_000, frameworks=130, executionType="Create"),
        is_asked_for=False,
    ),
    Kind("130 of 10,000 Tasks, all but one of which wait", _idle),
    Kind(
        f"{SUSPENDED} of 10,000 Tasks, suspended and resumed ten times a second",
        functools.partial(_idle, number=SUSPENDED),
        _suspended,
    ),
    Kind("80 of 9,999 Tasks, 257 containers each", _without_pods),
    Kind(
        "400 of one Task, 257 containers each, retried",
        _made(_empty(MAX_CONTAINERS_OF_POD + 1), 1, frameworks=400, retry=None, retryPolicy=FOR_EVER),
        is_asked_for=False,
    ),
    Kind("100 gangs of Pods whose sizes contradict each other", lambda _: [], _contradicting),
    Kind("10 and 1,000 Tasks in turn, every two seconds", _made(_pod(), SCALES[0]), _rescaled, scales=SCALES),
    Kind(
        "a gang of 100 that restarts in place",
        lambda namespace: [framework(namespace, "hostile", role("worker", MEMBERS, pod=TEMPLATE))],
        kubelet=_restarted,
    ),
)
