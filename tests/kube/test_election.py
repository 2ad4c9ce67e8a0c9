"""Leader election against a real HTTP server that misbehaves, in virtual time."""

import asyncio
import itertools

import pytest
import structlog

from frameworkkube.election.election import (
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    check_times,
    unique_identity,
)
from frameworkkube.errors import TooManyRequestsError
from tests.kube.electorate import (
    CONFLICT,
    ERROR,
    ERROR_AFTER,
    FORBIDDEN,
    HANG,
    HANG_AFTER,
    HTML,
    RESET,
    RESET_AFTER,
    Fault,
    an_election,
    before,
    late,
    slow_answer,
)
from tests.kube.scripted import answer, refusal
from tests.kube.virtualtime import in_virtual_time

POLL = 2.2
"""Seconds between two attempts of a candidate whose draw is 0.5; the holder renews every 1.8 s."""
ROUND_TRIP = 0.1


def now() -> float:
    return asyncio.get_running_loop().time()


# --- the Lease -------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_the_first_candidate_creates_the_lease_as_client_go_does() -> None:
    async with an_election() as world:
        world.candidate("a", wall_clock=lambda: 1_700_000_000.0).start()
        await asyncio.sleep(1)
        assert world.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "acquireTime": "2023-11-14T22:13:20.000000Z",
            "renewTime": "2023-11-14T22:13:20.000000Z",
            "leaseTransitions": 0,
        }


@in_virtual_time
async def test_a_renewal_is_one_request_and_changes_only_the_time_of_renewal() -> None:
    async with an_election() as world:
        world.candidate("a", wall_clock=lambda: now() + 0.25).start()
        await asyncio.sleep(1)
        first = world.spec
        await asyncio.sleep(20)
        assert world.spec == first | {"renewTime": world.spec["renewTime"]}
        assert world.spec["renewTime"] > first["renewTime"]
        assert set(world.requests_of("a")[2:]) == {"PUT"}
        assert 9 <= len(world.requests_of("a")[2:]) <= 12


@in_virtual_time
async def test_a_new_holder_counts_the_transition_and_keeps_what_it_does_not_know() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        world.annotate(team="ml")
        world.edit(strategy="OldestEmulationVersion")
        second.start()
        await asyncio.sleep(5)
        await first.stop()
        await asyncio.sleep(5)
        assert (world.spec["holderIdentity"], world.spec["leaseTransitions"]) == ("b", 1)
        assert world.spec["strategy"] == "OldestEmulationVersion"
        assert world.lease is not None
        assert world.lease["metadata"]["annotations"] == {"team": "ml"}


@in_virtual_time
async def test_of_candidates_that_create_the_lease_together_one_leads() -> None:
    async with an_election() as world:
        candidates = [world.candidate(name).start() for name in ("a", "b", "c")]
        await asyncio.sleep(60)
        assert sorted(candidate.terms for candidate in candidates) == [0, 0, 1]
        world.assert_never_two()


# --- succession ------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_dead_leader_is_replaced_when_its_lease_is_over_and_not_before() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(30)
        first.kill()
        killed = now()
        last_renewal = max(seen.at for seen in world.log if seen.by == "a" and seen.what == "write")
        await asyncio.sleep(30)
        began = world.work("b")[0].at
        assert (
            last_renewal + LEASE_DURATION_SECONDS <= began <= last_renewal + LEASE_DURATION_SECONDS + POLL + ROUND_TRIP
        )
        assert began <= killed + LEASE_DURATION_SECONDS + POLL + ROUND_TRIP
        world.assert_never_two()


@in_virtual_time
async def test_a_leader_that_stops_hands_over_within_a_period() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(10)
        await first.stop()
        assert (world.spec["holderIdentity"], world.spec["leaseDurationSeconds"]) == ("", 1)
        stopped = now()
        await asyncio.sleep(10)
        assert world.work("b")[0].at <= stopped + POLL + ROUND_TRIP
        world.assert_never_two()


@in_virtual_time
async def test_the_lease_is_renewed_as_long_as_cancelled_work_takes_to_stop() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.stubborn_seconds = 40
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(1)
        await first.stop()
        await asyncio.sleep(5)
        assert world.work("a")[-1].at - first.stopped_at[0] > 39
        assert first.overdue_at is None
        assert world.terms() == ["a", "b"]
        world.assert_never_two()


@in_virtual_time
async def test_being_stopped_twice_does_not_leave_the_work_behind() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        first.stubborn_seconds = 5
        await asyncio.sleep(1)
        assert first.task is not None
        first.task.cancel()
        await asyncio.sleep(1)
        await first.stop()
        assert world.spec["holderIdentity"] == ""
        work = len(world.work())
        await asyncio.sleep(10)
        assert len(world.work()) == work


@in_virtual_time
async def test_times_in_the_record_are_ignored() -> None:
    async with an_election() as world:
        world.candidate("a", wall_clock=lambda: 10**9 + now()).start()
        await asyncio.sleep(1)
        world.candidate("b", wall_clock=lambda: 2 * 10**9 + now()).start()
        await asyncio.sleep(60)
        assert world.terms() == ["a"]


@in_virtual_time
async def test_a_holder_that_was_promised_more_time_gets_it() -> None:
    async with an_election() as world:
        first, second = world.candidate("a", lease_duration_seconds=40), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(3)
        first.kill()
        await asyncio.sleep(60)
        last = max(seen.at for seen in world.log if seen.by == "a" and seen.what == "write")
        assert last + 40 <= world.work("b")[0].at <= last + 40 + POLL + ROUND_TRIP


# --- work that ends by itself ----------------------------------------------------------------------------------------


@in_virtual_time
async def test_work_that_is_done_releases_the_lease_and_ends_the_run() -> None:
    async with an_election() as world:
        await world.candidate("a").start(lambda: asyncio.sleep(5)).ended()
        assert world.spec["holderIdentity"] == ""


@in_virtual_time
async def test_work_that_fails_releases_the_lease_and_its_error_is_raised() -> None:
    async def fail() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("a defect")

    async with an_election() as world:
        with pytest.raises(RuntimeError, match="a defect"):
            await world.candidate("a").start(fail).ended()
        assert world.spec["holderIdentity"] == ""


@in_virtual_time
async def test_work_that_fails_while_it_is_stopped_says_so() -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(500)
        finally:
            raise RuntimeError("a defect")

    async with an_election() as world:
        candidate = world.candidate("a").start(fail)
        await asyncio.sleep(5)
        assert candidate.task is not None
        with pytest.raises(RuntimeError, match="a defect"):
            await candidate.stop()
        assert world.spec["holderIdentity"] == ""


# --- fault ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [HANG, HANG_AFTER, RESET, RESET_AFTER, ERROR, ERROR_AFTER, CONFLICT, HTML, FORBIDDEN, late(3.0), late(7.0)],
    ids=[
        "hang",
        "hang-after",
        "reset",
        "reset-after",
        "error",
        "error-after",
        "conflict",
        "html",
        "forbidden",
        "late-3",
        "late-7",
    ],
)
@in_virtual_time
async def test_one_renewal_that_goes_wrong_does_not_end_the_term(fault: Fault) -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(1)
        second = world.candidate("b").start()
        for _ in range(5):
            world.fault("a", fault)
            await asyncio.sleep(20)
        assert (first.terms, second.terms) == (1, 0)
        assert len(world.work("a")) > 50
        world.assert_never_two()


@pytest.mark.parametrize(
    "fault",
    [HANG, HANG_AFTER, RESET, RESET_AFTER, ERROR, ERROR_AFTER, CONFLICT, HTML, late(3.0), late(7.0)],
    ids=["hang", "hang-after", "reset", "reset-after", "error", "error-after", "conflict", "html", "late-3", "late-7"],
)
@pytest.mark.parametrize("request_number", [0, 1])
@in_virtual_time
async def test_a_claim_whose_answer_is_lost_is_found_out_about(fault: Fault, request_number: int) -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        world.fault("a", *[late(0)] * request_number, fault)
        await asyncio.sleep(1)
        second = world.candidate("b").start()
        await asyncio.sleep(30)
        assert first.terms + second.terms == 1
        assert world.work()
        world.assert_never_two()


@in_virtual_time
async def test_a_leader_that_cannot_renew_stops_at_the_deadline_and_leads_again_later() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(31)
        world.cut_off("a")
        await asyncio.sleep(30)
        last_renewal = max(seen.at for seen in world.log if seen.what == "write")
        assert first.stopped_at == [pytest.approx(last_renewal + RENEW_DEADLINE_SECONDS, abs=ROUND_TRIP)]
        assert first.overdue_at is None
        del world.faults["a"]
        await asyncio.sleep(10)
        assert first.terms == 2
        assert world.spec["leaseTransitions"] == 0
        world.assert_never_two()


@in_virtual_time
async def test_the_deadline_counts_from_when_the_renewal_was_sent_not_from_its_answer() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(31)
        world.fault("a", slow_answer(0.45 * RENEW_DEADLINE_SECONDS))
        await asyncio.sleep(2)
        world.cut_off("a")
        last_renewal = max(seen.at for seen in world.log if seen.what == "write")
        await asyncio.sleep(15)
        assert first.stopped_at == [pytest.approx(last_renewal + RENEW_DEADLINE_SECONDS, abs=ROUND_TRIP)]


@in_virtual_time
async def test_work_that_does_not_stop_ends_the_process_before_the_lease() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.stubborn_seconds = 1000
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(30)
        world.cut_off("a")
        await asyncio.sleep(60)
        last_renewal = max(seen.at for seen in world.log if seen.by == "a" and seen.what == "write")
        assert first.overdue_at is not None
        assert last_renewal + RENEW_DEADLINE_SECONDS < first.overdue_at < last_renewal + LEASE_DURATION_SECONDS
        assert world.work("a")[-1].at <= first.overdue_at
        assert world.terms() == ["a", "b"]
        world.assert_never_two()


@in_virtual_time
async def test_work_that_does_not_stop_learns_from_holds_that_it_must_not_write() -> None:
    async with an_election() as world:
        first = world.candidate("a")
        seen = [first.election.holds]
        first.stubborn_seconds = 1000
        first.start()
        await asyncio.sleep(31)
        seen.append(first.election.holds)
        world.cut_off("a")
        last_renewal = max(seen.at for seen in world.log if seen.what == "write")
        await asyncio.sleep(last_renewal + RENEW_DEADLINE_SECONDS - 0.1 - now())
        seen.append(first.election.holds)
        await asyncio.sleep(0.2)
        seen.append(first.election.holds)
        assert seen == [False, True, True, False]


@in_virtual_time
async def test_a_half_open_connection_costs_half_the_deadline_not_the_term() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(31)
        world.fault("a", HANG)
        await asyncio.sleep(30)
        renewals = [seen.at for seen in world.log if seen.what == "write"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(renewals)]
        assert RENEW_DEADLINE_SECONDS / 2 < max(gaps) < RENEW_DEADLINE_SECONDS
        assert first.terms == 1


@in_virtual_time
async def test_a_pause_that_the_server_asks_for_does_not_stop_renewals() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(1)
        world.server.on("DELETE", then=answer(429, Retry_After="60"))
        for _ in range(2):
            with pytest.raises(TooManyRequestsError):
                await first.request("DELETE", "/pods", timeout_seconds=1.0)
        await asyncio.sleep(50)
        assert world.terms() == ["a"]
        assert first.stopped_at == []
        assert len(world.server.of("DELETE")) == 1


# --- others at the Lease ---------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_lease_deleted_while_held_is_created_again_by_its_holder() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        second.start()
        for _ in range(20):
            await asyncio.sleep(7.3)
            world.delete()
        await asyncio.sleep(5)
        assert world.holder == "a"
        assert (first.terms, second.terms) == (1, 0)
        world.assert_never_two()


@in_virtual_time
async def test_a_deleted_lease_is_not_free_before_its_holder_has_had_its_time() -> None:
    async with an_election() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(10)
        world.cut_off("a")
        last_renewal = max(seen.at for seen in world.log if seen.what == "write")
        world.delete()
        await asyncio.sleep(30)
        assert (
            last_renewal + LEASE_DURATION_SECONDS
            <= world.work("b")[0].at
            <= last_renewal + LEASE_DURATION_SECONDS + 2 * POLL
        )
        assert world.work("a")[-1].at <= last_renewal + RENEW_DEADLINE_SECONDS + ROUND_TRIP


@pytest.mark.parametrize("thief", ["c", ""])
@in_virtual_time
async def test_a_leader_that_is_overtaken_stops_within_a_renewal(thief: str) -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(31)
        stolen = now()
        world.edit(holderIdentity=thief)
        await asyncio.sleep(1.8 + ROUND_TRIP)
        assert [at <= stolen + 1.8 + ROUND_TRIP for at in first.stopped_at] == [True]
        assert not first.election.holds or world.holder == "a"
        await asyncio.sleep(10)
        assert world.holder == (thief or "a")


@in_virtual_time
async def test_overtaken_work_that_does_not_stop_ends_the_process_soon() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        first.stubborn_seconds = 1000
        await asyncio.sleep(31)
        stolen = now()
        world.edit(holderIdentity="c")
        await asyncio.sleep(10)
        assert first.overdue_at is not None
        assert first.overdue_at <= stolen + 1.8 + 2.0 + ROUND_TRIP


@in_virtual_time
async def test_a_candidate_that_is_stopped_while_it_claims_does_not_keep_the_lease() -> None:
    async with an_election() as world:
        first = world.candidate("a")
        world.fault("a", late(0), HANG_AFTER)
        first.start()
        await asyncio.sleep(1)
        assert world.holder == "a"
        await first.stop()
        assert world.holder == ""


@in_virtual_time
async def test_a_candidate_that_is_stopped_while_it_takes_over_does_not_keep_the_lease() -> None:
    async with an_election() as world:
        await world.candidate("b").start(lambda: asyncio.sleep(0)).ended()
        first = world.candidate("a")
        world.fault("a", late(0), HANG_AFTER)
        first.start()
        await asyncio.sleep(1)
        assert world.holder == "a"
        await first.stop()
        assert world.holder == ""


@in_virtual_time
async def test_a_lease_of_another_holder_is_not_released() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(1)
        world.edit(holderIdentity="c")
        await first.stop()
        assert world.holder == "c"


@in_virtual_time
async def test_a_leader_that_released_the_lease_does_not_hold_it_any_more() -> None:
    async with an_election() as world:
        first = world.candidate("a").start()
        await asyncio.sleep(1)
        assert first.task is not None
        world.cut_off("a")
        began = now()
        first.task.cancel()
        await asyncio.sleep(1)
        assert not first.election.holds
        await first.ended()
        assert now() - began < 6, "a release that gets no answer is short"


@in_virtual_time
async def test_a_candidate_tries_again_when_the_server_has_asked_it_to() -> None:
    async with an_election() as world:
        world.fault("a", before(refusal(429, "TooManyRequests", retryAfterSeconds=9)))
        world.candidate("a").start()
        await asyncio.sleep(8.9)
        assert world.requests_of("a") == ["GET"]
        await asyncio.sleep(1)
        assert world.holder == "a"


@pytest.mark.parametrize(("draw", "period"), [(0.0, 2.0), (0.999, 2.4)])
@in_virtual_time
async def test_attempts_are_spread(draw: float, period: float) -> None:
    async with an_election() as world:
        world.candidate("a").start()
        await asyncio.sleep(1)
        world.candidate("b", draw=lambda: draw).start()
        began = now()
        await asyncio.sleep(100)
        looks = [request.at for request in world.server.requests if request.headers["user-agent"] == "b"]
        assert (looks[-1] - began) / (len(looks) - 1) == pytest.approx(period, rel=0.01)


@in_virtual_time
async def test_a_candidate_says_once_why_it_waits() -> None:
    async with an_election() as world:
        world.fault("a", *[FORBIDDEN] * 1000)
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
