"""When a barrier ends its Task although the kubelet restarts it: by the exit codes 201 and 210."""

from typing import Any

import pytest

from frameworkcontroller.api.names import BARRIER_CONTAINER
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import ContainerEnd
from frameworkcontroller.core.machines.barrier_exit import failed_by_barrier
from frameworkcontroller.core.machines.task import step
from tests.controller.core.values import at, known, pod, shown, task, task_facts

S = State
WAITS: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
RUNS: dict[str, Any] = {"running": {}}
HELD: dict[str, Any] = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]}


def ended(code: int, message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message, "finishedAt": at(5)}}


def barrier(state: dict[str, Any], last: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": BARRIER_CONTAINER, "state": state, "lastState": last or {}, **more}


def held(status: dict[str, Any], *, sidecar: bool = False, phase: str = "Pending", **more: Any) -> Pod:
    """A Pod whose barrier is like that, while its application has not started unless something else is said."""
    kind: dict[str, Any] = {"sidecars": (BARRIER_CONTAINER,)} if sidecar else {"barrier": True}
    return pod(phase, **kind, **(HELD | {"initContainerStatuses": [status]} | more))


def judged(seen: Pod) -> int | None:
    """The code that ends the Task for which this Pod is seen, now or before."""
    steps = [step(task(state), seen, task_facts(), persisted=True) for state in (S.CREATION_REQUESTED, S.PREPARING)]
    (code,) = {shown(one)[1] for one in steps}
    assert all((one.status.state is S.DELETION_PENDING) == (code is not None) for one in steps)
    return code


@pytest.mark.parametrize("sidecar", [False, True], ids=["init container", "sidecar"])
@pytest.mark.parametrize("code", [201, 210])
@pytest.mark.parametrize(
    ("state", "last"),
    [(ended, None), (WAITS, ended), (RUNS, ended), (ended(1), ended), (ended(137), ended), ({}, ended)],
    ids=["ended", "waits", "runs again", "failed again", "killed", "nothing known"],
)
def test_a_barrier_that_gave_up_ends_its_task(code: int, state: Any, last: Any, *, sidecar: bool) -> None:
    now, before = (one(code) if callable(one) else one for one in (state, last))
    seen = held(barrier(now, before, started=False), sidecar=sidecar)
    assert judged(seen) == code


FAILED_BEFORE = {"name": "main", "state": WAITS, "lastState": ended(1)}
RUNNING: dict[str, Any] = {"sidecar": True, "phase": "Running"}
OPEN = barrier(RUNS, ended(201), started=True)
GAVE_UP = barrier(WAITS, ended(201))
OF_AN_APPLICATION = {"name": BARRIER_CONTAINER, "state": WAITS, "lastState": ended(201)}
OTHERS = {
    "it was let through by a restart": held(barrier(ended(0), ended(201))),
    "it runs for the first time": held(barrier(RUNS)),
    "it was killed": held(barrier(WAITS, ended(137))),
    "it failed by a defect": held(barrier(WAITS, ended(1))),
    "200 is no code of the barrier": held(barrier(WAITS, ended(200))),
    "the sidecar opened after a restart": held(OPEN, sidecar=True),
    "the application restarts beside an open sidecar": held(OPEN, **RUNNING, containerStatuses=[FAILED_BEFORE]),
    "the application runs": held(GAVE_UP, **RUNNING, containerStatuses=[{"name": "main", "state": RUNS}]),
    "another container has the code": held({"name": "other", "state": WAITS, "lastState": ended(201)}),
    "an application container has the code": held(barrier(ended(0)), containerStatuses=[OF_AN_APPLICATION]),
    "nobody knows": held(GAVE_UP, phase="Unknown"),
    "there is no status": pod("Pending", barrier=True),
}


@pytest.mark.parametrize("seen", OTHERS.values(), ids=OTHERS)
def test_anything_else_ends_nothing(seen: Pod) -> None:
    assert judged(seen) is None


def test_an_application_that_was_restarted_with_its_node_is_held_back_again() -> None:
    application = {"name": "main", "state": HELD["containerStatuses"][0]["state"], "lastState": ended(137)}
    assert judged(held(GAVE_UP, containerStatuses=[application])) == 201


@pytest.mark.parametrize("sidecar", [False, True], ids=["init container", "sidecar"])
def test_the_completion_is_that_of_a_pod_that_failed_with_it(*, sidecar: bool) -> None:
    text = "waited 600 s: 3/4"
    restarted = held(barrier(WAITS, ended(201, text)), sidecar=sidecar)
    failed = pod("Failed", barrier=True, initContainerStatuses=[barrier(ended(201, text))])
    found, expected = (step(task(S.PREPARING), seen, task_facts(), persisted=True) for seen in (restarted, failed))
    assert found == expected
    end = known(found.status.completion)
    assert end.phrase == "ContainerTransientConflictFailed"
    container = '{"name":"frameworkbarrier","message":"waited 600 s: 3/4","code":201}'
    assert end.diagnostics == f'Pod failed: PodPattern matched: {{"containers":[{container}]}}'
    assert known(end.pod).containers == (ContainerEnd(name=BARRIER_CONTAINER, reason="Error", message=text, code=201),)


def test_the_rest_of_the_pod_is_left_as_it_is() -> None:
    seen = held(GAVE_UP, sidecar=True, reason="R")
    failed = known(failed_by_barrier(seen))
    assert (failed.metadata, failed.status.reason) == (seen.metadata, "R")
    assert failed.status.container_statuses == seen.status.container_statuses
