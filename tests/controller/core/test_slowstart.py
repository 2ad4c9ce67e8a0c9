"""How many Pods are created at a time, while all goes well and while they are refused."""

from __future__ import annotations

from datetime import timedelta

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, Effect, Failed, Outcome, WriteStatus
from frameworkcontroller.core.policies.backoff import FIRST_BATCH, SlowStart
from tests.controller.core.driver import Driver
from tests.controller.core.values import at
from tests.controller.core.world import Plan, World, framework_of

QUOTA = Failed('pods "fw-worker-0" is forbidden: exceeded quota')
TASKS = 1000
SPEC = (
    f"{{taskRoles: [{{name: worker, taskNumber: {TASKS}, task: {{pod: {{spec: {{containers: [{{name: main}}]}}}}}}}}]}}"
)


def test_batches_double_while_all_goes_well() -> None:
    one = SlowStart(lambda: 1.0)
    batches = []
    for _ in range(4):
        batches.append(one.free(0, at(0)))
        for _ in range(batches[-1]):
            one.succeed(at(0))
    assert batches == [FIRST_BATCH * factor for factor in (1, 2, 4, 8)]
    assert one.free(500, at(0)) == FIRST_BATCH * 16 - 500
    assert one.free(5000, at(0)) == 0


def test_after_a_failure_one_creation_probes_later_and_later() -> None:
    one, now, pauses = SlowStart(lambda: 1.0), at(0), []
    for _ in range(8):
        assert one.fail(QUOTA.message, now)
        assert not one.fail(QUOTA.message, now), "one more of the same batch"
        until = one.closed_until(now)
        assert until is not None
        assert one.free(0, now) == 0
        pauses.append((until - now).total_seconds())
        now = until
        assert one.free(0, now) == 1
        assert one.free(1, now) == 0
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_after_a_probe_that_succeeds_batches_double_again() -> None:
    one = SlowStart(lambda: 1.0)
    one.fail(QUOTA.message, at(0))
    one.succeed(at(0))
    assert one.free(0, at(1)) == 1, "a success of the failed batch"
    one.succeed(at(1))
    assert one.message == ""
    assert one.free(0, at(1)) == 2
    one.fail(QUOTA.message, at(2))
    assert one.closed_until(at(2)) == at(3), "the pauses begin at the shortest again"
    one.fail("busy", at(3), 60.0)
    assert one.closed_until(at(3)) == at(63), "the server asks for more"


class Quota(Driver):
    """A controller of a gang whose Pods are refused while the quota is used up."""

    def __init__(self) -> None:
        super().__init__(World(framework_of(SPEC), Plan({f"worker-{index}": ["stay"] for index in range(TASKS)})))
        self.exhausted = True
        self.tries = 0

    def send(self, effect: Effect) -> Outcome:
        if isinstance(effect, CreatePod):
            self.tries += 1
            if self.exhausted:
                return QUOTA
        return super().send(effect)

    def work(self, seconds: int) -> None:
        for _ in range(seconds):
            self.work_now()
            self.world.tick()
            self.touch_pods(*self.caches.refresh())
            self.touch_config_map()

    def work_now(self) -> None:
        while effects := self.decide().effects:
            for effect in effects:
                self.answer(*self.perform(effect))


def test_a_gang_over_its_quota_sends_few_requests_and_events() -> None:
    gang = Quota()
    gang.work(300)
    assert FIRST_BATCH < gang.tries < FIRST_BATCH + 30
    assert 0 < sum(event.reason == "FailedCreate" for event in gang.events) < 30
    gang.exhausted = False
    gang.work(60)
    assert gang.world.status.ready == f"{TASKS}/{TASKS}"
    assert gang.tries < FIRST_BATCH + 30 + TASKS


def test_a_gang_within_its_quota_waits_for_nothing() -> None:
    gang = Quota()
    gang.exhausted = False
    for _ in range(4):
        gang.work(1)
    assert gang.tries == TASKS
    assert len(gang.world.pods) == TASKS


class WithoutStatusWrites(Quota):
    """A controller that is answered 64 requests a second, and no status write once there are Pods."""

    def __init__(self) -> None:
        super().__init__()
        self.exhausted = False
        self.waiting: list[Effect] = []

    def work(self, seconds: int) -> None:
        for _ in range(seconds):
            self.waiting += self.decide().effects
            now, self.waiting = self.waiting[:FIRST_BATCH], self.waiting[FIRST_BATCH:]
            for effect in now:
                if not (self.tries and isinstance(effect, WriteStatus)):
                    self.answer(*self.perform(effect))
            self.world.tick()
            self.touch_pods(*self.caches.refresh())
            self.touch_config_map()


def test_no_creation_waits_for_a_status_that_only_reports() -> None:
    gang = WithoutStatusWrites()
    gang.work(8 + TASKS // FIRST_BATCH)
    assert gang.world.status.state is State.PREPARING
    assert [one.status.phase for one in gang.world.pods.values()] == ["Running"] * TASKS


def test_a_gang_that_waits_for_its_quota_can_be_stopped_and_asks_to_be_called_again() -> None:
    gang = Quota()
    gang.work(30)
    tries = gang.tries
    gang.work_now()
    decision = gang.decide()
    assert decision.effects == []
    assert decision.wake_at is not None
    assert decision.wake_at - gang.world.now <= timedelta(seconds=30)
    gang.world.stop()
    gang.caches.hear_of_framework()
    gang.work(10)
    assert gang.world.status.state is State.COMPLETED
    assert gang.tries <= tries + 1
