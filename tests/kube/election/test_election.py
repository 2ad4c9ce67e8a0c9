"""Leader election against a real HTTP server that misbehaves, in virtual time."""

import asyncio
import itertools

import pytest
import structlog

from frameworkkube.election.election import LEASE_DURATION_SECONDS, RENEW_DEADLINE_SECONDS, check_times, unique_identity
from frameworkkube.errors import TooManyRequestsError
from tests.kube.election.electorate import FAULTS, POLL, ROUND_TRIP, Election, Fault, late
from tests.kube.scripted import answer, refusal

# --- the Lease -------------------------------------------------------------------------------------------------------


async def test_the_first_candidate_creates_the_lease_as_client_go_does_and_renews_it_by_one_request_each(
    world: Election,
) -> None:
    begun = world.server.clock()
    await world.leader(wall_clock=lambda: 1_700_000_000.0 + world.server.clock() - begun)
    created = {
        "holderIdentity": "a",
        "leaseDurationSeconds": LEASE_DURATION_SECONDS,
        "acquireTime": "2023-11-14T22:13:20.000000Z",
        "renewTime": "2023-11-14T22:13:20.000000Z",
        "leaseTransitions": 0,
    }
    assert world.spec == created
    await asyncio.sleep(20)
    assert world.spec == created | {"renewTime": world.spec["renewTime"]}
    assert "2023-11-14T22:13:39" < world.spec["renewTime"] < "2023-11-14T22:13:42"
    assert set(world.requests_of("a")[2:]) == {"PUT"}
    assert 9 <= len(world.requests_of("a")[2:]) <= 12


async def test_a_leader_that_stops_hands_over_within_a_period_what_its_follower_counts_and_otherwise_keeps(
    world: Election,
) -> None:
    first, _ = await world.leader_and_follower()
    world.annotate(team="ml")
    world.edit(strategy="OldestEmulationVersion")
    await asyncio.sleep(10)
    await first.stop()
    assert (world.spec["holderIdentity"], world.spec["leaseDurationSeconds"]) == ("", 1)
    stopped = world.server.clock()
    await asyncio.sleep(10)
    world.assert_followed(stopped)
    assert (world.spec["holderIdentity"], world.spec["leaseTransitions"]) == ("b", 1)
    assert world.spec["strategy"] == "OldestEmulationVersion"
    assert world.lease is not None
    assert world.lease["metadata"]["annotations"] == {"team": "ml"}


# --- the end of a term ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [LEASE_DURATION_SECONDS, 40], ids=["by default", "promised more"])
async def test_a_dead_leader_is_replaced_when_its_lease_is_over_and_not_before(world: Election, seconds: int) -> None:
    first, _ = await world.leader_and_follower(lease_duration_seconds=seconds)
    await asyncio.sleep(30)
    first.kill()
    await asyncio.sleep(60)
    world.assert_followed(world.last_write("a") + seconds)


async def test_the_lease_is_renewed_as_long_as_cancelled_work_takes_to_stop(world: Election) -> None:
    first, _ = await world.leader_and_follower()
    first.stubborn_seconds = 40
    await asyncio.sleep(1)
    await first.stop()
    await asyncio.sleep(5)
    assert world.work("a")[-1].at - first.stopped_at[0] > 39
    assert first.overdue_at is None
    assert world.terms() == ["a", "b"]


async def test_being_stopped_twice_does_not_leave_the_work_behind(world: Election) -> None:
    first = await world.leader()
    first.stubborn_seconds = 5
    first.task.cancel()
    await asyncio.sleep(1)
    await first.stop()
    assert world.holder == ""
    work = len(world.work())
    await asyncio.sleep(10)
    assert len(world.work()) == work


async def test_work_that_is_done_releases_the_lease_and_ends_the_run(world: Election) -> None:
    await world.candidate("a").start(lambda: asyncio.sleep(5)).ended()
    assert world.holder == ""


@pytest.mark.parametrize("by_itself", [True, False], ids=["by itself", "while it is stopped"])
async def test_work_that_fails_releases_the_lease_and_its_error_is_raised(world: Election, by_itself: bool) -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(5 if by_itself else 500)
        finally:
            raise RuntimeError("a defect")

    candidate = world.candidate("a").start(fail)
    await asyncio.sleep(4)
    with pytest.raises(RuntimeError, match="a defect"):
        await (candidate.ended() if by_itself else candidate.stop())
    assert world.holder == ""


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_one_renewal_that_goes_wrong_does_not_end_the_term(world: Election, fault: Fault) -> None:
    first, second = await world.leader_and_follower()
    for _ in range(5):
        world.fault("a", fault)
        await asyncio.sleep(20)
    assert (first.terms, second.terms) == (1, 0)
    assert len(world.work("a")) > 50


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("number", [0, 1])
async def test_a_claim_whose_answer_is_lost_is_found_out_about(world: Election, fault: Fault, number: int) -> None:
    first = world.candidate("a").start()
    world.fault("a", *[late()] * number, fault)
    await asyncio.sleep(1)
    second = world.candidate("b").start()
    await asyncio.sleep(30)
    assert first.terms + second.terms == 1
    assert world.work()


@pytest.mark.parametrize("slow", [0, 0.45 * RENEW_DEADLINE_SECONDS], ids=["answered at once", "answered late"])
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_leads_again(world: Election, slow: float) -> None:
    first = await world.leader(seconds=31)
    world.fault("a", late(answer=slow))
    await asyncio.sleep(2)
    world.cut_off("a")
    last_renewal = world.last_write()
    await asyncio.sleep(30)
    # The deadline counts from when the renewal was sent, not from its answer.
    assert first.stopped_at == [pytest.approx(last_renewal + RENEW_DEADLINE_SECONDS, abs=ROUND_TRIP)]
    assert first.overdue_at is None
    del world.faults["a"]
    await asyncio.sleep(10)
    assert first.terms == 2
    assert world.spec["leaseTransitions"] == 0


async def test_work_that_does_not_stop_may_not_write_after_the_deadline_and_ends_the_process(world: Election) -> None:
    first, _ = await world.leader_and_follower()
    first.stubborn_seconds = 1000
    await asyncio.sleep(30)
    world.cut_off("a")
    last_renewal = world.last_write("a")
    await asyncio.sleep(last_renewal + RENEW_DEADLINE_SECONDS - 0.1 - world.server.clock())
    held = [first.election.holds]
    await asyncio.sleep(0.2)
    assert [*held, first.election.holds] == [True, False]
    await asyncio.sleep(60)
    assert first.overdue_at is not None
    assert last_renewal + RENEW_DEADLINE_SECONDS < first.overdue_at < last_renewal + LEASE_DURATION_SECONDS
    assert world.work("a")[-1].at <= first.overdue_at
    assert world.terms() == ["a", "b"]


async def test_a_half_open_connection_costs_half_the_deadline_not_the_term(world: Election) -> None:
    first = await world.leader(seconds=31)
    world.fault("a", FAULTS["hang"])
    await asyncio.sleep(30)
    renewals = [seen.at for seen in world.log if seen.what == "write"]
    gaps = [later - earlier for earlier, later in itertools.pairwise(renewals)]
    assert RENEW_DEADLINE_SECONDS / 2 < max(gaps) < RENEW_DEADLINE_SECONDS
    assert first.terms == 1


async def test_after_a_renewal_without_an_answer_the_next_one_has_two_seconds(world: Election) -> None:
    first = await world.leader(seconds=31)
    world.fault("a", FAULTS["hang"], late(2))
    await asyncio.sleep(30)
    assert first.terms == 1


async def test_a_pause_that_the_server_asks_for_does_not_stop_renewals(world: Election) -> None:
    first = await world.leader()
    world.server.on("DELETE", then=answer(429, Retry_After="60"))
    for _ in range(2):
        with pytest.raises(TooManyRequestsError):
            await first.request("DELETE", "/pods", timeout_seconds=1.0)
    await asyncio.sleep(50)
    assert world.terms() == ["a"]
    assert first.stopped_at == []
    assert len(world.server.of("DELETE")) == 1


# --- others at the Lease ---------------------------------------------------------------------------------------------


async def test_a_lease_deleted_while_held_is_created_again_by_its_holder(world: Election) -> None:
    first, second = await world.leader_and_follower()
    for _ in range(20):
        await asyncio.sleep(7.3)
        world.delete()
    await asyncio.sleep(5)
    assert world.holder == "a"
    assert (first.terms, second.terms) == (1, 0)


async def test_a_deleted_lease_is_not_free_before_its_holder_has_had_its_time(world: Election) -> None:
    await world.leader_and_follower()
    await asyncio.sleep(10)
    world.cut_off("a")
    last_renewal = world.last_write()
    world.delete()
    await asyncio.sleep(30)
    world.assert_followed(last_renewal + LEASE_DURATION_SECONDS, within=2 * POLL)
    assert world.work("a")[-1].at <= last_renewal + RENEW_DEADLINE_SECONDS + ROUND_TRIP


@pytest.mark.parametrize("thief", ["c", ""])
async def test_a_leader_that_is_overtaken_stops_within_a_renewal(world: Election, thief: str) -> None:
    first = await world.leader(seconds=31)
    stolen = world.server.clock()
    world.edit(holderIdentity=thief)
    await asyncio.sleep(1.8 + ROUND_TRIP)
    assert [at <= stolen + 1.8 + ROUND_TRIP for at in first.stopped_at] == [True]
    assert not first.election.holds or world.holder == "a"
    await asyncio.sleep(10)
    assert world.holder == (thief or "a")


async def test_overtaken_work_that_does_not_stop_ends_the_process_soon(world: Election) -> None:
    first = await world.leader(seconds=31)
    first.stubborn_seconds = 1000
    stolen = world.server.clock()
    world.edit(holderIdentity="c")
    await asyncio.sleep(10)
    assert first.overdue_at is not None
    assert first.overdue_at <= stolen + 1.8 + 2.0 + ROUND_TRIP


@pytest.mark.parametrize("taken_over", [False, True], ids=["it claims", "it takes over"])
async def test_a_candidate_stopped_meanwhile_does_not_keep_the_lease(world: Election, *, taken_over: bool) -> None:
    if taken_over:
        await world.candidate("b").start(lambda: asyncio.sleep(0)).ended()
    world.fault("a", late(), FAULTS["hang after"])
    first = await world.leader()
    assert world.holder == "a"
    await first.stop()
    assert world.holder == ""


async def test_a_lease_of_another_holder_is_not_released(world: Election) -> None:
    first = await world.leader()
    world.edit(holderIdentity="c")
    await first.stop()
    assert world.holder == "c"


async def test_a_leader_that_released_the_lease_does_not_hold_it_any_more(world: Election) -> None:
    first = await world.leader()
    world.cut_off("a")
    began = world.server.clock()
    first.task.cancel()
    await asyncio.sleep(1)
    assert not first.election.holds
    await first.ended()
    assert world.server.clock() - began < 6, "a release that gets no answer is short"


async def test_a_candidate_tries_again_when_the_server_has_asked_it_to(world: Election) -> None:
    world.server.on("GET", refusal(429, "TooManyRequests", retryAfterSeconds=9))
    world.candidate("a").start()
    await asyncio.sleep(8.9)
    assert world.requests_of("a") == ["GET"]
    await asyncio.sleep(1)
    assert world.holder == "a"


@pytest.mark.parametrize(("draw", "period"), [(0.0, 2.0), (0.999, 2.4)])
async def test_attempts_are_spread(world: Election, draw: float, period: float) -> None:
    await world.leader()
    world.candidate("b", draw=lambda: draw).start()
    began = world.server.clock()
    await asyncio.sleep(100)
    looks = [request.at for request in world.server.requests if request.headers["user-agent"] == "b"]
    assert (looks[-1] - began) / (len(looks) - 1) == pytest.approx(period, rel=0.01)


async def test_a_candidate_says_once_why_it_waits(world: Election) -> None:
    world.fault("a", *[FAULTS["forbidden"]] * 1000)
    with structlog.testing.capture_logs() as logs:
        world.candidate("a").start()
        await asyncio.sleep(60)
    reasons = [entry["why"] for entry in logs if entry["event"] == "waiting for the lease"]
    assert reasons == ["403 Forbidden: leases is forbidden"]
    assert 20 < len(world.requests_of("a")) < 40


# --- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((15, 15, 2), "lease duration, 15 s, must be greater than the renew deadline, 15 s"),
        ((15, 2.4, 2), "renew deadline, 2.4 s, must be greater than 1.2 times the retry period, 2 s"),
        ((15, 10, 0), "retry period must be greater than 0 s, not 0 s"),
    ],
    ids=["lease", "deadline", "period"],
)
def test_times_that_leave_no_room_are_refused(times: tuple[float, float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_times(*times)


def test_no_two_identities_are_equal() -> None:
    assert unique_identity("host") != unique_identity("host")
    assert unique_identity("host").startswith("host_")
