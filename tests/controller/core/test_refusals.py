"""Pods that are refused for good, of Tasks that are retried: what they cost, and that nobody waits for nothing."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, Refused, WriteStatus
from frameworkcontroller.core.policies.backoff import (
    BYTES_A_MINUTE,
    DEBT_MINUTES,
    FIRST_BATCH,
    LEAST_BYTES,
    UNSENT_BYTES,
    Refusals,
    Spending,
)
from frameworkcontroller.core.reconcile.in_flight import InFlight
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios import tasks
from tests.controller.core.values import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.core.pods.template import PodSource

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
        self.asked: list[CreatePod] = []
        self.writes = 0

    @property
    def creations(self) -> int:
        return len(self.asked)

    def states(self, role: str = "") -> Counter[State]:
        """How many Tasks of roles whose names begin so are in which state."""
        return Counter(task.state for name, task in tasks(self.world).items() if name.startswith(role))

    def bad_codes(self) -> set[int | None]:
        """How the Tasks of the role have ended."""
        ends = (task.completion for name, task in tasks(self.world).items() if name.startswith("bad"))
        return {end and end.code for end in ends}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            # What the controller asks for within a second, however often it asks.
            for _ in range(20):
                effects = self.ask()
                for effect in effects:
                    is_bad = isinstance(effect, CreatePod) and effect.role.startswith("bad")
                    self.writes += isinstance(effect, WriteStatus)
                    outcome = (self.refuses(effect) if is_bad else None) or self.send(effect)
                    if is_bad and (not isinstance(outcome, Refused) or outcome.sent):
                        self.asked.append(effect)
                    self.answer(effect, outcome)
                if not effects:
                    break
            self.second()


def test_pods_that_are_refused_again_and_again_are_asked_for_once_a_minute_until_one_is_taken() -> None:
    """Ten edits a second of its description made a Framework send 424 Pods a second, all of which were refused."""
    server = Server(-2)
    server.run(120)
    assert server.creations < 64 + 15
    before = (server.creations, server.writes)
    server.run(600)
    assert server.creations - before[0] <= 21
    assert server.writes == before[1], "nothing has changed but the time"
    assert server.states("good") == {State.RUNNING: 2}
    before = (server.creations, server.writes)
    for number in range(20):
        server.world.spec["description"] = str(number)
        server.world.edited()
        server.run(1)
    assert server.creations - before[0] <= 1
    server.refuses = lambda _effect: None
    server.run(100)
    assert server.states().keys() == {State.RUNNING}


def test_an_edit_of_the_template_ends_the_wait_at_once() -> None:
    server = Server(-2)
    server.run(300)
    server.refuses = lambda _effect: None
    before = server.creations
    server.world.spec["taskRoles"][0]["task"]["pod"]["metadata"]["annotations"] = {"x": "good"}
    server.world.edited()
    server.run(5)
    assert server.creations - before == 100
    assert server.states().keys() == {State.RUNNING}


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
    assert server.world.status.completion.code == -200
    assert server.creations < 4 * 64


def test_all_tasks_come_to_their_end_where_the_others_do_not_matter() -> None:
    server = Server(1, failed=-1, tasks=70)
    server.run(400)
    assert server.bad_codes() == {-200}
    assert server.creations == 2 * 70


def test_a_framework_that_is_retried_for_ever_asks_no_more_often() -> None:
    server = Server(0, framework=-2, tasks=3)
    server.run(300)
    before = server.creations
    server.run(600)
    assert server.creations - before <= 3 * 22


def test_a_template_that_can_be_no_pod_costs_no_writes_although_its_tasks_are_retried() -> None:
    server = Server(-2, annotations="x: " + "y" * 3 * 1024 * 1024)
    server.refuses = lambda _effect: None
    server.run(120)
    before = server.writes
    server.run(200)
    assert (server.creations, server.writes) == (0, before)
    assert any("each Pod of TaskRole bad would have at least 31" in event.message for event in server.events)


def test_tasks_whose_template_can_be_no_pod_end_together_if_their_retries_have_an_end() -> None:
    server = Server(3, failed=-1, tasks=200, annotations="x: " + "y" * 3 * 1024 * 1024)
    server.refuses = lambda _effect: None
    server.run(60)
    assert server.bad_codes() == {-200}


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
    refusals, probes = Refusals(lambda: 1.0, Spending()), 0
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
    refusals = Refusals(lambda: 1.0, Spending())
    for number in range(64):
        window = refusals.refuse("worker", f"no {number}" if news else "no", at(0))
    assert (window.failures, window.until) == (1, at(1))


def test_no_role_waits_behind_the_tasks_of_another_whose_pods_are_refused() -> None:
    """Behind 2,500 of them it took nine minutes: each pass looked at 64, and the next came when a window opened."""
    server, begun = Server(-2, tasks=1000), None
    created: set[str] = set()
    for _ in range(100):
        effects = server.ask()
        for effect in effects:
            if isinstance(effect, CreatePod):
                begun = begun or server.world.now
                created.add(effect.role)
            is_bad = isinstance(effect, CreatePod) and effect.role == "bad"
            answer = Refused(422, "no such field") if is_bad else server.send(effect)
            server.answer(effect, answer)
        if "good" in created:
            break
        if not effects:
            # As the engine: nothing comes by itself, and the pass has said when to come again.
            server.second()
            if server.wake_at is not None:
                server.world.now = max(server.world.now, server.wake_at)
    assert begun is not None
    assert (server.world.now - begun).total_seconds() <= 3


@pytest.mark.parametrize("more", [{}, {"pod": {}}], ids=["a template", "an empty one, as that of a role that is gone"])
def test_the_window_of_a_role_that_was_removed_is_forgotten(more: dict[str, Any]) -> None:
    server = Server(-2)
    server.world.spec["taskRoles"][0]["task"] |= more
    server.run(30)
    assert server.reconciler._in_flight.refusals.window("bad") is not None
    server.world.spec["taskRoles"] = server.world.spec["taskRoles"][1:]
    server.world.edited()
    server.run(5)
    assert server.reconciler._in_flight.refusals.window("bad") is None


def test_the_bytes_of_refused_pods_are_bounded_and_shared_by_the_roles_in_turn() -> None:
    """One Framework of many roles with large templates sent 30 MB/s."""
    server = Server(-2, tasks=4, annotations="x: " + "y" * 500_000)
    bad = server.world.spec["taskRoles"][0]
    server.world.spec["taskRoles"] += [bad | {"name": f"bad{number}"} for number in range(11)]
    server.run(60)
    first = server.creations
    for number in range(4):
        server.world.edited()
        for role in server.world.spec["taskRoles"]:
            if role["name"].startswith("bad"):
                role["task"] = json.loads(json.dumps(role["task"]))
                role["task"]["pod"]["metadata"]["annotations"]["x"] = f"{number}" + "y" * 500_000
        server.run(60)
    # 10 MiB a minute, and what was in flight when they were spent.
    most = BYTES_A_MINUTE / 500_000
    assert first <= 2 * most + 9
    assert server.creations - first <= 4 * most + 9
    asked = Counter(effect.role for effect in server.asked)
    assert len(asked) == 12
    assert max(asked.values()) <= 2 * len(server.asked) / 12


def test_a_role_whose_pods_are_taken_does_not_wait_for_what_refused_ones_may_cost() -> None:
    """While other Frameworks of the namespace spent it, a role was not scaled up for the refusals of another one."""
    server, number = Server(-2, tasks=1), 50
    server.world.plan.ends = {f"good-{index}": ["stay"] for index in range(number)}
    server.run(20)
    spending, good = server.reconciler._in_flight.refusals.spending, server.world.spec["taskRoles"][1]
    while spending.until(server.world.now) is None:
        spending.pay(BYTES_A_MINUTE // 10, server.world.now)
    good["taskNumber"] = number
    server.world.edited()
    for _ in range(5):
        spending.pay(BYTES_A_MINUTE // 10, server.world.now)
        server.run(1)
    assert server.states("good") == {State.RUNNING: number}
    # One that nobody knows may be refused as well.
    good["task"] = json.loads(json.dumps(good["task"])) | {"pod": {"spec": {"containers": [{"name": "other"}]}}}
    good["taskNumber"] = number + 1
    server.world.edited()
    for _ in range(5):
        spending.pay(BYTES_A_MINUTE // 10, server.world.now)
        server.run(1)
    assert tasks(server.world)[f"good-{number}"].state is State.CREATION_PENDING


def test_an_edited_template_waits_too_while_others_have_spent_what_refused_pods_may_cost() -> None:
    """Three roles whose templates were edited each second sent 123 MiB a minute, where one other had a Pod."""
    spending = Spending()
    refusals = Refusals(lambda: 0.5, spending)
    refusals.open("good", taken=True)
    refusals.refuse("bad", "no", at(0))
    for _ in range(10):
        spending.pay(3_000_000, at(0))
    refusals.open("bad", taken=False)
    assert (refusals.spent_until("good", at(0)), refusals.spent_until("bad", at(0))) == (None, at(6))
    refusals.open("bad", taken=True)
    assert refusals.spent_until("bad", at(0)) is None


def test_what_was_sent_before_it_was_refused_closes_a_namespace_for_minutes_only() -> None:
    """It was closed for an hour, and the time grew with that of the attack."""
    spending = Spending()
    for _ in range(1000):
        spending.pay(3_000_000, at(0))
    assert spending.until(at(0)) == at(60 * DEBT_MINUTES - 54)


def small_pods(spending: Spending, seconds: float, *, sent: bool = True) -> int:
    """So many may be asked for then."""
    number = 0
    while spending.until(at(seconds)) is None:
        spending.pay(300, at(seconds), sent=sent)
        number += 1
    return number


def test_small_pods_that_are_refused_count_too() -> None:
    """160 roles whose templates were edited ten times a second made 85 creations a second."""
    spending = Spending()
    sent = sum(small_pods(spending, second) for second in range(120))
    assert sent == pytest.approx(3 * BYTES_A_MINUTE / LEAST_BYTES, abs=12)


def test_pods_that_can_never_be_cost_a_little() -> None:
    """80 Frameworks of 9,999 such Tasks took two thirds of a core; gangs beside started in 0.48 s (0.13)."""
    spending = Spending()
    assert small_pods(spending, 0, sent=False) == BYTES_A_MINUTE / UNSENT_BYTES
    assert small_pods(spending, 30, sent=False) == BYTES_A_MINUTE / UNSENT_BYTES / 2


def test_a_large_pod_that_is_paid_for_gives_small_ones_no_more_of_a_minute() -> None:
    """After one of 3 MiB, 912 small ones were sent in each minute for ever."""
    spending = Spending()
    spending.pay(3 * 1024 * 1024, at(0))
    assert small_pods(spending, 60) == BYTES_A_MINUTE / LEAST_BYTES


def test_one_minute_pays_for_ten_of_the_largest_pods() -> None:
    spending = Spending()
    for number in range(10):
        assert spending.until(at(0)) is None, number
        spending.pay(3_000_000, at(0))
    assert spending.until(at(0)) == at(6)
    assert spending.until(at(6)) is None
    spending.pay(3_000_000, at(6))
    assert spending.until(at(6)) == at(12)
    assert spending.until(at(3600)) is None


def test_the_frameworks_of_a_namespace_share_what_refused_pods_may_cost() -> None:
    spending = Spending()
    refused, new, good = (InFlight(lambda: 0.5, spending) for _ in range(3))
    assert new.free_creations(at(0)) == FIRST_BATCH
    for _ in range(10):
        spending.pay(3_000_000, at(0))
    refused.refusals.refuse("worker", "no", at(0))
    assert [refused.refusals.spent_until("worker", at(second)) for second in (0, 6)] == [at(6), None]
    good.slow_start.succeed(at(0))
    assert good.free_creations(at(0)) > FIRST_BATCH
    # One that has no Pod yet finds out with a single one.
    assert new.free_creations(at(0)) == 1
    new.start(CreatePod("worker", 0, "uid", 0, cast("PodSource", SimpleNamespace(size=0))))
    assert new.free_creations(at(0)) == 0
    assert new.free_creations(at(6)) == FIRST_BATCH - 1


def test_new_frameworks_of_a_namespace_try_one_after_the_other_while_all_is_spent() -> None:
    """A Framework that was deleted and created again had a try of its own: 123 MB a minute."""
    spending = Spending()
    for _ in range(20):
        spending.pay(3_000_000, at(0))
    tries = []
    for second in range(60):
        new = InFlight(lambda: 0.5, spending)
        if new.free_creations(at(second)):
            new.note_creation("worker", at(second))
            tries.append(second)
        else:
            assert new.creations_until(at(second)) is not None
    assert len(tries) <= 1 + BYTES_A_MINUTE // 1_000_000


def test_a_role_of_which_some_pods_are_taken_and_others_refused_opens_by_a_probe_alone() -> None:
    """Each that was taken opened the window for all: 400 refused in 70 s, where 160 are promised."""
    spending = Spending()
    refusals = Refusals(lambda: 0.5, spending)
    refusals.refuse("worker", "no", at(0))
    refusals.open("worker", taken=True)
    until = refusals.closed_until("worker", at(0))
    assert until is not None
    refusals.probe("worker", until)
    refusals.open("worker", taken=True)
    assert refusals.window("worker") is None
    while spending.until(at(0)) is None:
        spending.pay(3_000_000, at(0))
    assert refusals.spent_until("worker", at(0)) is not None
    refusals.open("worker", taken=False)
    refusals.open("worker", taken=True)
    assert refusals.spent_until("worker", at(0)) is None, "it has another template"
