"""The work queue and the executor: no key twice, no owner starved, nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.engine.executor import HOLDS_SECONDS, PUT_OFF_BY_RATE, PUT_OFF_BY_WAIT, Executor, FairQueue
from frameworkcontroller.engine.queue import WorkQueue
from localcluster.waiting import patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_a_key_is_queued_once_and_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert [await queue.take() for _ in range(len(queue))] == ["b", "a", "c"]
    assert len(queue) == 0


async def test_taking_waits_for_a_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taker.done()
    queue.add("a")
    assert await taker == "a"


async def test_of_two_timers_the_earlier_wins_and_adding_the_key_cancels_both() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)
    assert await asyncio.wait_for(queue.take(), patience(5)) == "a"
    queue.add_after("a", 0.01)
    queue.add("a")
    assert await queue.take() == "a"
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_a_key_that_is_forgotten_does_not_come_back() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add_after("b", 0.01)
    queue.forget("a")
    queue.forget("b")
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_the_queue_knows_how_long_the_oldest_key_waits() -> None:
    now = 100.0
    queue: WorkQueue[str] = WorkQueue(lambda: now)
    assert queue.oldest_seconds == 0
    queue.add("a")
    now += 20
    queue.add("b")
    now += 3
    assert queue.oldest_seconds == 23
    await queue.take()
    assert queue.oldest_seconds == 3


async def test_a_key_whose_decisions_take_long_waits_until_the_others_had_as_much_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    spent = {"long": 0.0, "short": 0.0, "other": 0.0}
    for key in spent:
        queue.add(key)
    for _ in range(1000):
        key = await queue.take()
        seconds = 0.2 if key == "long" else 0.006
        spent[key] += seconds
        queue.charge(key, seconds)
        queue.add(key)
    assert max(spent.values()) - min(spent.values()) <= 0.2 + 0.006
    queue.forget("long")
    assert "long" not in {await queue.take() for _ in range(len(queue))}


def test_an_owner_of_many_items_gets_one_turn_before_each_other_owner_gets_one() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(3):
        queue.add("large", f"large {number}")
    queue.add("small", "small 0")
    order = []
    while queue:
        order.append(queue.take())
    assert order == ["large 0", "small 0", "large 1", "large 2"]


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
async def running(executor: Executor[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(executor.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_no_more_items_are_performed_at_a_time_than_there_are_slots() -> None:
    work = Work()
    executor = Executor(work.perform, slots=2)
    for number in range(5):
        executor.submit("owner", str(number), urgent=False)
    async with running(executor):
        await work.begins(2)
        for number in range(3, 6):
            work.gate.release()
            await work.begins(number)
    assert work.begun == ["0", "1", "2", "3", "4"]


async def test_what_can_be_put_off_waits_longer_the_longer_others_wait_for_a_slot() -> None:
    work, now = Work(), [100.0]
    executor = Executor(work.perform, slots=1, clock=lambda: now[0])
    assert executor.put_off_seconds == 0
    async with running(executor):
        executor.submit("a", "0", urgent=False)
        await work.begins(1)
        assert executor.put_off_seconds == pytest.approx(PUT_OFF_BY_RATE / HOLDS_SECONDS)
        executor.submit("a", "1", urgent=False)
        executor.submit("a", "2", urgent=True)
        now[0] += 1
        work.gate.release()
        await work.begins(2)
        first = executor.put_off_seconds
        now[0] += 1
        work.gate.release()
        await work.begins(3)
        assert 1 < first < executor.put_off_seconds < 2 * PUT_OFF_BY_WAIT
        now[0] += 60
        assert executor.put_off_seconds == pytest.approx(0, abs=1e-11)


@pytest.mark.parametrize("rate", [1, 10, 100])
async def test_what_can_be_put_off_waits_longer_the_more_there_is_to_do(rate: int) -> None:
    work, now = Work(), [100.0]
    executor = Executor(work.perform, slots=1000, clock=lambda: now[0])
    async with running(executor):
        for number in range(10 * rate):
            executor.submit(str(number), str(number), urgent=False)
            await work.begins(number + 1)
            now[0] += 1 / rate
        assert executor.put_off_seconds == pytest.approx(PUT_OFF_BY_RATE * rate, rel=0.3)
        now[0] += 60
        assert executor.put_off_seconds == pytest.approx(0, abs=1e-11)


async def test_urgent_items_start_before_those_of_single_tasks() -> None:
    work = Work()
    executor = Executor(work.perform, slots=1)
    executor.submit("a", "pod", urgent=False)
    executor.submit("a", "roster", urgent=True)
    executor.submit("b", "config map", urgent=True)
    async with running(executor):
        for number in range(1, 4):
            await work.begins(number)
            work.gate.release()
    assert work.begun == ["roster", "config map", "pod"]
