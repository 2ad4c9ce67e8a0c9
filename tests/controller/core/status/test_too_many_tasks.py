"""A Framework that was stored under another definition and asks for more TaskRoles or Tasks than one may have."""

import pytest
from msgspec.structs import replace

from frameworkcontroller.api.spec import MAX_ROLES, MAX_TASKS
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.machines.task import conclude
from frameworkcontroller.core.policies import shares
from frameworkcontroller.core.policies.role import ENDED_TASK, FRAMEWORK, ROLE, TEXT_BYTES, idle_in
from frameworkcontroller.core.policies.shares import MOST_IDLE, SMALL, IdleTasks
from frameworkcontroller.core.status import rescale
from frameworkcontroller.core.status.rescale import IDLE, held_back
from tests.controller.core.checks import tasks_of
from tests.controller.core.driver import Driver
from tests.controller.core.manual import of_roles
from tests.controller.core.values import at, ended, role, role_of, spec, task
from tests.controller.core.world import Plan, World, framework_of


class Life(Driver):
    """A Framework whose Pods run until they are stopped."""

    def __init__(self) -> None:
        plan = Plan({name: ["stay"] for name in ("a-0", "a-1", "b-0", "c-0", "d-0")})
        super().__init__(World(framework_of(of_roles(a=2, b=1)), plan))

    def scale(self, **numbers: int) -> None:
        """It asks for these numbers of Tasks, from its beginning or from now on, and lives with them."""
        self.ask(**numbers)
        self.live()

    def ask(self, **numbers: int) -> None:
        pod = self.world.spec["taskRoles"][0]["task"]
        self.edit(taskRoles=[{"name": name, "taskNumber": number, "task": pod} for name, number in numbers.items()])
        if self.world.stored is None:
            self.start()

    def live(self) -> None:
        self.go_on(20)

    def live_beside(self, idle: int) -> None:
        """Others of the namespace have so many Tasks without a Pod."""
        self.shares.idle.note("other", idle)
        self.live()

    @property
    def seen(self) -> tuple[State, int, int]:
        """The state, and how many Tasks and Pods there are."""
        return self.world.status.state, len(tasks_of(self.world.status)), len(self.world.pods)

    @property
    def roles(self) -> list[str]:
        return [one.name for one in self.world.status.attempt_status.task_role_statuses or ()]

    @property
    def uids(self) -> dict[str, str]:
        return {name: pod.metadata.uid for name, pod in self.world.pods.items()}

    @property
    def suspended(self) -> tuple[str, str]:
        return self.condition("Suspended")[:2]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if event.reason.startswith("TooMany")]


@pytest.fixture
def life() -> Life:
    return Life()


def numbered(number: int, tasks: int = 0) -> dict[str, int]:
    """So many roles of so many Tasks."""
    return {f"r{place}": tasks for place in range(number)}


MUCH = "spec.taskRoles asks for 10001 Tasks in all, and a Framework may have 10000: reduce "
MANY = "spec.taskRoles has 1001 TaskRoles, and a Framework may have 1000: remove "
WAITS: dict[str, tuple[dict[str, int], int, int, str, str]] = {
    "Tasks": ({"a": MAX_TASKS, "b": 1}, 0, 2, "TooManyTasks", MUCH),
    "roles": (numbered(MAX_ROLES + 1, 1), 0, 0, "TooManyTaskRoles", MANY),
    "Tasks without a Pod in the namespace": ({"a": SMALL, "b": 1}, MOST_IDLE - SMALL, 0, *IDLE),
}


@pytest.mark.parametrize(("numbers", "others", "roles", "reason", "text"), WAITS.values(), ids=WAITS)
def test_it_waits_and_says_why_until_it_asks_for_fewer_or_there_is_room(
    life: Life, numbers: dict[str, int], others: int, roles: int, reason: str, text: str
) -> None:
    life.ask(**numbers)
    life.live_beside(others)
    assert life.seen == (State.CREATION_PENDING, 0, 0)
    assert life.world.config_map is None
    assert (len(life.roles), life.suspended) == (roles, ("True", reason))
    (warning,) = life.warnings
    assert warning.startswith(text)
    assert life.wake_at is not None or not others, "it looks again"
    if not others:
        life.ask(a=2, b=1)
    life.live_beside(0)
    assert (life.world.status.state, len(life.world.pods)) == (State.RUNNING, 3)
    assert life.suspended == ("False", "NotSuspended")


@pytest.mark.parametrize(("numbers", "others"), [case[:2] for case in WAITS.values()], ids=WAITS)
def test_one_that_is_stopped_while_it_waits_comes_to_rest(life: Life, numbers: dict[str, int], others: int) -> None:
    life.ask(**numbers)
    life.live_beside(others)
    life.world.stop()
    life.live()
    assert life.world.status.state is State.COMPLETED
    assert life.decide().at_rest


def test_one_that_runs_keeps_what_it_has_while_others_of_the_namespace_have_too_many_without_a_pod(life: Life) -> None:
    life.scale(a=SMALL, b=1)
    life.shares.idle.note("other", MOST_IDLE)
    life.scale(a=SMALL + 1, b=1)
    assert life.seen[1] == SMALL + 1
    life.scale(a=SMALL, b=1, c=0)
    assert life.roles == ["a", "b"], "TaskRoles take memory, too"
    life.ask(a=SMALL + 1, b=1)
    life.live_beside(0)
    assert life.seen[1] == SMALL + 2


def test_one_that_is_not_to_start_gets_its_tasks_later_too(life: Life) -> None:
    life.world.spec["executionType"] = "Create"
    life.ask(a=SMALL, b=1)
    for idle, number in ((MOST_IDLE, 0), (0, SMALL + 1)):
        life.live_beside(idle)
        assert (life.seen[1], life.decide().at_rest) == (number, not idle)


def test_tasks_that_come_and_go_without_a_pod_have_a_pace(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes a line of history."""
    monkeypatch.setattr(shares, "GONE_A_SECOND", 0)
    life.world.plan.sick |= {f"{name}-0": 9999 for name in "abc"}
    life.scale(a=1)
    life.scale(b=1)
    idle, now = life.shares.idle, life.world.now.timestamp()
    assert idle.gone(now) == 1
    idle.let_go([task()] * 3 * MOST_IDLE, now)
    life.scale(b=0)
    life.scale(b=1, c=1)
    assert (life.roles, life.warnings) == (["b"], [IDLE[1]])
    assert life.seen[1] == 0, "one that is asked for again is a new one"
    monkeypatch.setattr(shares, "GONE_A_SECOND", MOST_IDLE)
    life.live()
    assert life.roles == ["b", "c"]


def test_those_that_are_to_go_need_room_where_they_are_asked_for_again() -> None:
    """They are replaced, or a number that goes up and down would pass."""
    roles = {"a": role_of("a", [replace(task(index=index), deletion_pending=True) for index in range(3)])}
    room = FRAMEWORK + ROLE + 6
    asked = spec(role("a", 3))
    assert [held_back(asked, roles, one)[1] for one in (room - 1, room)] == [IDLE, None]


def test_tasks_that_go_with_an_attempt_without_a_pod_count(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "GONE_A_SECOND", 0)
    life.world.plan.sick |= {"a-0": 9999}
    life.world.spec["retryPolicy"] = {"maxRetryCount": -2}
    life.live()
    life.edit(suspend=True)
    life.live()
    assert life.shares.idle.gone(life.world.now.timestamp()) == 1


def test_tasks_that_are_being_made_count(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of hundreds that come at once is decided on in turns, with turns of the others in between."""
    monkeypatch.setattr(shares, "MOST_IDLE", MAX_TASKS + ROLE + FRAMEWORK)
    life.ask(a=MAX_TASKS)
    next(life.steps())
    assert life.shares.idle.room("other", MAX_TASKS) == 0


@pytest.mark.parametrize(
    ("wanted", "others", "room"),
    [
        (SMALL, MOST_IDLE, MOST_IDLE),
        (SMALL, 2 * MOST_IDLE - 1, 1),
        (SMALL + 1, MOST_IDLE, 0),
        (SMALL + 1, MOST_IDLE - SMALL, SMALL),
        (MAX_TASKS, 0, MOST_IDLE),
    ],
)
def test_only_a_large_one_waits_for_room(wanted: int, others: int, room: int) -> None:
    idle = IdleTasks()
    idle.note("own", 7)
    idle.note("other", others)
    assert idle.room("own", wanted) == room
    idle.forget("other")
    assert idle.room("own", MAX_TASKS) == MOST_IDLE


SAYS_MUCH = replace(ended(1), diagnostics="x" * 2 * TEXT_BYTES)
MADE: dict[str, tuple[list[TaskStatus], int]] = {
    "it waits": ([], 0),
    "one that waits": ([task()], FRAMEWORK + ROLE + 1),
    "one that has ended without a Pod": ([conclude(task(), at(1))], FRAMEWORK + ROLE + ENDED_TASK),
    "one of two has a Pod": ([task(State.RUNNING), task(index=1)], 1),
    "much is said of its end": ([conclude(task(completion=SAYS_MUCH), at(1))], FRAMEWORK + ROLE + ENDED_TASK + 2),
    "one of two has ended, and its Pod is gone": (
        [task(State.RUNNING), conclude(task(State.RUNNING, index=1), at(1))],
        ENDED_TASK,
    ),
}


@pytest.mark.parametrize(("made", "idle"), MADE.values(), ids=MADE)
def test_what_takes_memory_is_counted_while_there_is_no_pod(made: list[TaskStatus], idle: int) -> None:
    assert idle_in({"a": role_of("a", made)} if made else {}) == idle


def test_many_that_wait_look_again_ten_times_a_second_in_all() -> None:
    idle = IdleTasks()
    pauses = [idle.wait(str(number)).total_seconds() for number in range(50)]
    assert (pauses[0], pauses[9], pauses[-1]) == (1, 1, 5)
    idle.forget("0")
    assert [idle.is_waiting(one) for one in ("0", "1")] == [False, True]


def test_one_that_runs_keeps_its_tasks_and_gets_no_more(life: Life) -> None:
    life.live()
    before = life.uids
    life.scale(a=MAX_TASKS, b=MAX_TASKS, c=MAX_TASKS)
    assert life.uids == before
    assert life.world.status.state is State.RUNNING
    assert len(life.warnings) == 1
    life.start()
    life.live()
    assert life.uids == before, "a restart changes nothing"
    assert life.world.status.ready == "3/30000", "a gang of those that are there is none of those that are asked for"
    life.scale(b=MAX_TASKS, c=MAX_TASKS)
    assert sorted(life.world.pods) == ["fw-b-0"], "what is deleted goes"


def test_one_that_had_more_roles_before_goes_on_with_them(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.world.spec["retryPolicy"] = {"maxRetryCount": -2}
    life.world.plan.ends |= {"b-0": [1, "stay"]}
    life.live()
    monkeypatch.setattr(rescale, "MAX_ROLES", 1)
    life.start()
    life.live()
    life.live()
    status = life.world.status
    assert (status.attempt_status.id, status.state, status.ready) == (1, State.RUNNING, "3/3")
    assert life.warnings == []


def test_what_is_held_back_has_not_completed(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.world.plan.ends |= {"b-0": [0]}
    life.live()
    monkeypatch.setattr(rescale, "MAX_TASKS", 4)
    life.scale(b=1, c=9)
    # All Tasks that are there have succeeded.
    assert tasks_of(life.world.status).keys() == {("b", 0)}
    assert life.world.status.state is State.RUNNING
    life.scale(b=1, c=1)
    assert sorted(life.world.pods) == ["fw-c-0"]


def test_what_is_held_back_lets_no_role_begin(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.world.spec["taskRoles"][1]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    life.world.plan.ends |= {"a-0": [0], "a-1": ["stay"]}
    life.live()
    monkeypatch.setattr(rescale, "MAX_TASKS", 3)
    life.edit_role(0, taskNumber=9)
    life.live()
    life.world.plan.ends["a-1"] = [0]
    life.live()
    assert len(life.warnings) == 1
    assert not {name for name in life.world.pods if "-b-" in name}, "seven Tasks of a have not run"


def test_tasks_that_are_still_to_go_leave_no_more_room_than_can_be_read_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.live()
    monkeypatch.setattr(rescale, "MAX_STORED", 3)
    life.world.plan.stuck |= {"a-0", "a-1", "b-0"}
    life.scale(c=1)
    assert life.warnings == ["3 Tasks that are not asked for any more are still to go: their Pods have to end first"]
    life.world.plan.stuck.clear()
    life.live()
    assert sorted(life.world.pods) == ["fw-c-0"]


FULL = numbered(MAX_ROLES)
GOING = {f"new-{name}": 0 for name in FULL}
TASKS, ROLES = "TooManyTasks", "TooManyTaskRoles"

BOUNDS = {
    "all Tasks in one role": ({"a": MAX_TASKS}, {}, {"a": MAX_TASKS}, ""),
    "just as many Tasks": ({"a": MAX_TASKS - 1, "b": 1}, {}, {"a": MAX_TASKS - 1, "b": 1}, ""),
    "one Task too many": ({"a": MAX_TASKS, "b": 1}, {}, {"a": 0, "b": 0}, TASKS),
    "Tasks have grown": ({"a": MAX_TASKS, "b": 5}, {"a": 3, "b": 9}, {"a": 3, "b": 5}, TASKS),
    "its Tasks run as they are": ({"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}, ""),
    "fewer Tasks, still many": ({"a": 6000, "b": 5000}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 5000}, ""),
    "one more Task": ({"a": 6000, "b": 6001}, {"a": 6000, "b": 6000}, {"a": 6000, "b": 6000}, TASKS),
    "just as many roles": (FULL, {}, FULL, ""),
    "one role too many": (numbered(MAX_ROLES + 1), {}, {}, ROLES),
    "roles have grown": (FULL | {"a": 1}, {"a": 1, "r0": 0}, {"a": 1, "r0": 0}, ROLES),
    "its roles run as they are": (FULL | {"a": 0}, FULL | {"a": 0}, FULL | {"a": 0}, ""),
    "another role": (FULL | {"a": 0}, FULL | {"b": 0}, FULL | {"a": 0}, ""),
    "one more role": (FULL | {"a": 0, "b": 0}, FULL | {"a": 0}, FULL | {"a": 0}, ROLES),
    "also too many Tasks": (FULL | {"a": MAX_TASKS, "b": MAX_TASKS}, {"a": 3, "b": 5}, {"a": 3, "b": 5}, ROLES),
    "as many roles are to go": (GOING, FULL, GOING, ""),
    "more roles are to go": (GOING, FULL | {"a": 1}, {}, ROLES),
}


@pytest.mark.parametrize(("wanted", "active", "kept", "reason"), BOUNDS.values(), ids=BOUNDS)
def test_what_is_there_may_stay_or_go(
    wanted: dict[str, int], active: dict[str, int], kept: dict[str, int], reason: str
) -> None:
    runs = task(State.RUNNING)
    roles = {name: role_of(name, [runs] * number) for name, number in active.items()}
    found, why = held_back(spec(*(role(name, number) for name, number in wanted.items())), roles)
    assert {one.name: one.task_number for one in found.task_roles or ()} == kept
    assert (why[0] if why else "") == reason
