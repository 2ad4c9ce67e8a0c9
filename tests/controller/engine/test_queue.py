"""The work queue and the executor: no key twice, no owner starved, nothing lost."""

import asyncio
import weakref
from collections.abc import Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import pytest
import uvloop

from frameworkcontroller.engine.workers import REST, REST_BESIDE_OTHERS, Executor
from frameworkcontroller.engine.workqueue import WorkQueue
from frameworkkube.fair_queue import MOST_KNOWN, FairQueue
from tests.controller.engine.stubs import beside
from tests.kube.virtualtime import in_virtual_time
from tests.support.memory import memory
from tests.support.rows import each

KEYS = A, B, C = (("ns", "a"), ("ns", "b"), ("ns", "c"))
Queue: TypeAlias = WorkQueue[tuple[str, str]]


async def test_a_key_is_queued_once_and_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: Queue = WorkQueue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taker.done(), "taking waits for a key"
    for key in (B, A, B, C, A):
        queue.add(key)
    assert [await taker, *[await queue.take() for _ in range(len(queue))]] == [B, A, C]
    assert len(queue) == 0


@in_virtual_time
async def test_of_two_timers_the_earlier_wins_and_adding_the_key_cancels_both() -> None:
    queue, begun = Queue(), asyncio.get_running_loop().time()
    for seconds in (60, 2, 30):
        queue.add_after(A, seconds)
    assert await queue.take() == A
    assert asyncio.get_running_loop().time() == begun + 2
    queue.add_after(A, 2)
    queue.add(A)
    assert await queue.take() == A
    await asyncio.sleep(100)
    assert len(queue) == 0


@in_virtual_time
async def test_a_key_is_not_queued_before_its_time() -> None:
    queue, begun = Queue(), asyncio.get_running_loop().time()
    queue.add_after(A, 0.0004)
    await queue.take()
    assert asyncio.get_running_loop().time() - begun >= 0.0004


@each("seconds", [0.0, 0.0004, 0.001])
def test_of_two_timers_the_first_may_be_over_at_once(seconds: float) -> None:
    """The controller's loop has a handle without a time then: what a watch showed of a Framework at rest was lost."""

    async def first() -> tuple[str, str]:
        queue: Queue = WorkQueue()
        for after in (seconds, 60):
            queue.add_after(A, after)
        return await queue.take()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asyncio.wait_for(first(), 10)) == A


@in_virtual_time
async def test_a_key_that_is_forgotten_does_not_come_back() -> None:
    queue: Queue = WorkQueue()
    queue.add(A)
    queue.add_after(B, 2)
    queue.forget(A)
    queue.forget(B)
    await asyncio.sleep(100)
    assert len(queue) == 0
    queue.add(C)
    assert await queue.take() == C


async def test_the_queue_stalls_if_nobody_has_a_turn_and_not_if_somebody_waits_for_long() -> None:
    """A Framework that waits behind others of its own namespace must not make the kubelet end the controller."""
    now = 100.0
    queue: Queue = WorkQueue(lambda: now)
    assert queue.stalled_seconds == 0
    queue.add(A)
    queue.add(B)
    now += 20
    assert queue.stalled_seconds == 20
    await queue.take()
    assert queue.stalled_seconds == 0
    now += 3
    assert queue.stalled_seconds == 3
    await queue.take()
    now += 50
    assert queue.stalled_seconds == 0
    queue.add(C)
    now += 2
    assert queue.stalled_seconds == 2


async def next_turns(queue: Queue, cost: Mapping[tuple[str, str], float], number: int) -> list[tuple[str, str]]:
    """Whose the next turns are, where each key has a cost in seconds and is added again."""
    taken = []
    for key in cost:
        queue.add(key)
    for _ in range(number):
        taken.append(key := await queue.take())
        queue.charge(key, cost[key])
        queue.add(key)
    return taken


async def test_a_key_whose_decisions_take_long_waits_until_the_others_had_as_much_time() -> None:
    queue, cost = Queue(), {A: 0.2, B: 0.006, C: 0.006}
    taken = await next_turns(queue, cost, 1000)
    spent = [taken.count(key) * cost[key] for key in KEYS]
    assert max(spent) - min(spent) <= 0.2 + 0.006
    queue.forget(A)
    assert A not in {await queue.take() for _ in range(len(queue))}


async def test_a_namespace_of_many_busy_frameworks_gets_no_more_time_than_one_of_a_few() -> None:
    crowd = [("crowd", str(number)) for number in range(600)]
    taken = await next_turns(Queue(), dict.fromkeys([*crowd, A], 0.002), 2000)
    assert abs(taken.count(A) - 1000) <= 1
    assert max(len(list(group)) for key, group in groupby(taken, itemgetter(0)) if key == "crowd") <= 2


async def test_nothing_is_kept_of_keys_that_have_had_their_turn() -> None:
    """24 MB were kept of what 100,000 idle Frameworks had cost once."""
    queue: Queue = WorkQueue()
    with memory() as used:
        for number in range(20_000):
            queue.add(("ns", str(number)))
        while len(queue):
            queue.charge(await queue.take(), 0.001)
        # A table that was large stays so until it is filled again.
        assert used() < 50 * 20_000


def test_what_owners_have_cost_is_forgotten_although_somebody_always_waits() -> None:
    turns: FairQueue[int] = FairQueue()
    for number in range(20_000):
        turns.add(("ns", str(number)), number)
        turns.add(("ns", "busy"), number)
        turns.charge(("ns", str(turns.take(cost=1))), 1)
    kept = turns._parts["ns"]._costs
    assert len(kept) < MOST_KNOWN + 3 * len(turns._parts["ns"]._parts)


URGENT = [("crowd", f"{number}", f"urgent {number}") for number in range(4)]
GANG = [("ns", "gang", "pod 0"), ("ns", "gang", "urgent roster")]
LARGE = [("crowd", "large", f"large {number}") for number in range(3)]
OTHERS = [("crowd", "small", "small 0"), ("ns", "gang", "gang 0"), ("ns", "gang", "gang 1")]


@pytest.mark.parametrize(
    ("items", "order"),
    [
        pytest.param(
            [*LARGE, *OTHERS],
            ["large 0", "gang 0", "small 0", "gang 1", "large 1", "large 2"],
            id="by namespace first, and those of an owner stay in order",
        ),
        pytest.param(
            [*URGENT, *GANG],
            ["urgent 0", "urgent roster", "urgent 1", "pod 0", "urgent 2", "urgent 3"],
            id="no namespace is behind what is urgent in another",
        ),
    ],
)
def test_owners_take_turns(items: list[tuple[str, str, str]], order: list[str]) -> None:
    turns: FairQueue[str] = FairQueue()
    for namespace, name, item in items:
        turns.add((namespace, name), item, urgent=item.startswith("urgent"))
    assert [turns.take(cost=1) for _ in items] == order
    assert not turns


class Work:
    """Items that take until a test lets them end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = asyncio.Semaphore(0)

    async def perform(self, job: str) -> None:
        self.begun.append(job)
        await self.gate.acquire()

    async def begins(self, number: int) -> None:
        """Wait until nothing more begins: so many have."""
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(self.begun) == number

    async def end_all(self, executor: Executor, number: int, slots: int = 1) -> list[str]:
        """Let so many end one after the other; return them in the order in which they have begun."""
        async with beside(executor.run()):
            for begun in range(slots, number + 1):
                await self.begins(begun)
                self.gate.release()
        return self.begun


async def test_no_more_items_are_performed_at_a_time_than_there_are_slots() -> None:
    work, executor = Work(), Executor(slots=2)
    for number in range(5):
        executor.submit(A, partial(work.perform, str(number)))
    assert await work.end_all(executor, 5, slots=2) == ["0", "1", "2", "3", "4"]


async def test_of_an_item_that_was_performed_nothing_is_kept() -> None:
    """Idle workers kept 64 Pods of 3 MB."""

    async def perform(_item: Work) -> None:
        await asyncio.sleep(0)

    now = 100.0
    executor = Executor(slots=8, clock=lambda: now)
    items = [Work() for _ in range(20)]
    kept = [weakref.ref(item) for item in items]
    async with beside(executor.run()):
        while items:
            executor.submit(A, partial(perform, items.pop()))
        assert (executor.load("ns"), executor.load("other")) == (20, 0)
        assert (executor.has_only("ns"), executor.has_only("other")) == (True, False)
        for _ in range(100):
            await asyncio.sleep(0)
        assert executor.load("ns") == 20, "they have started within the last second"
        now += 1.1
        assert executor.load("ns") == 0
        assert executor.has_only("other")
        assert not any(one() for one in kept)


async def test_of_what_has_started_only_the_last_second_is_kept() -> None:
    """Whose load nobody asks for kept an entry for each request."""
    now = 100.0

    async def perform() -> None:
        nonlocal now
        now += 0.1

    executor = Executor(slots=1, clock=lambda: now)
    for _ in range(500):
        executor.submit(A, perform)
    async with beside(executor.run()):
        for _ in range(1000):
            await asyncio.sleep(0)
        assert now > 149
        assert len(executor._started) <= 11


async def beginnings(seconds: Mapping[str, float], number: int, rest: int = REST) -> dict[str, list[float]]:
    """When items begin, so many of each namespace, that take these seconds, where there is one slot and rest."""
    begun: dict[str, list[float]] = {namespace: [] for namespace in seconds}
    loop, executor = asyncio.get_running_loop(), Executor(slots=1, rest=lambda _: rest)
    start = loop.time()

    async def perform(namespace: str) -> None:
        begun[namespace].append(round(loop.time() - start, 1))
        await asyncio.sleep(seconds[namespace])

    for namespace in seconds:
        for _ in range(number):
            executor.submit((namespace, "fw"), partial(perform, namespace))
    async with beside(executor.run()):
        await asyncio.sleep(60)
    return begun


@in_virtual_time
async def test_of_one_that_rests_the_time_counts_and_others_have_as_much() -> None:
    begun = await beginnings({"slow": 3, "fast": 1, "too": 1}, 3)
    # Two at a time, of two namespaces, each of which rests for a second after one; while it does others have its place.
    assert sorted(round(at) for at in begun["fast"] + begun["too"]) == [0, 1, 2, 3, 4, 5]
    assert [round(at) for at in begun["slow"]] == [0, 4, 8]


@in_virtual_time
@pytest.mark.parametrize(("rest", "starts"), [(REST, [0, 0.8, 1.6, 2.4]), (REST_BESIDE_OTHERS, [0, 2, 4, 6])], ids=str)
async def test_what_rests_takes_a_part_of_the_time_where_others_wait(rest: int, starts: list[float]) -> None:
    """Ten statuses of 1,000 TaskRoles at half of the time more than doubled the median start of a gang beside them."""
    assert await beginnings({"a": 0.2}, 4, rest) == {"a": starts}


@in_virtual_time
@pytest.mark.parametrize(("rest", "starts"), [(0, [0] * 4 + [0.3] * 4), (8, [0] * 4 + [0.9] * 4)], ids=str)
async def test_an_item_that_takes_slots_rests_by_their_share(rest: int, starts: list[float]) -> None:
    """Beside a hundred Frameworks, of whose statuses of 400 Tasks eight were written at a time, gangs took 20 s."""
    begun = list[float]()
    loop, executor = asyncio.get_running_loop(), Executor(slots=8, rest=lambda _: rest)
    since = loop.time()

    async def perform() -> None:
        begun.append(round(loop.time() - since, 1))
        await asyncio.sleep(0.3)

    for _ in range(8):
        executor.submit(A, perform, slots=2)
    async with beside(executor.run()):
        await asyncio.sleep(30)
    assert begun == starts


async def test_what_is_slow_for_one_namespace_leaves_slots_to_others() -> None:
    """A webhook that took 30 s for Pods of one held all 64 slots: a gang of another started after 40 to 57 s."""
    work = Work()
    executor = Executor(slots=4)
    async with beside(executor.run()):
        for number in range(20):
            executor.submit(("crowd", str(number)), partial(work.perform, "slow"))
        await work.begins(4)
        executor.submit(A, partial(work.perform, "pod"))
        await work.begins(5)
        assert work.begun[-1] == "pod"
        for _ in range(21):
            work.gate.release()
        await work.begins(21)
        assert (executor._lanes, executor._entered) == ({}, {})


@pytest.mark.parametrize(("slots", "all_items", "few"), [(4, 4, 1), (16, 8, 2)], ids=["statuses", "objects"])
@in_virtual_time
async def test_beside_others_few_items_are_performed_at_a_time_while_each_takes_long(
    slots: int, all_items: int, few: int
) -> None:
    """Of sixty gangs that arrived together so many statuses were written that others started after four seconds.

    Of forty gangs of 25 so many Pods were created, with one status at a time, that others started after five.
    """
    loop = asyncio.get_running_loop()
    running, most, others = 0, 0, ""
    executor = Executor(slots=slots, makes_way=lambda _: others != "", clock=loop.time)

    async def perform(seconds: float) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(seconds)
        running -= 1
        return True

    async def at_a_time(seconds: float) -> int:
        """Return how many items of a namespace that take so long are performed at a time at the end."""
        nonlocal most
        for _ in range(5):
            most = 0
            for _ in range(8):
                executor.submit(A, partial(perform, seconds))
            for _ in range(9):
                if others == "fast":
                    executor.submit(("other", "fw"), partial(asyncio.sleep, 0.01, result=True))
                elif others == "fails":
                    executor.submit(("other", "fw"), partial(asyncio.sleep, 0.001))
                await asyncio.sleep(seconds)
        await asyncio.sleep(10)
        return most

    async with beside(executor.run()):
        for seconds, others, wanted in (
            (0.01, "others", all_items),
            (0.1, "others", few),
            (0.1, "", all_items),
            (0.1, "fast", all_items),
            (0.1, "fails", few),
            (0.015, "others", all_items),
        ):
            assert (await at_a_time(seconds), seconds, others) == (wanted, seconds, others)
        for _ in range(3000):
            executor.submit(A, partial(perform, 0.1))
        await asyncio.sleep(1000)
        assert await at_a_time(0.1) == all_items, "that is how long it takes"
        assert (executor.load("ns"), executor._took) == (0, {})


async def test_urgent_items_start_before_those_of_single_tasks_that_wait() -> None:
    work, executor = Work(), Executor(slots=1)
    for number in range(2):
        executor.submit(A, partial(work.perform, f"pod {number}"))
    executor.submit(A, partial(work.perform, "roster"), urgent=True)
    assert await work.end_all(executor, 3) == ["pod 0", "roster", "pod 1"]


async def test_what_is_withdrawn_has_no_turn_and_no_load() -> None:
    work, executor = Work(), Executor(slots=1)
    for owner in (A, B, B, C):
        executor.submit(owner, partial(work.perform, owner[1]))
    for owner in (B, A, B, ("other", "a")):  # the item of A has left its lane
        executor.withdraw(owner)
    assert executor.load("ns") == 2
    executor.submit(B, partial(work.perform, "b again"))
    assert await work.end_all(executor, 3) == ["a", "b again", "c"]
