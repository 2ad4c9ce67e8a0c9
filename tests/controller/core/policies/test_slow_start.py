"""How many Pods are created at a time, while all goes well and while they are refused."""

from datetime import timedelta

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, Effect, Failed, Outcome, WriteStatus
from frameworkcontroller.core.policies.backoff import FIRST_BATCH, SlowStart
from tests.controller.core.manual import Manual
from tests.controller.core.values import at, known

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
        until = known(one.closed_until(now))
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


class Quota(Manual):
    """A controller of a gang whose Pods are refused while the quota is used up."""

    def __init__(self, *, exhausted: bool = True) -> None:
        super().__init__(SPEC)
        self.world.plan.ends = {f"worker-{index}": ["stay"] for index in range(TASKS)}
        self.exhausted = exhausted
        self.tries = 0

    def send(self, effect: Effect) -> Outcome:
        if isinstance(effect, CreatePod):
            self.tries += 1
            if self.exhausted:
                return QUOTA
        return super().send(effect)


def test_a_gang_over_its_quota_sends_few_requests_and_events() -> None:
    gang = Quota()
    gang.live(300)
    assert FIRST_BATCH < gang.tries < FIRST_BATCH + 30
    assert 0 < sum(event.reason == "FailedCreate" for event in gang.events) < 30
    gang.exhausted = False
    gang.live(60)
    assert gang.world.status.ready == f"{TASKS}/{TASKS}"
    assert gang.tries < FIRST_BATCH + 30 + TASKS


def test_a_gang_within_its_quota_waits_for_nothing() -> None:
    gang = Quota(exhausted=False)
    gang.live(4)
    assert gang.tries == TASKS
    assert len(gang.world.pods) == TASKS


def test_no_creation_waits_for_a_status_that_only_reports() -> None:
    """64 requests are answered each second, and no status write once there are Pods."""
    gang, waiting = Quota(exhausted=False), list[Effect]()
    for _ in range(8 + TASKS // FIRST_BATCH):
        waiting += gang.ask()
        now, waiting = waiting[:FIRST_BATCH], waiting[FIRST_BATCH:]
        for effect in now:
            if not (gang.tries and isinstance(effect, WriteStatus)):
                gang.answer(*gang.perform(effect))
        gang.second()
    assert gang.world.status.state is State.PREPARING
    assert [one.status.phase for one in gang.world.pods.values()] == ["Running"] * TASKS


def test_a_gang_that_waits_for_its_quota_can_be_stopped_and_asks_to_be_called_again() -> None:
    gang = Quota()
    gang.live(30)
    tries = gang.tries
    while effects := gang.ask():
        for effect in effects:
            gang.answer_as_the_server(effect)
    assert known(gang.wake_at) - gang.world.now <= timedelta(seconds=30)
    gang.world.stop()
    gang.see()
    gang.live(10)
    assert gang.world.status.state is State.COMPLETED
    assert gang.tries <= tries + 1
