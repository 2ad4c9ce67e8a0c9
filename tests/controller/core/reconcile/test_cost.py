"""An event about one Pod costs as much among hundreds of Tasks as among few (docs/decisions/status-writes.md).

It is counted in calls of Python functions, so that neither the machine nor the time decides.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.workload import QUEUE_LABEL
from frameworkcontroller.core.effects import CreateConfigMap, CreatePod, Done, WriteStatus
from frameworkcontroller.core.queue.admission import additions_of
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.core.reconcile.task_pass import TASKS_IN_A_ROW
from tests.controller.core.checks import gang_ready_of
from tests.controller.core.driver import decided
from tests.controller.core.manual import POD, Manual, of_roles
from tests.controller.core.values import core_config, moment
from tests.controller.core.world import Plan
from tests.support.memory import memory


class Seen:
    """A Framework in the caches, whose ConfigMap nobody has created."""

    workload = group = node_labels = pod = config_map = staticmethod(lambda *_names: None)
    unknown = staticmethod(lambda _what: "")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.shows(5)

    def shows(self, version: int, written: WriteStatus | None = None) -> None:
        """The watch has the next state, in bytes of its own."""
        body = msgspec.json.decode(self._body)
        body["metadata"]["resourceVersion"] = str(version)
        body["status"] = None if written is None else msgspec.json.decode(msgspec.json.encode(written.status))
        # A copy is as large as what it holds; the encoder's buffer is larger.
        self.framework = FRAMEWORK_DECODER.decode(bytes(bytearray(msgspec.json.encode(body))))


MIB = 1 << 20


def calls(function: Callable[[], object]) -> int:
    """Return how many functions of the controller the call of this one calls, generators that go on included."""
    count = 0

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_globals.get("__name__", "").startswith("frameworkcontroller.")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def running(tasks: int, pod: str = POD, **plan: Any) -> Manual:
    """A Framework whose Tasks run, all of which is persisted."""
    manual = Manual(of_roles(pod, worker=tasks))
    manual.world.plan = Plan({f"worker-{index}": ["stay"] for index in range(tasks)}, **plan)
    manual.at_rest()
    return manual


def scaled_down(tasks: int) -> Manual:
    """A Framework half of whose Tasks are on their way out, which is persisted."""
    manual = running(tasks)
    manual.edit_role(0, taskNumber=tasks // 2)
    manual.caches.refresh()
    manual.turn()
    manual.ask()
    return manual


def gathering(tasks: int) -> Manual:
    """A gang one Task of which finds no node, after it was reported."""
    barrier = "{metadata: {labels: {frameworkcontroller.microsoft.com/barrier: enabled}}, "
    manual = running(tasks, POD.replace("{", barrier, 1), no_node={f"worker-{tasks - 1}": 9999})
    assert manual.reconciler.gang is not None
    assert gang_ready_of(manual.world.status) is not None
    return manual


def cost_of_an_event(manual: Manual, pod: str = "fw-worker-0") -> int:
    """Return the cost of an event about a Pod that changes nothing."""
    manual.is_checked = False

    def event() -> None:
        manual.touch_pods(pod)
        manual.ask()

    event()
    return calls(event)


@pytest.mark.parametrize("phase", [running, scaled_down, gathering])
def test_an_event_costs_the_same_among_few_and_many_tasks(phase: Callable[[int], Manual]) -> None:
    assert cost_of_an_event(phase(400)) == cost_of_an_event(phase(20))


@pytest.mark.parametrize(("shape", "each"), [("plain", 0), ("none", 20)])
def test_an_event_costs_the_same_among_few_and_many_roles(shape: str, each: int) -> None:
    """A gang that restarts in place counts its members, role by role."""

    def cost(number: int) -> int:
        manual = waiting_roles(number, shape)
        manual.at_rest()
        return cost_of_an_event(manual, "fw-r0-0")

    assert cost(200) <= cost(10) + each * 190


def waiting_roles(number: int, shape: str) -> Manual:
    """A Framework of many roles, most of which wait for others by `dependsOn`, or whose gang restarts in place."""
    needs: dict[str, Callable[[int], list[int]]] = {
        "plain": lambda _place: [],
        "none": lambda _place: [],
        "chain": lambda place: [place - 1] if place else [],
        "circle": lambda place: [(place + 1) % number],
        "star": lambda place: [0] if place else [],
        # Each of the second half waits for each of the first ten: as many dependencies as fit grow with the roles.
        "bipartite": lambda place: list(range(10)) if place >= 10 else [],
    }
    manual = Manual(of_roles(worker=1))
    template = manual.world.spec["taskRoles"][0]["task"]
    if shape == "none":
        template["pod"]["metadata"] = {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {"barrier.frameworkcontroller.microsoft.com/restart": "in-place"},
        }
    manual.world.spec["taskRoles"] = [
        {
            "name": f"r{place}",
            "taskNumber": 1,
            "task": template,
            "dependsOn": [{"name": f"r{other}", "status": "Complete"} for other in needs[shape](place)],
        }
        for place in range(number)
    ]
    manual.world.plan.ends.update({f"r{place}-0": ["stay"] for place in range(number)})
    manual.world.edited()
    manual.caches.refresh()
    return manual


def cost_of_a_start(manual: Manual) -> int:
    """Return the cost of the first passes, until the Pods of the roles that do not wait are asked for."""

    def start() -> None:
        for _ in range(4):
            for effect in manual.ask():
                if len(effect.key) == 1:
                    manual.answer_as_the_server(effect)
            manual.caches.refresh()

    return calls(start)


@pytest.mark.parametrize("shape", ["none", "chain", "circle", "star", "bipartite"])
def test_passes_cost_as_much_for_each_of_many_roles_as_of_few(shape: str) -> None:
    few, many = (cost_of_a_start(waiting_roles(number, shape)) for number in (60, 300))
    assert many < 5 * 1.3 * few


@pytest.mark.parametrize("part", ["description", "annotation", "template", "beside Kueue"])
def test_a_framework_with_nothing_running_is_kept_once(part: str) -> None:
    """Whatever a user writes into it, however often its status has been written since: 3 times its size before."""
    size, manual = 400_000, Manual(of_roles(worker=1))
    manual.world.spec["executionType"] = "Start" if part == "beside Kueue" else "Create"
    if part in {"description", "beside Kueue"}:
        manual.world.spec["description"] = "x" * size
    elif part == "annotation":
        manual.world.manifest["metadata"]["annotations"] = {"x": "x" * size}
    else:
        manual.world.spec["taskRoles"][0]["task"]["pod"]["metadata"] = {"annotations": {"x": "x" * size}}
    manual.world.edited()
    body = msgspec.json.encode(manual.world.manifest)
    del manual
    with memory() as used:
        view = Seen(body)
        config = core_config(kueue=part == "beside Kueue")
        reconciler = FrameworkReconciler(view.framework, config, new_uid=lambda: "uid", draw=lambda: 0.5)
        for version in range(6, 12):
            for effect in decided(reconciler.steps(moment(version), view))[0].effects:
                if isinstance(effect, WriteStatus):
                    reconciler.apply_outcome(effect, Done(resource_version=str(version)), moment(version))
                    view.shows(version, effect)
                elif isinstance(effect, CreateConfigMap):
                    reconciler.apply_outcome(effect, Done("uid", "5"), moment(version))
            effect = None
        assert used() < 1.5 * size


@pytest.mark.parametrize("label", ["worker", "mine"])
def test_what_an_admission_adds_is_worked_out_once_however_often_its_workload_changes(
    label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template with a mebibyte of labels took 40 ms at each annotation that somebody gave to the Workload."""
    made = Mock(wraps=additions_of)
    monkeypatch.setattr("frameworkcontroller.core.reconcile.queue_pass.additions_of", made)
    pod = f"{{metadata: {{labels: {{kueue.x-k8s.io/podset: {label}}}}}, spec: {{containers: [{{name: main}}]}}}}"
    manual = Manual(of_roles(pod, worker=2), core_config(kueue=True))
    manual.world.manifest["metadata"]["labels"] = {QUEUE_LABEL: "main"}
    manual.world.edited()
    world = manual.world
    for _ in range(20):
        world.kueue.live()
        manual.live(1)
        if made.called:
            break
    for _ in range(10):
        assert world.kueue.document is not None
        world.kueue._change()
        manual.caches.refresh()
        manual.see()
        manual.ask()
    made.assert_called_once()


def test_a_pass_over_many_tasks_makes_pauses_and_decides_the_same() -> None:
    in_steps, at_once = waiting_pods(300), waiting_pods(300)
    decision, pauses = decided(in_steps.steps())
    # One for each Task, and one for its role, as the status is read, and one for each in the ledger.
    assert pauses == 301 + 300 + 300 // TASKS_IN_A_ROW
    assert [effect.key for effect in decision.effects] == [effect.key for effect in at_once.ask()]


def test_the_end_of_an_attempt_of_many_tasks_makes_pauses_where_it_becomes_theirs() -> None:
    manual = running(300)
    manual.edit(executionType="Stop")
    manual.caches.refresh()
    _, pauses = decided(manual.steps())
    assert pauses == 2 * (300 // TASKS_IN_A_ROW)


def waiting_pods(tasks: int) -> Manual:
    """A Framework whose ConfigMap is there, and whose Pods are to be created."""
    manual = Manual(of_roles(worker=tasks))
    first = manual.work_until(CreatePod)
    assert isinstance(first, CreatePod)
    manual.reload()
    manual.caches.refresh()
    return manual


def test_creations_that_wait_keep_one_template_and_no_version_of_their_framework() -> None:
    """Each kept all bytes of its own: 1.4 MB, from as many edits of a label."""
    with memory() as used:
        manual, wanted = waiting_pods(200), list[CreatePod]()
        before = used()
        for text in ("x" * MIB, ""):
            manual.edit(description=text)
            manual.see()
            asked = [effect for effect in manual.ask() if isinstance(effect, CreatePod)]
            wanted += asked
            for effect in asked[1:]:
                manual.answer_as_the_server(effect)
        manual.see()
        assert len({id(effect.source) for effect in wanted}) == 1
        assert used() - before < MIB / 2
