"""How many Pods are created at a time, what those that are refused cost, and that nobody waits for nothing."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, Effect, Failed, Outcome, Refused, WriteStatus
from frameworkcontroller.core.policies.backoff import (
    BYTES_A_MINUTE,
    DEBT_MINUTES,
    FIRST_BATCH,
    LEAST_BYTES,
    UNSENT_BYTES,
    Refusals,
    SlowStart,
    Spending,
)
from frameworkcontroller.core.policies.shares import Shares
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.task_pass import TASKS_IN_A_ROW
from tests.controller.core.driver import decided
from tests.controller.core.manual import Manual, bad_and_good
from tests.controller.core.scenarios.lives import tasks
from tests.controller.core.values import at, creation, known
from tests.support.memory import memory

# --- how many at a time ----------------------------------------------------------------------------------------------


def test_batches_double_while_all_goes_well() -> None:
    one, batches = SlowStart(lambda: 1.0), list[int]()
    for _ in range(4):
        batches.append(one.free(0, at(0)))
        for _ in range(batches[-1]):
            one.succeed(at(0))
    assert batches == [FIRST_BATCH * factor for factor in (1, 2, 4, 8)]
    assert [one.free(busy, at(0)) for busy in (500, 5000)] == [FIRST_BATCH * 16 - 500, 0]


def test_after_a_failure_one_creation_probes_later_and_later() -> None:
    one, now, pauses = SlowStart(lambda: 1.0), at(0), []
    for _ in range(8):
        # The second one is of the same batch.
        assert [one.fail("exceeded quota", now) for _ in range(2)] == [True, False]
        until = known(one.closed_until(now))
        pauses.append((until - now).total_seconds())
        assert (one.free(0, now), one.free(0, until), one.free(1, until)) == (0, 1, 0)
        now = until
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_after_a_probe_that_succeeds_batches_double_again() -> None:
    one = SlowStart(lambda: 1.0)
    one.fail("exceeded quota", at(0))
    one.succeed(at(0))
    assert one.free(0, at(1)) == 1, "a success of the failed batch"
    one.succeed(at(1))
    assert (one.message, one.free(0, at(1))) == ("", 2)
    one.fail("exceeded quota", at(2))
    assert one.closed_until(at(2)) == at(3), "the pauses begin at the shortest again"
    one.fail("busy", at(3), 60.0)
    assert one.closed_until(at(3)) == at(63), "the server asks for more"


# --- what refusals cost ----------------------------------------------------------------------------------------------


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


def spent(pods: int) -> Spending:
    """So many Pods of 3 MB were refused."""
    spending = Spending()
    for _ in range(pods):
        spending.pay(3_000_000, at(0))
    return spending


def test_an_edited_template_waits_too_while_others_have_spent_what_refused_pods_may_cost() -> None:
    """Three roles whose templates were edited each second sent 123 MiB a minute, where one other had a Pod."""
    refusals = Refusals(lambda: 0.5, spent(10))
    refusals.open("good", taken=True)
    refusals.refuse("bad", "no", at(0))
    refusals.open("bad", taken=False)
    assert (refusals.spent_until("good", at(0)), refusals.spent_until("bad", at(0))) == (None, at(11))
    refusals.open("bad", taken=True)
    assert refusals.spent_until("bad", at(0)) is None


@pytest.mark.parametrize(
    ("pods", "seconds"),
    [(9, None), (10, 6), (11, 12), (1000, 60 * DEBT_MINUTES - 54)],
    ids=["nine", "ten", "one more", "any number"],
)
def test_a_minute_pays_for_ten_of_the_largest_pods_and_a_namespace_is_closed_for_minutes_only(
    pods: int, seconds: int | None
) -> None:
    """It was closed for an hour, and the time grew with that of the attack."""
    spending = spent(pods)
    assert spending.until(at(0)) == (None if seconds is None else at(seconds))
    assert spending.until(at(seconds or 0)) is None
    spending.pay(3_000_000, at(seconds or 0))
    assert spending.until(at(seconds or 0)) == at((seconds or 0) + 6), "the next one is paid for in six seconds"


SMALL_PODS: dict[str, tuple[int, list[float], bool, float]] = {
    # 160 roles whose templates were edited ten times a second made 85 creations a second.
    "refused": (0, [*range(120)], True, pytest.approx(3 * BYTES_A_MINUTE / LEAST_BYTES, abs=12)),
    # 80 Frameworks of 9,999 such Tasks took two thirds of a core; gangs beside started in 0.48 s (0.13).
    "that can never be": (0, [0], False, BYTES_A_MINUTE / UNSENT_BYTES),
    "that can never be, half a minute later": (0, [0, 30], False, 1.5 * BYTES_A_MINUTE / UNSENT_BYTES),
    # After one of 3 MiB, 912 small ones were sent in each minute for ever.
    "a minute after a large one": (1, [60], True, BYTES_A_MINUTE / LEAST_BYTES),
}


@pytest.mark.parametrize(("large", "seconds", "sent", "number"), SMALL_PODS.values(), ids=SMALL_PODS)
def test_small_pods_cost_a_little(large: int, seconds: list[float], sent: bool, number: float) -> None:
    spending, asked = spent(large), 0
    for second in seconds:
        while spending.until(at(second)) is None:
            spending.pay(300, at(second), sent=sent)
            asked += 1
    assert asked == number


def test_the_frameworks_of_a_namespace_share_what_refused_pods_may_cost() -> None:
    spending = spent(9)
    refused, new, good = (InFlight(lambda: 0.5, Shares(spending)) for _ in range(3))
    assert new.free_creations(at(0)) == FIRST_BATCH
    spending.pay(3_000_000, at(0))
    refused.refusals.refuse("worker", "no", at(0))
    assert [refused.refusals.spent_until("worker", at(second)) for second in (0, 6)] == [at(11), None]
    good.slow_start.succeed(at(0))
    assert good.free_creations(at(0)) > FIRST_BATCH
    # One that has no Pod yet finds out with a single one.
    assert new.free_creations(at(0)) == 1
    new.start(creation())
    assert new.free_creations(at(0)) == 0
    assert new.free_creations(at(6)) == FIRST_BATCH - 1


def test_of_many_frameworks_that_wait_for_what_refused_pods_may_cost_one_begins() -> None:
    """Fifty of 64 roles each sent 3,200 Pods at one moment, before the first one of them was refused."""
    spending, begun, pod = spent(10), list[InFlight](), creation(size=1_000_000)
    waiting = [InFlight(lambda: 0.0, Shares(spending)) for _ in range(50)]
    for one in waiting:
        one.refusals.refuse("worker", "no", at(0))
    second = 1 + known(waiting[0].refusals.spent_until("worker", at(0))).second
    for one in waiting:
        if one.refusals.spent_until("worker", at(second)) is None:
            one.start(pod)
            begun.append(one)
    assert begun == waiting[:1]
    # Its answer makes room for the next one, and so does the end of a Framework whose answer nobody waits for.
    begun[0].finish(pod.key)
    for one in waiting[1:4]:
        assert one.refusals.spent_until("worker", at(second)) is None
        one.start(pod)
        assert one.refusals.spent_until("worker", at(second)) is not None
        one.leave()
        one.finish(pod.key)


def test_new_frameworks_of_a_namespace_try_one_after_the_other_while_all_is_spent() -> None:
    """A Framework that was deleted and created again had a try of its own: 123 MB a minute."""
    spending, tries = spent(20), []
    for second in range(60):
        new = InFlight(lambda: 0.5, Shares(spending))
        if new.free_creations(at(second)):
            new.note_creation("worker", at(second))
            tries.append(second)
        else:
            assert new.creations_until(at(second)) is not None
    assert len(tries) <= 1 + BYTES_A_MINUTE // 1_000_000


def test_a_role_of_which_some_pods_are_taken_and_others_refused_opens_by_a_probe_alone() -> None:
    """Each that was taken opened the window for all: 400 refused in 70 s, where 160 are promised."""
    refusals = Refusals(lambda: 0.5, spent(10))
    refusals.refuse("worker", "no", at(0))
    refusals.open("worker", taken=True)
    refusals.probe("worker", known(refusals.closed_until("worker", at(0))))
    refusals.open("worker", taken=True)
    assert refusals.window("worker") is None
    assert refusals.spent_until("worker", at(0)) is not None
    refusals.open("worker", taken=False)
    refusals.open("worker", taken=True)
    assert refusals.spent_until("worker", at(0)) is None, "it has another template"


# --- in the life of a Framework --------------------------------------------------------------------------------------

LARGE = "y" * 500_000


def refused(_effect: CreatePod) -> Outcome | None:
    return Refused(422, "no such field")


def over_quota(_effect: CreatePod) -> Outcome | None:
    return Failed('pods "fw-bad-0" is forbidden: exceeded quota')


def taken(_effect: CreatePod) -> Outcome | None:
    return None


class Server(Manual):
    """An API server, what becomes there of the creations of Pods of the role `bad`, and what is asked of it."""

    def __init__(
        self, becomes: Callable[[CreatePod], Outcome | None] = refused, *, tasks: int = 100, **spec: Any
    ) -> None:
        super().__init__(bad_and_good(tasks=tasks, **spec))
        self.world.plan.ends = {f"{role}-{index}": ["stay"] for role in ("good", "bad") for index in range(1000)}
        self.becomes, self.asked = becomes, list[CreatePod]()
        self.writes = 0

    @property
    def creations(self) -> int:
        return len(self.asked)

    def states(self, role: str = "") -> Counter[State]:
        """How many Tasks of roles whose names begin so are in which state."""
        return Counter(task.state for name, task in tasks(self.world).items() if name.startswith(role))

    def send(self, effect: Effect) -> Outcome:
        self.writes += isinstance(effect, WriteStatus)
        if not isinstance(effect, CreatePod) or not effect.role.startswith("bad"):
            return super().send(effect)
        outcome = self.becomes(effect) or super().send(effect)
        if not isinstance(outcome, Refused) or outcome.sent:
            self.asked.append(effect)
        return outcome


def test_a_gang_over_its_quota_sends_few_requests_and_events() -> None:
    gang = Server(over_quota, tasks=1000, good=0)
    gang.live(300)
    assert FIRST_BATCH < gang.creations < FIRST_BATCH + 30
    assert 0 < len(gang.said("FailedCreate")) < 30
    gang.becomes = taken
    gang.live(60)
    assert gang.world.status.ready == "1000/1000"
    assert gang.creations < FIRST_BATCH + 30 + 1000


def test_a_gang_that_waits_for_its_quota_can_be_stopped_and_asks_to_be_called_again() -> None:
    gang = Server(over_quota, tasks=1000, good=0)
    gang.live(30)
    tries = gang.creations
    gang.settle()
    assert known(gang.wake_at) - gang.world.now <= timedelta(seconds=30)
    gang.world.stop()
    gang.see()
    gang.live(10)
    assert gang.world.status.state is State.COMPLETED
    assert gang.creations <= tries + 1


def test_a_gang_within_its_quota_waits_for_nothing() -> None:
    gang = Server(taken, tasks=1000, good=0)
    gang.live(4)
    assert gang.creations == len(gang.world.pods) == 1000


def test_no_creation_waits_for_a_status_that_only_reports() -> None:
    """64 requests are answered each second, and no status write once there are Pods."""
    gang, waiting = Server(taken, tasks=1000, good=0), list[Effect]()
    for _ in range(8 + 1000 // FIRST_BATCH):
        waiting += gang.ask()
        now, waiting = waiting[:FIRST_BATCH], waiting[FIRST_BATCH:]
        for effect in now:
            if not (gang.creations and isinstance(effect, WriteStatus)):
                gang.answer(*gang.perform(effect))
        gang.second()
    assert gang.world.status.state is State.PREPARING
    assert [one.status.phase for one in gang.world.pods.values()] == ["Running"] * 1000


def test_pods_that_are_refused_again_and_again_are_asked_for_once_a_minute_until_one_is_taken() -> None:
    """Ten edits a second of its description made a Framework send 424 Pods a second, all of which were refused."""
    server = Server(retries=-2)
    server.live(120)
    assert server.creations < 64 + 15
    before = (server.creations, server.writes)
    server.live(600)
    assert server.creations - before[0] <= 21
    assert server.writes == before[1], "nothing has changed but the time"
    assert server.states("good") == {State.RUNNING: 2}
    before = (server.creations, server.writes)
    for number in range(20):
        server.edit(description=str(number))
        server.live(1)
    assert server.creations - before[0] <= 1
    server.becomes = taken
    server.live(100)
    assert server.states().keys() == {State.RUNNING}


def test_an_edit_of_the_template_ends_the_wait_at_once() -> None:
    server = Server(retries=-2)
    server.live(300)
    server.becomes = taken
    before = server.creations
    server.edit_task(0, pod={"spec": {"containers": [{"name": "good"}]}})
    server.live(5)
    assert server.creations - before == 100
    assert server.states().keys() == {State.RUNNING}


def test_a_refusal_for_another_reason_is_written_once_with_the_number_of_those_before() -> None:
    server = Server(retries=-2)
    server.live(300)
    refused = sum(task.retry_policy_status.total_retried_count for task in tasks(server.world).values())
    server.becomes = lambda effect: Refused(403, f"a webhook refuses fw-bad-{effect.index}")
    server.live(300)
    again = [task for task in tasks(server.world).values() if task.retry_policy_status.total_retried_count > refused]
    assert refused == len(again) == 1


NO_POD: dict[str, Any] = {"pod": "{spec: {containers: [{name: main, env: x}]}}", "becomes": taken}
ENDS: dict[str, tuple[dict[str, Any], int, int]] = {
    "one ends the attempt": ({"retries": 3}, 60, 4 * 64),
    "the others do not matter": ({"retries": 1, "failed": -1, "tasks": 70}, 400, 2 * 70),
    "their template can be no Pod": ({"retries": 3, "failed": -1, "tasks": 200, **NO_POD}, 60, 0),
}


@pytest.mark.parametrize(("life", "seconds", "most"), ENDS.values(), ids=ENDS)
def test_limited_retries_come_to_their_end(life: dict[str, Any], seconds: int, most: int) -> None:
    server = Server(**life)
    server.live(seconds)
    ends = {known(task.completion).code for name, task in tasks(server.world).items() if name.startswith("bad")}
    assert ends == ({-200} if "failed" in life else {-200, -220})
    assert server.creations <= most


def test_a_framework_that_is_retried_for_ever_asks_no_more_often() -> None:
    server = Server(retries=0, framework=-2, tasks=3)
    server.live(300)
    before = server.creations
    server.live(600)
    assert server.creations - before <= 3 * 22


def test_a_template_that_can_be_no_pod_costs_no_writes_although_its_tasks_are_retried() -> None:
    server = Server(retries=-2, **NO_POD)
    server.live(120)
    before = server.writes
    server.live(200)
    assert (server.creations, server.writes) == (0, before)
    assert any("pod spec.containers[0].env must be an array" in event.message for event in server.events)


def test_of_many_templates_few_are_kept() -> None:
    """255 roles of 1,700 empty containers, 1.4 MB in all, were prepared as Pods of 3 MiB each, and kept."""
    server = Server(retries=-2, tasks=1)
    role = server.world.spec["taskRoles"][0]
    template = {"pod": {"spec": {"containers": [{}] * 1700}}, "retryPolicy": {"maxRetryCount": -2}}
    server.edit(taskRoles=[role | {"name": f"r{number}", "task": template} for number in range(8)])
    server.caches.refresh()
    with memory() as used:
        server.live(3)
        assert used() < 12 * 1024 * 1024


def test_no_role_waits_behind_the_tasks_of_another_whose_pods_are_refused() -> None:
    """Behind 2,500 of them it took nine minutes: each pass looked at 64, and the next came when a window opened."""
    server, begun = Server(retries=-2, tasks=1000), None
    created: set[str] = set()
    for _ in range(100):
        effects = server.ask()
        for effect in effects:
            if isinstance(effect, CreatePod):
                begun = begun or server.world.now
                created.add(effect.role)
            server.answer_as_the_server(effect)
        if "good" in created:
            break
        if not effects:
            # As the engine: nothing comes by itself, and the pass has said when to come again.
            server.second()
            server.world.now = max(server.world.now, server.wake_at or server.world.now)
    assert (server.world.now - known(begun)).total_seconds() <= 3


@pytest.mark.parametrize("more", [{}, {"pod": {}}], ids=["a template", "an empty one, as that of a role that is gone"])
def test_the_window_of_a_role_that_was_removed_is_forgotten(more: dict[str, Any]) -> None:
    server = Server(retries=-2)
    server.edit_task(0, **more)
    server.live(30)
    assert server.reconciler._in_flight.refusals.window("bad") is not None
    server.edit(taskRoles=server.world.spec["taskRoles"][1:])
    server.live(5)
    assert server.reconciler._in_flight.refusals.window("bad") is None


def test_the_bytes_of_refused_pods_are_bounded_and_shared_by_the_roles_in_turn() -> None:
    """One Framework of many roles with large templates sent 30 MB/s."""
    server = Server(retries=-2, tasks=4, pod=f"{{metadata: {{annotations: {{x: {LARGE}}}}}, spec: {{}}}}")
    bad = server.world.spec["taskRoles"][0]
    server.world.spec["taskRoles"] += [bad | {"name": f"bad{number}"} for number in range(11)]
    server.live(60)
    first = server.creations
    for number in range(2):
        for place, role in enumerate(server.world.spec["taskRoles"]):
            if role["name"].startswith("bad"):
                annotations = {"x": str(number) + LARGE}
                server.edit_task(place, pod=role["task"]["pod"] | {"metadata": {"annotations": annotations}})
        server.live(60)
    # 10 MiB a minute, and what was in flight when they were spent.
    most = BYTES_A_MINUTE / 500_000
    assert first <= 2 * most + 9
    assert server.creations - first <= 2 * most + 9
    asked = Counter(effect.role for effect in server.asked)
    assert len(asked) == 12
    assert max(asked.values()) <= 3 * len(server.asked) / 12


def live_beside_spenders(server: Server, seconds: int = 5) -> None:
    """Others of the namespace spend all that refused Pods may cost, all the time."""
    for _ in range(seconds):
        spend(server)
        server.live(1)


def spend(server: Server) -> None:
    for _ in range(20):
        spending_of(server).pay(BYTES_A_MINUTE // 10, server.world.now)


def spending_of(server: Server) -> Spending:
    return server.reconciler._in_flight.refusals.spending


def test_while_creations_of_a_namespace_fail_a_new_framework_begins_with_one_pod() -> None:
    """Where a quota was full, each new Framework sent 64."""
    server = Server(taken, tasks=50)
    spending_of(server).note_failure(server.world.now)
    first = server.work_until(CreatePod)
    assert CreatePod not in map(type, server.ask())
    server.answer_as_the_server(first)
    assert len([one for one in server.ask() if isinstance(one, CreatePod)]) == 51


def test_pods_that_are_refused_after_their_framework_has_gone_cost_as_much() -> None:
    """Frameworks that were deleted as soon as they were seen sent 300 MB in 15 s."""
    server = Server(retries=-2, tasks=1)
    spending = spending_of(server)
    sent = server.work_until(CreatePod)
    for has_gone in (False, True):
        server.reconciler.count_late(sent, Refused(422, "invalid"), server.now)
        assert spending.owes(server.world.now) is has_gone, "its outcome comes only while it is there"
        server.reconciler.leave()


def test_a_role_whose_pods_are_taken_does_not_wait_for_what_refused_ones_may_cost() -> None:
    """While other Frameworks of the namespace spent it, a role was not scaled up for the refusals of another one."""
    server, number = Server(retries=-2, tasks=1), 50
    server.live(20)
    server.edit_role(1, taskNumber=number)
    live_beside_spenders(server)
    assert server.states("good") == {State.RUNNING: number}
    # One that nobody knows may be refused as well.
    server.edit_task(1, pod={"spec": {"containers": [{"name": "other"}]}})
    server.edit_role(1, taskNumber=number + 1)
    live_beside_spenders(server)
    assert tasks(server.world)[f"good-{number}"].state is State.CREATION_PENDING


def test_one_pod_of_a_template_that_nobody_knows_is_tried_while_all_is_spent() -> None:
    """A Framework with one good Pod had 64 others refused at once, and so had the next one of its name."""
    server, number = Server(retries=-2, tasks=0), 50
    server.edit_role(1, taskNumber=number)
    live_beside_spenders(server)
    assert server.states("good") == {State.RUNNING: number}
    server.edit_role(0, taskNumber=number)
    live_beside_spenders(server)
    assert server.creations == 1


def test_tasks_that_wait_are_looked_at_in_turns_and_none_that_edits_have_renamed() -> None:
    """While others had spent what refused Pods may cost, each edit left the keys of as many Tasks as it named anew.

    After five minutes there were 580,000, and all were looked at in one turn of 2.7 s.
    """
    server, number = Server(retries=-2), 300
    server.live(5)
    waiting = server.reconciler._tasks
    for edit in range(5):
        spend(server)
        server.edit_role(0, name=f"bad{edit}", taskNumber=number)
        server.live(2)
    server.live(2)
    assert len(waiting._unpaid) == number
    server.second(200)
    server.turn()
    held = len(waiting._held)
    assert held > number / 2
    spend(server)
    _, pauses = decided(server.steps())
    assert pauses >= held // TASKS_IN_A_ROW
