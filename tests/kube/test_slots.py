"""Slots: many of one source hold up no other, and nothing is kept of whoever has none."""

import asyncio
import gc

from frameworkkube.slots import Slots


async def test_a_source_has_its_slots_and_those_that_wait_take_none_of_others() -> None:
    slots, going, done = Slots(2, 3), list[str](), asyncio.Event()

    async def one(source: str) -> None:
        async with slots.of(source):
            going.append(source)
            await done.wait()

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(one(source)) for source in "aaaabb"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert going == ["a", "a", "b"]
        # Who gives up keeps none.
        waiting[2].cancel()
        done.set()
    assert sorted(going) == ["a", "a", "a", "b", "b"]
    # Those that have ended refer to what they waited for.
    waiting.clear()
    gc.collect()
    assert not slots._of
