"""The work queue and the executor: nobody twice, nobody starved, nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.engine.executor import Executor, Turns
from frameworkcontroller.engine.queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_a_key_is_in_the_queue_once_and_they_come_in_the_order_of_their_adding() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert [await queue.take() for _ in range(len(queue))] == ["b", "a", "c"]
    assert len(queue) == 0


async def test_taking_waits_until_something_is_there() -> None:
    queue: WorkQueue[str] = WorkQueue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taker.done()
    queue.add("a")
    assert await taker == "a"


async def test_of_two_timers_the_earlier_wins_and_being_queued_makes_both_void() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)
    assert await asyncio.wait_for(queue.take(), 5) == "a"
    queue.add_after("a", 0.01)
    queue.add("a")
    assert await queue.take() == "a"
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_what_is_forgotten_does_not_come_back() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add_after("b", 0.01)
    queue.forget("a")
    queue.forget("b")
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_the_queue_tells_how_long_the_oldest_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    assert queue.oldest_seconds == 0
    queue.add("a")
    await asyncio.sleep(0.02)
    queue.add("b")
    assert queue.oldest_seconds >= 0.02
    await queue.take()
    assert queue.oldest_seconds < 0.02


def test_whoever_has_many_jobs_gets_one_turn_before_each_other_gets_one() -> None:
    turns: Turns[str] = Turns()
    for number in range(3):
        turns.add("large", f"large {number}")
    turns.add("small", "small 0")
    order = []
    while turns:
        order.append(turns.take())
    assert order == ["large 0", "small 0", "large 1", "large 2"]


class Work:
    """Jobs that take until they are told to end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = asyncio.Semaphore(0)
        self._news = asyncio.Event()

    async def perform(self, job: str) -> None:
        self.begun.append(job)
        self._news.set()
        await self.gate.acquire()

    async def begins(self, number: int) -> None:
        async with asyncio.timeout(5):
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


async def test_no_more_are_done_at_a_time_than_there_are_slots() -> None:
    work = Work()
    executor = Executor(work.perform, slots=2)
    for number in range(5):
        executor.submit("owner", str(number), urgent=False)
    assert executor.crowded
    async with running(executor):
        await work.begins(2)
        assert executor.crowded
        for number in range(3, 6):
            work.gate.release()
            await work.begins(number)
        assert not executor.crowded
    assert work.begun == ["0", "1", "2", "3", "4"]


async def test_what_a_whole_framework_waits_for_goes_before_what_one_task_waits_for() -> None:
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
