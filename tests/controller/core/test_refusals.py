"""Pods that are refused for good, of Tasks that are retried: what they cost, and that nobody waits for nothing."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, Refused, WriteStatus
from frameworkcontroller.core.slowstart import Refusals
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios import tasks
from tests.controller.core.values import at

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = """
retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {framework}}}
taskRoles:
- name: bad
  taskNumber: {tasks}
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: {failed}, minSucceededTaskCount: -1}}
  task:
    retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {retries}}}
    pod: {{metadata: {{annotations: {{{annotations}}}}}, spec: {{containers: [{{name: main}}]}}}}
- name: good
  taskNumber: 2
  task: {{pod: {{spec: {{containers: [{{name: main}}]}}}}}}
"""


class Server(Manual):
    """An API server that refuses the Pods of a role for good, and what is asked of it."""

    def __init__(
        self, retries: int, *, tasks: int = 100, framework: int = 0, failed: int = 1, annotations: str = ""
    ) -> None:
        spec = SPEC.format(retries=retries, tasks=tasks, framework=framework, failed=failed, annotations=annotations)
        super().__init__(spec)
        self.world.plan.ends = {"good-0": ["stay"], "good-1": ["stay"]}
        self.refuses: Callable[[CreatePod], Refused | None] = lambda _effect: Refused(422, "no such field")
        self.creations = self.writes = 0

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            # What the controller asks for within a second, however often it asks.
            for _ in range(20):
                effects = self.ask()
                for effect in effects:
                    refusal = None
                    if isinstance(effect, CreatePod) and effect.role == "bad":
                        self.creations += 1
                        refusal = self.refuses(effect)
                    self.writes += isinstance(effect, WriteStatus)
                    self.answer(effect, refusal or self.send(effect))
                if not effects:
                    break
            self.second()


def test_pods_that_are_refused_again_and_again_are_asked_for_once_a_minute_in_the_end() -> None:
    server = Server(-2)
    server.run(120)
    assert server.creations < 64 + 15
    before = (server.creations, server.writes)
    server.run(600)
    assert server.creations - before[0] <= 21
    assert server.writes == before[1], "nothing has changed but the time"
    assert tasks(server.world)["good-1"].state is State.RUNNING


def test_an_edit_of_the_spec_ends_the_wait_at_once() -> None:
    server = Server(-2)
    server.run(300)
    server.refuses = lambda _effect: None
    before = server.creations
    server.world.spec["taskRoles"][0]["task"]["pod"]["metadata"]["annotations"] = {"x": "good"}
    server.world.edited()
    server.run(5)
    assert server.creations - before == 100
    assert {task.state for task in tasks(server.world).values()} == {State.RUNNING}


def test_once_a_pod_is_taken_all_are_created() -> None:
    server = Server(-2)
    server.run(300)
    server.refuses = lambda _effect: None
    server.run(100)
    assert {task.state for task in tasks(server.world).values()} == {State.RUNNING}


def test_a_refusal_for_another_reason_is_written_once_with_the_number_of_those_before() -> None:
    server = Server(-2)
    server.run(300)
    refused = sum(task.retry_policy_status.total_retried_count for task in tasks(server.world).values())
    server.refuses = lambda effect: Refused(403, f"a webhook refuses fw-bad-{effect.index}")
    server.run(300)
    again = [task for task in tasks(server.world).values() if task.retry_policy_status.total_retried_count > refused]
    assert refused == len(again) == 1


def test_limited_retries_come_to_their_end() -> None:
    server = Server(3)
    server.run(60)
    end = server.world.status.completion
    assert end is not None
    assert end.code == -200
    assert server.creations < 4 * 64


def test_all_tasks_come_to_their_end_where_the_others_do_not_matter() -> None:
    server = Server(1, failed=-1, tasks=70)
    server.run(400)
    ends = [task.completion for name, task in tasks(server.world).items() if name.startswith("bad")]
    assert all(end is not None and end.code == -200 for end in ends)
    assert server.creations == 2 * 70


def test_a_framework_that_is_retried_for_ever_asks_no_more_often() -> None:
    server = Server(0, framework=-2, tasks=3)
    server.run(300)
    before = server.creations
    server.run(600)
    assert server.creations - before <= 3 * 22


def test_a_template_that_can_be_no_pod_costs_no_writes_although_its_tasks_are_retried() -> None:
    server = Server(-2, annotations="x: " + "y" * 3 * 1024 * 1024)
    server.run(120)
    before = server.writes
    server.run(600)
    assert (server.creations, server.writes) == (0, before)
    assert any("each Pod of TaskRole bad would have at least 31" in event.message for event in server.events)


def test_tasks_whose_template_can_be_no_pod_end_together_if_their_retries_have_an_end() -> None:
    server = Server(3, failed=-1, tasks=200, annotations="x: " + "y" * 3 * 1024 * 1024)
    server.run(20)
    ends = [task.completion for name, task in tasks(server.world).items() if name.startswith("bad")]
    assert all(end is not None and end.code == -200 for end in ends)


def test_of_many_templates_few_are_kept() -> None:
    """255 roles of 1,700 empty containers, 1.4 MB in all, were prepared as Pods of 3 MiB each, and kept."""
    server = Server(-2, tasks=1)
    role = server.world.spec["taskRoles"][0]
    template = {"pod": {"spec": {"containers": [{}] * 1700}}, "retryPolicy": {"maxRetryCount": -2}}
    server.world.spec["taskRoles"] = [role | {"name": f"r{number}", "task": template} for number in range(8)]
    server.world.edited()
    server.caches.refresh()
    tracemalloc.start()
    try:
        server.run(3)
        assert tracemalloc.get_traced_memory()[0] < 12 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_of_many_roles_that_are_refused_one_is_probed_each_second() -> None:
    refusals, now, probes = Refusals(lambda: 1.0), 0, 0
    roles = [f"r{number}" for number in range(150)]
    for role in roles:
        refusals.refuse(role, "no", at(0))
    for now in range(1, 5000):
        for role in roles:
            if refusals.closed_until(role, at(now)) is None:
                refusals.probe(role, at(now))
                refusals.refuse(role, "no", at(now))
                probes += now > 3000
    assert probes <= 2000 * 1.1


@pytest.mark.parametrize("news", [False, True])
def test_refusals_of_one_batch_count_once(news: bool) -> None:
    refusals = Refusals(lambda: 1.0)
    for number in itertools.islice(itertools.count(), 64):
        window = refusals.refuse("worker", f"no {number}" if news else "no", at(0))
    assert (window.failures, window.until) == (1, at(1))
