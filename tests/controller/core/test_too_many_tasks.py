"""A Framework that was stored under another definition and asks for more Tasks than a Framework may have."""

from __future__ import annotations

import pytest

from frameworkcontroller.api.spec import MAX_TASKS, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.core.rescale import held_back
from frameworkcontroller.core.rolestate import RoleState
from tests.controller.core.checks import tasks_of
from tests.controller.core.driver import Driver
from tests.controller.core.values import role, spec, task
from tests.controller.core.world import Plan, World, framework_of

THREE = """
taskRoles:
- {name: a, taskNumber: 2, task: {pod: {spec: {containers: [{name: main, image: x}]}}}}
- {name: b, taskNumber: 1, task: {pod: {spec: {containers: [{name: main, image: x}]}}}}
"""


class Life(Driver):
    """A Framework whose Pods run until they are stopped."""

    def __init__(self) -> None:
        super().__init__(World(framework_of(THREE), Plan({name: ["stay"] for name in ("a-0", "a-1", "b-0")})))

    def scale(self, **numbers: int) -> None:
        pod = self.world.spec["taskRoles"][0]["task"]
        self.world.spec["taskRoles"] = [
            {"name": name, "taskNumber": number, "task": pod} for name, number in numbers.items()
        ]
        self.world.edited()

    def live(self) -> None:
        for _ in range(20):
            for effect in self.decide().effects:
                self.answer(*self.perform(effect))
            self.world.tick()
            self.touch_pods(*self.caches.refresh())
            self.touch_config_map()

    @property
    def suspended(self) -> tuple[str, str]:
        conditions = self.world.status.conditions
        assert isinstance(conditions, tuple)
        return next((one.status, one.reason) for one in conditions if one.type == "Suspended")

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if event.reason == "TooManyTasks"]


@pytest.fixture
def life() -> Life:
    return Life()


def test_it_waits_and_says_why_until_it_asks_for_fewer(life: Life) -> None:
    life.scale(a=MAX_TASKS, b=1)
    life.start()
    life.live()
    assert life.world.status.state is State.CREATION_PENDING
    assert (tasks_of(life.world.status), life.world.config_map, life.world.pods) == ({}, None, {})
    assert life.suspended == ("True", "TooManyTasks")
    (warning,) = life.warnings
    assert warning.startswith("spec.taskRoles asks for 10001 Tasks in all, and a Framework may have 10000: reduce ")
    life.scale(a=2, b=1)
    life.live()
    assert life.world.status.state is State.RUNNING
    assert len(life.world.pods) == 3
    assert life.suspended == ("False", "NotSuspended")


def test_it_can_be_stopped(life: Life) -> None:
    life.scale(a=MAX_TASKS, b=MAX_TASKS)
    life.start()
    life.live()
    life.world.stop()
    life.live()
    assert life.world.status.state is State.COMPLETED


def test_one_that_runs_keeps_its_tasks_and_gets_no_more(life: Life) -> None:
    life.live()
    before = {name: pod.metadata.uid for name, pod in life.world.pods.items()}
    life.scale(a=MAX_TASKS, b=MAX_TASKS, c=MAX_TASKS)
    life.live()
    assert {name: pod.metadata.uid for name, pod in life.world.pods.items()} == before
    assert life.world.status.state is State.RUNNING
    assert len(life.warnings) == 1
    life.scale(b=MAX_TASKS, c=MAX_TASKS)
    life.live()
    assert sorted(life.world.pods) == ["fw-b-0"], "what is deleted goes"
    life.world.stop()
    life.live()
    assert life.world.status.state is State.COMPLETED


def test_a_restart_changes_nothing_of_that(life: Life) -> None:
    life.live()
    life.scale(a=MAX_TASKS, b=MAX_TASKS)
    life.live()
    life.start()
    life.live()
    assert len(life.world.pods) == 3
    assert life.world.status.ready == "3/3"


def roles_with(**numbers: int) -> dict[str, RoleState]:
    made = {name: RoleState(name, f"uid-{name}", None) for name in numbers}
    for name, number in numbers.items():
        for index in range(number):
            made[name].append(task(State.RUNNING, index=index), 0)
    return made


@pytest.mark.parametrize(
    ("wanted", "active", "kept"),
    [
        ({"a": MAX_TASKS}, {}, {"a": MAX_TASKS}),
        ({"a": MAX_TASKS - 1, "b": 1}, {}, {"a": MAX_TASKS - 1, "b": 1}),
        ({"a": MAX_TASKS, "b": 1}, {}, {"a": 0, "b": 0}),
        ({"a": MAX_TASKS, "b": 5}, {"a": 3, "b": 9}, {"a": 3, "b": 5}),
        ({"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}),
        ({"a": 6000, "b": 5000}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 5000}),
        ({"a": 6000, "b": 6001}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}),
    ],
    ids=["all in one role", "just as many", "one too many", "grown", "runs as it is", "fewer, still many", "one more"],
)
def test_what_is_there_may_stay_or_go(wanted: dict[str, int], active: dict[str, int], kept: dict[str, int]) -> None:
    asked: FrameworkSpec = spec(*(role(name, number) for name, number in wanted.items()))
    found, why = held_back(asked, roles_with(**active))
    assert {one.name: one.task_number for one in found.task_roles or ()} == kept
    assert bool(why) == (kept != wanted)
