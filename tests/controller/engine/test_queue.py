"""The work queue and the executor: no key twice, no owner starved, nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
import weakref
from functools import partial
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.engine.turns import MOST_KNOWN, Turns
from frameworkcontroller.engine.workers import REST, REST_BESIDE_OTHERS, Executor
from frameworkcontroller.engine.workqueue import WorkQueue
from testkit.waiting import patience
from tests.kube.virtualtime import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


KEYS = A, B, C = (("ns", "a"), ("ns", "b"), ("ns", "c"))
Key = tuple[str, str]


async def test_a_key_is_queued_once_and_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    for key in (B, A, B, C, A):
        queue.add(key)
    assert [await queue.take() for _ in range(len(queue))] == [B, A, C]
    assert len(queue) == 0


async def test_taking_waits_for_a_key() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taker.done()
    queue.add(A)
    assert await taker == A


async def test_of_two_timers_the_earlier_wins_and_adding_the_key_cancels_both() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    queue.add_after(A, 60)
    queue.add_after(A, 0.01)
    queue.add_after(A, 30)
    assert await asyncio.wait_for(queue.take(), patience(5)) == A
    queue.add_after(A, 0.01)
    queue.add(A)
    assert await queue.take() == A
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_a_key_that_is_forgotten_does_not_come_back() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    queue.add(A)
    queue.add_after(B, 0.01)
    queue.forget(A)
    queue.forget(B)
    await asyncio.sleep(0.03)
    assert len(queue) == 0
    queue.add(C)
    assert await queue.take() == C


async def test_the_queue_stalls_if_nobody_has_a_turn_and_not_if_somebody_waits_for_long() -> None:
    """A Framework that waits behind others of its own namespace must not make the kubelet end the controller."""
    now = 100.0
    queue: WorkQueue[Key] = WorkQueue(lambda: now)
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


async def test_a_key_whose_decisions_take_long_waits_until_the_others_had_as_much_time() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    spent = dict.fromkeys(KEYS, 0.0)
    for key in spent:
        queue.add(key)
    for _ in range(1000):
        key = await queue.take()
        seconds = 0.2 if key == A else 0.006
        spent[key] += seconds
        queue.charge(key, seconds)
        queue.add(key)
    assert max(spent.values()) - min(spent.values()) <= 0.2 + 0.006
    queue.forget(A)
    assert A not in {await queue.take() for _ in range(len(queue))}


async def test_a_namespace_of_many_busy_frameworks_gets_no_more_time_than_one_of_a_few() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    crowd = [("crowd", str(number)) for number in range(600)]
    spent = {"crowd": 0.0, "ns": 0.0}
    for key in (*crowd, A):
        queue.add(key)
    waited = most = 0
    for _ in range(2000):
        key = await queue.take()
        waited = 0 if key == A else waited + 1
        most = max(most, waited)
        spent[key[0]] += 0.002
        queue.charge(key, 0.002)
        queue.add(key)
    assert spent["crowd"] == pytest.approx(spent["ns"], abs=0.003)
    assert most <= 2


async def test_nothing_is_kept_of_keys_that_have_had_their_turn() -> None:
    """24 MB were kept of what 100,000 idle Frameworks had cost once."""
    queue: WorkQueue[Key] = WorkQueue()
    tracemalloc.start()
    try:
        for number in range(20_000):
            queue.add(("ns", str(number)))
        while len(queue):
            queue.charge(await queue.take(), 0.001)
        # A table that was large stays so until it is filled again.
        assert tracemalloc.get_traced_memory()[0] < 50 * 20_000
    finally:
        tracemalloc.stop()


def test_what_owners_have_cost_is_forgotten_although_somebody_always_waits() -> None:
    turns: Turns[int] = Turns()
    for number in range(20_000):
        turns.add(("ns", str(number)), number)
        turns.add(("ns", "busy"), number)
        turns.charge(("ns", str(turns.take(cost=1))), 1)
    kept = turns._parts["ns"]._costs
    assert len(kept) < MOST_KNOWN + 3 * len(turns._parts["ns"]._parts)


def test_no_namespace_is_behind_what_is_urgent_in_another() -> None:
    turns: Turns[str] = Turns()
    for number in range(4):
        turns.add(("crowd", str(number)), f"urgent {number}", urgent=True)
    turns.add(("ns", "gang"), "pod 0")
    turns.add(("ns", "gang"), "roster", urgent=True)
    order = [turns.take(cost=1) for _ in range(4)]
    assert order == ["urgent 0", "roster", "urgent 1", "pod 0"]


def test_owners_take_turns_by_namespace_first_and_their_items_stay_in_order() -> None:
    turns: Turns[str] = Turns()
    for number in range(3):
        turns.add(("crowd", "large"), f"large {number}")
    turns.add(("crowd", "small"), "small 0")
    turns.add(("ns", "gang"), "gang 0")
    turns.add(("ns", "gang"), "gang 1")
    order = []
    while turns:
        order.append(turns.take(cost=1))
    assert order == ["large 0", "gang 0", "small 0", "gang 1", "large 1", "large 2"]


class Work:
    """Items that take until a test lets them end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = asyncio.Semaphore(0)
        self._news = asyncio.Event()

    async def perform(self, job: str) -> None:
        self.begun.append(job)
        self._news.set()
        await self.gate.acquire()

    async def begins(self, number: int) -> None:
        async with asyncio.timeout(patience(5)):
            while len(self.begun) < number:
                self._news.clear()
                await self._news.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(self.begun) == number


@contextlib.asynccontextmanager
async def running(executor: Executor) -> AsyncIterator[None]:
    task = asyncio.create_task(executor.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_no_more_items_are_performed_at_a_time_than_there_are_slots() -> None:
    work = Work()
    executor = Executor(slots=2)
    for number in range(5):
        executor.submit(A, partial(work.perform, str(number)))
    async with running(executor):
        await work.begins(2)
        for number in range(3, 6):
            work.gate.release()
            await work.begins(number)
    assert work.begun == ["0", "1", "2", "3", "4"]


async def test_of_an_item_that_was_performed_nothing_is_kept() -> None:
    """Idle workers kept 64 Pods of 3 MB."""

    class Item:
        pass

    async def perform(_item: Item) -> None:
        await asyncio.sleep(0)

    now = [100.0]
    executor = Executor(slots=8, clock=lambda: now[0])
    items = [Item() for _ in range(20)]
    kept = [weakref.ref(item) for item in items]
    async with running(executor):
        while items:
            executor.submit(A, partial(perform, items.pop()))
        assert (executor.load("ns"), executor.load("other")) == (20, 0)
        assert (executor.has_only("ns"), executor.has_only("other")) == (True, False)
        for _ in range(100):
            await asyncio.sleep(0)
        assert executor.load("ns") == 20, "they have started within the last second"
        now[0] += 1.1
        assert executor.load("ns") == 0
        assert executor.has_only("other")
        assert not any(one() for one in kept)


async def test_of_what_has_started_only_the_last_second_is_kept() -> None:
    """Whose load nobody asks for kept an entry for each request."""
    now = [100.0]

    async def perform(_item: int) -> None:
        now[0] += 0.1

    executor = Executor(slots=1, clock=lambda: now[0])
    for number in range(500):
        executor.submit(A, partial(perform, number))
    async with running(executor):
        for _ in range(1000):
            await asyncio.sleep(0)
        assert now[0] > 149
        assert len(executor._started) <= 11


@in_virtual_time
async def test_of_one_that_rests_the_time_counts_and_others_have_as_much() -> None:
    begun: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()

    async def perform(item: str) -> None:
        begun.append((item, loop.time()))
        await asyncio.sleep(3 if item == "slow" else 1)

    executor = Executor(slots=1, rest=lambda _: 3)
    start = loop.time()
    for namespace, item in (("a", "slow"), ("b", "fast"), ("c", "fast")):
        for _ in range(3):
            executor.submit((namespace, "fw"), partial(perform, item))
    async with running(executor):
        await asyncio.sleep(60)
    # Two at a time, of two namespaces, with a second of rest after each; the one that takes long comes behind.
    assert [round(at - start) for item, at in begun if item == "fast"] == [0, 2, 4, 4, 6, 6]
    assert [round(at - start) for item, at in begun if item == "slow"] == [0, 8, 12]


@in_virtual_time
@pytest.mark.parametrize(("rest", "starts"), [(REST, [0, 0.8, 1.6, 2.4]), (REST_BESIDE_OTHERS, [0, 2, 4, 6])], ids=str)
async def test_what_rests_takes_a_part_of_the_time_where_others_wait(rest: int, starts: list[float]) -> None:
    """Ten statuses of 1,000 TaskRoles at half of the time more than doubled the median start of a gang beside them."""
    begun: list[float] = []
    loop = asyncio.get_running_loop()

    async def perform(_item: str) -> None:
        begun.append(loop.time())
        await asyncio.sleep(0.2)

    executor = Executor(slots=1, rest=lambda _: rest)
    start = loop.time()
    for _ in range(4):
        executor.submit(("a", "fw"), partial(perform, "write"))
    async with running(executor):
        await asyncio.sleep(10)
    assert [round(at - start, 1) for at in begun] == starts


async def test_what_is_slow_for_one_namespace_leaves_slots_to_others() -> None:
    """A webhook that took 30 s for Pods of one held all 64 slots: a gang of another started after 40 to 57 s."""
    work = Work()
    executor = Executor(slots=4)
    async with running(executor):
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


async def test_urgent_items_start_before_those_of_single_tasks_that_wait() -> None:
    work = Work()
    executor = Executor(slots=1)
    for number in range(2):
        executor.submit(A, partial(work.perform, f"pod {number}"))
    executor.submit(A, partial(work.perform, "roster"), urgent=True)
    async with running(executor):
        for number in range(1, 4):
            await work.begins(number)
            work.gate.release()
    assert work.begun == ["pod 0", "roster", "pod 1"]
