"""Gangs that restart in place: roles that take no part, edited templates, instances that never stay."""

from __future__ import annotations

from typing import Any

import pytest

from frameworkcontroller.api.states import State
from tests.controller.core.inplacescenarios import GANG
from tests.controller.core.inplacescenarios import POD as GANG_POD
from tests.controller.core.run import Run
from tests.controller.core.scenarios import POD, all_run, tasks
from tests.controller.core.world import Plan, World, framework_of

PREPARED = f"""
executionType: Start
retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 0}}
taskRoles:
- name: prep
  taskNumber: 1
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
  task: {{{POD}}}
- name: worker
  taskNumber: 3
  dependsOn: [{{name: prep, status: Complete}}]
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: 3}}
  task: {{retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 1}}, {GANG_POD}}}
"""


def test_a_role_without_a_barrier_that_has_succeeded_does_not_forbid_restarts() -> None:
    ends: dict[str, list[int | str]] = {
        "prep-0": [0],
        "worker-0": ["stay", 0],
        "worker-1": [1, 0],
        "worker-2": ["stay", 0],
    }
    world = World(framework_of(PREPARED), Plan(ends))
    run = Run(world)
    run.to_the_end()
    said = [one.message for one in run.events if one.reason == "GangNotRestarted"]
    assert said == []
    assert tasks(world)["worker-1"].retry_policy_status.total_retried_count == 0


def test_pods_of_a_template_that_was_edited_do_not_hold_the_gang_up() -> None:
    """The annotation is removed while all run, a Pod is lost, and then a rank crashes."""
    ends: dict[str, list[int | str]] = {
        "ps-0": ["stay"],
        "worker-0": ["stay", 1, 0],
        "worker-1": ["stay"],
        "worker-2": ["stay", "stay", 0],
    }
    world = World(framework_of(GANG), Plan(ends))

    def script(world: World) -> None:
        if world.stored is not None and world.status.attempt_status.gang_epoch == 2:
            world.notes["since"] = world.notes.get("since", 0) + 1
            if world.notes["since"] > 100:
                assert world.status.attempt_status.gang_released, "the gang never leaves epoch 2's closed gate"
                world.stop()
        if all_run(world) and "edited" not in world.notes:
            world.notes["edited"] = True
            for role in world.spec["taskRoles"]:
                role["task"]["pod"]["metadata"]["annotations"].clear()
                role["task"]["pod"]["spec"]["initContainers"][0].pop("restartPolicy")
            world.edited()
            world.terminate("fw-worker-1")

    run = Run(world, script=script)
    run.to_the_end()
    assert world.status.state is State.COMPLETED


SERVED = PREPARED.replace("name: prep, status: Complete", "name: prep, status: Ready").replace(
    f"minSucceededTaskCount: -1}}\n  task: {{{POD}}}", f"minSucceededTaskCount: -1}}\n  task: {{{GANG_POD}}}", 1
)


def test_roles_that_restart_together_must_begin_together() -> None:
    """Otherwise those that run would be restarted as soon as the others begin."""
    assert SERVED.count("restart-limit") == 2
    world = World(framework_of(SERVED), Plan({}))
    run = Run(world)
    run.to_the_end()
    end = tasks(world)["prep-0"].completion
    assert end is not None
    assert end.code == -200
    assert "must begin together, but their dependsOn differ (prep: nothing; worker: prep)" in end.diagnostics
    assert next(one.reason for one in run.events if "must begin together" in one.message) == "RestartRefused"


def test_an_instance_that_never_stays_while_its_gang_waits_ends_its_task() -> None:
    """A barrier that is killed while it waits starts again at once, and no limit counts that."""
    ends: dict[str, list[int | str]] = {"ps-0": ["stay"], "worker-0": ["stay"], "worker-1": [1], "worker-2": ["stay"]}
    world = World(framework_of(GANG), Plan(ends))

    def script(world: World) -> None:
        gate = world.stored is not None and world.status.attempt_status.gang_epoch == 1
        if gate and not world.status.attempt_status.gang_released and tasks(world)["worker-1"].completion is None:
            world.in_place.crash_barrier("fw-worker-1")

    run = Run(world, script=script)
    run.to_the_end()
    assert "worker-1 has exited, and its attempt ends: it has started 10 times more while its gang waited" in [
        one.message for one in run.events
    ]
    assert world.status.state is State.COMPLETED


TOOL = GANG.replace("- name: worker", f"- name: tool\n  taskNumber: 1\n  task: {{{POD}}}\n- name: worker", 1)


class Measured(Run):
    """Keeps the milestones."""

    def decide(self) -> Any:
        decision = super().decide()
        self.phases = [*getattr(self, "phases", []), *(one.phase for one in decision.milestones)]
        return decision


@pytest.mark.parametrize("spec", [GANG, TOOL], ids=["all have a barrier", "one role has none"])
def test_the_seconds_until_all_applications_run_are_measured(spec: str) -> None:
    ends: dict[str, list[int | str]] = {
        "ps-0": ["stay"],
        "tool-0": ["stay"],
        "worker-0": ["stay"],
        "worker-1": [1, "stay"],
        "worker-2": ["stay"],
    }
    world = World(framework_of(spec), Plan(ends))

    def script(world: World) -> None:
        world.notes["n"] = world.notes.get("n", 0) + 1
        if world.notes["n"] > 100:
            world.stop()

    run = Measured(world, script=script)
    run.to_the_end()
    assert "restart-open" in run.phases
    assert "restart-running" in run.phases
