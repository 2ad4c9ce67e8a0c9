"""What is said of Tasks without logs: why there are none, and what to set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkclient.cli.commands.reading import write_logs
from frameworkclient.errors import ArgumentError
from frameworkclient.logs.absent import absent
from frameworkclient.logs.selection import LogSelection
from tests.client.documents import SUCCEEDED, completion, container, framework, pod, role, task
from tests.client.played import FRAMEWORKS, PlayedServer, a_client

if TYPE_CHECKING:
    from frameworkclient.views.framework import FrameworkView

FAILED = completion(1, "ContainerFailed")
NEXT = "frameworkctl why training says what it waits for"


def ended(retain: str, end: object) -> FrameworkView:
    return framework(
        role("worker", 1),
        spec={"retainPods": retain},
        state="Completed",
        tasks={"worker": [task(0, "Completed", end=end)]},
    )


ROWS = {
    "gone": (
        ended("Never", FAILED),
        "its Pod is gone with its end; set spec.retainPods: OnFailure before it runs again",
    ),
    "succeeded": (
        ended("OnFailure", SUCCEEDED),
        (
            "its Pod is gone with its end, and OnFailure does not keep one that has succeeded; "
            "set spec.retainPods: Always before it runs again"
        ),
    ),
    "removed": (
        ended("OnFailure", FAILED),
        "its Pod is gone, though spec.retainPods keeps it: somebody has removed it, or a retry needed its name",
    ),
    "not created": (
        framework(role("worker", 1), tasks={"worker": [task(0, "AttemptCreationPending")]}),
        f"it has no Pod; {NEXT}",
    ),
}


@pytest.mark.parametrize(("view", "reason"), ROWS.values(), ids=ROWS)
def test_a_task_without_a_pod_says_why(view: FrameworkView, reason: str) -> None:
    assert absent(view, {}, LogSelection(), "frameworkctl") == [f"no logs of worker-0: {reason}"]


def test_tasks_whose_pods_have_no_log_share_a_sentence() -> None:
    view = framework(role("worker", 4), tasks={"worker": [task(number) for number in range(4)]})
    waits = pod(
        "worker-0", node="n", init=[container("frameworkbarrier", "running")], statuses=[container(state="waiting")]
    )
    runs = {f"worker-{number}": pod(f"worker-{number}", statuses=[container()]) for number in (1, 2, 3)}
    told = absent(view, {"worker-0": waits, **runs}, LogSelection(), "frameworkctl")
    assert told == [f"no logs of worker-0: its Pod has not started (waits in the barrier); {NEXT}"]
    assert absent(view, runs, LogSelection(task="worker-1", previous=True), "frameworkctl") == [
        "no logs of worker-1: no container of its Pod has been restarted"
    ]
    assert absent(view, runs, LogSelection(barrier=True, role="worker"), "frameworkctl")[1:] == [
        "no logs of worker-1, worker-2, worker-3: its Pod has no barrier"
    ]
    assert absent(framework(role("worker", 1), state=""), {}, LogSelection(), "frameworkctl") == [
        f"no logs: Framework training has no Tasks yet; {NEXT}"
    ]


async def test_logs_of_nothing_fail_and_a_task_that_there_is_not_is_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = PlayedServer()
    await server.put(FRAMEWORKS, ended("Never", FAILED).to_dict())
    async with a_client(server) as client:
        for follow in (False, True):
            code = await write_logs(client, "training", LogSelection(), follow=follow, timestamps=False, folder=None)
            assert (code, capsys.readouterr()) == (1, ("", f"no logs of worker-0: {ROWS['gone'][1]}\n"))
        chosen = LogSelection(task="worker-9")
        with pytest.raises(ArgumentError, match=r"--task worker-9: role worker of Framework training has 1 Task$"):
            await write_logs(client, "training", chosen, follow=False, timestamps=False, folder=None)
