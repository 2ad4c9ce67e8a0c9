"""Which TaskRoles wait for which, and what the messages say."""

from typing import Any

import pytest

from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.spec import MAX_DEPENDENCIES, MAX_EDGES, MAX_ROLES, Dependency, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.policies.dependencies import (
    conditions_of,
    describe,
    is_met,
    is_pod_ready,
    problems_of,
    watched_roles,
)
from tests.controller.core.driver import Driver
from tests.controller.core.scenarios.added import DEPENDENT, PIPELINE
from tests.controller.core.values import ended, known, pod, role, role_of, spec, task
from tests.controller.core.world import Plan, World, framework_of

S = State
READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}


def needs(*others: str, status: str = "Complete") -> tuple[Dependency, ...]:
    return tuple(Dependency(other, status) for other in others)


def chain(**depends_on: tuple[str, ...]) -> FrameworkSpec:
    """Roles that depend on these others."""
    return spec(*(role(name, 1, depends_on=needs(*others)) for name, others in depends_on.items()))


DONE, BAD = task(S.COMPLETED, ended(0)), task(S.COMPLETED, ended(7))
RUNS, WAITS = task(S.RUNNING), task()


MET: dict[str, tuple[str, int, list[TaskStatus] | None, set[int], bool]] = {
    "complete": ("Complete", 2, [DONE, DONE], set(), True),
    "ready is not complete": ("Complete", 2, [DONE, RUNS], {1}, False),
    "a tolerated failure": ("Complete", 2, [DONE, BAD], set(), True),
    "a Task is not there yet": ("Complete", 2, [DONE], set(), False),
    "a Task goes": ("Complete", 1, [DONE, RUNS], set(), True),
    "no Tasks": ("Complete", 0, [], set(), True),
    "ready": ("Ready", 2, [RUNS, RUNS], {0, 1}, True),
    "one is not ready": ("Ready", 2, [RUNS, RUNS], {0}, False),
    "what is over need not be ready": ("Ready", 2, [DONE, RUNS], {1}, True),
    "not begun": ("Ready", 1, [WAITS], set(), False),
    "not in the status yet": ("Ready", 1, None, set(), False),
    "not in the status yet, without Tasks": ("Ready", 0, None, set(), True),
}


@pytest.mark.parametrize(("status", "number", "tasks", "ready", "met"), MET.values(), ids=MET)
def test_a_task_holds_others_up_until_it_is_that_far(
    status: str, number: int, tasks: list[TaskStatus] | None, ready: set[int], met: bool
) -> None:
    found = {} if tasks is None else {"a": role_of("a", tasks)}
    for one in found.values():
        one.ready_pods = ready
    assert is_met(Dependency("a", status), spec(role("a", number)), found) is met


PODS: dict[str, tuple[TaskStatus, Pod | None, bool]] = {
    "ready": (RUNS, pod("Running", **READY), True),
    "no Pod": (RUNS, None, False),
    "unknown": (RUNS, pod("Running"), False),
    "not ready": (RUNS, pod("Running", conditions=[{"type": "Ready", "status": "False"}]), False),
    "only its containers": (RUNS, pod("Running", conditions=[{"type": "ContainersReady", "status": "True"}]), False),
    "being deleted": (RUNS, pod("Running", deleted=5, **READY), False),
    "another Pod": (RUNS, pod("Running", uid="another", **READY), False),
    "over": (task(S.DELETION_PENDING, ended(0)), pod("Running", **READY), False),
}


@pytest.mark.parametrize(("one", "of", "ready"), PODS.values(), ids=PODS)
def test_a_pod_is_ready_by_its_condition(one: TaskStatus, of: Pod | None, ready: bool) -> None:
    assert is_pod_ready(one, of) is ready


def test_a_count_of_ready_pods_forgets_a_task_that_changes_or_goes() -> None:
    found = role_of("a", [RUNS, task(S.RUNNING, index=1)])
    found.ready_pods = {0, 1}
    found.put(0, DONE, 1)
    assert found.ready_pods == {1}
    found.pop()
    assert found.ready_pods == set()


PROBLEMS = {
    "no": (chain(a=(), b=("a",)), "b", ""),
    "a diamond": (chain(a=(), b=("a",), c=("a", "b"), d=("b", "c")), "d", ""),
    "unknown": (chain(a=(), b=("c",)), "b", "[c]: there is no such TaskRole, only a, b"),
    "itself": (chain(a=("a",)), "a", ": waits for itself: a -> a; remove one of them"),
    "a circle of three": (
        chain(a=("c",), b=("a",), c=("x", "b"), x=()),
        "a",
        ": waits for itself: a -> c -> b -> a; remove one of them",
    ),
    "behind a circle": (chain(a=("b",), b=("c",), c=("b",)), "a", ""),
    "in a circle": (chain(a=("b",), b=("c",), c=("b",)), "b", ": waits for itself: b -> c -> b; remove one of them"),
}


@pytest.mark.parametrize(("wanted", "name", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_role_that_can_never_begin_is_named_with_its_field(wanted: FrameworkSpec, name: str, problem: str) -> None:
    assert problems_of(wanted).get(name, "") == (f"spec.taskRoles[{name}].dependsOn{problem}" if problem else "")


def test_too_many_dependencies_let_none_of_their_roles_begin() -> None:
    first = [f"first{number}" for number in range(MAX_DEPENDENCIES)]
    roles = [role(name, 1) for name in first]
    roles += [role(f"r{number}", 1, depends_on=needs(*first)) for number in range(MAX_EDGES // MAX_DEPENDENCIES)]
    assert problems_of(spec(*roles)) == {}
    problems = problems_of(spec(*roles, role("last", 1, depends_on=needs("nobody"))))
    assert set(problems) == {"last", *(one.name for one in roles[len(first) :])}
    assert problems["last"] == (
        "spec.taskRoles[last].dependsOn: the TaskRoles have 10001 entries in all, and a Framework may have 10000: "
        "remove some"
    )


def test_a_circle_of_a_thousand_is_found_and_cut() -> None:
    roles = [role(f"r{number}", 1, depends_on=needs(f"r{(number + 1) % MAX_ROLES}")) for number in range(MAX_ROLES)]
    text = problems_of(spec(*roles))["r0"]
    assert text.startswith("spec.taskRoles[r0].dependsOn: waits for itself: r0 -> r1 -> r2 -> ")
    assert text.endswith(" -> r9 -> ... -> r0; remove one of them")


def test_only_roles_that_must_become_ready_are_watched() -> None:
    wanted = spec(role("a", 1), role("b", 1, depends_on=(*needs("a"), *needs("c", status="Ready"))), role("c", 1))
    assert watched_roles(wanted) == {"c"}


def test_a_text_for_people_has_an_end() -> None:
    waiting = [role(f"r{number}", 1, depends_on=needs("a")) for number in range(12)]
    assert describe(waiting[:2]) == "r0 waits until a is Complete; r1 waits until a is Complete"
    assert describe(waiting).endswith("r9 waits until a is Complete; 2 more TaskRoles wait")


def test_a_role_whose_dependencies_were_taken_away_depends_on_nothing() -> None:
    assert conditions_of(role("a", 1)) == "it depends on nothing any more"
    both = role("a", 1, depends_on=(*needs("b"), *needs("c", status="Ready")))
    assert conditions_of(both) == "b is Complete and c is Ready"


# --- what is seen of it ----------------------------------------------------------------------------------------------


WITHOUT = DEPENDENT.replace("dependsOn: [{name: ps, status: Ready}]", "")


def lived(text: str, seconds: int, end: int | str = "stay", **plan: Any) -> Driver:
    """A controller of a Framework that has lived so long, and whose ps ends like that."""
    driver = Driver(World(framework_of(text), Plan({"ps-0": [end]}, **plan)))
    driver.go_on(seconds)
    return driver


def gang(driver: Driver) -> tuple[bool, int, int, dict[str, int]]:
    """Of the newest roster: whether it is complete, of how many Tasks, its generation, and how many each role has."""
    found = known(driver.world.roster)
    roles = {one["name"]: len(one["tasks"]) for one in found.get("taskRoles", ())}
    return found["complete"], found["total"], found["generation"], roles


def test_people_are_told_once_who_waits_for_whom_and_the_gang_is_of_those_who_have_begun() -> None:
    driver = lived(DEPENDENT, 10, unready={"ps-0"})
    world, text = driver.world, "worker waits until ps is Ready"
    assert set(world.pods) == {"fw-ps-0"}
    assert driver.condition("WaitingForDependency") == ("True", "TaskRolesWait", text)
    assert (world.status.ready, driver.reconciler.ready, driver.reconciler.waiting_tasks) == ("1/4", (1, 4), 3)
    assert "All 1 Tasks are ready after 2 s; 3 more wait for their dependencies" in driver.said("GangReady")
    assert gang(driver) == (True, 1, 1, {"worker": 0, "ps": 1})
    driver.start()
    driver.go_on(6)
    world.plan.unready.clear()
    world.plan.ends |= {f"worker-{index}": ["stay"] for index in range(3)}
    driver.go_on(12)
    assert driver.said("WaitingForDependency") == [text], "a restart says it again"
    assert driver.said("DependenciesMet") == ["TaskRole worker begins: ps is Ready"]
    assert driver.condition("WaitingForDependency") == ("False", "NoTaskRoleWaits", "AttemptRunning")
    assert world.status.ready == "4/4"
    assert gang(driver) == (True, 4, 2, {"worker": 3, "ps": 1})


def test_a_gang_that_waits_names_only_those_who_have_begun() -> None:
    barrier = "pod: {metadata: {labels: {frameworkcontroller.microsoft.com/barrier: enabled}}, "
    driver = lived(DEPENDENT.replace("pod: {", barrier), 0)
    driver.world.frozen.add("fw-ps-0")
    driver.go_on(10)
    assert [one["task"] for one in known(driver.world.roster)["waitingFor"]] == ["ps-0"]


def test_a_framework_without_dependencies_has_nothing_of_them() -> None:
    driver = lived(WITHOUT, 10)
    assert b"dependenciesMet" not in known(driver.world.stored)
    assert driver.condition("WaitingForDependency") == ("", "", "")
    assert not any("ependenc" in event.reason + event.message for event in driver.events)


def test_the_end_of_an_attempt_ends_the_wait() -> None:
    driver = lived(PIPELINE, 15, 7)
    assert driver.world.status.state is S.COMPLETED
    assert driver.condition("WaitingForDependency")[0] == "False"


def test_a_dependency_may_be_added_before_the_framework_is_started() -> None:
    driver = lived("executionType: Create\n" + WITHOUT, 3, unready={"ps-0"})
    driver.edit_role(0, dependsOn=[{"name": "ps", "status": "Ready"}])
    driver.edit(executionType="Start")
    driver.go_on(10)
    assert set(driver.world.pods) == {"fw-ps-0"}
    assert driver.condition("Ready")[0] == "False", "the gang has one Task, and the Framework more"
