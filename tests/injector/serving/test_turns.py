"""Sources take turns, and who is known comes first."""

import asyncio
from collections.abc import Collection

from frameworkinjector.serving.turns import Turns


async def order(asking: Collection[str], slots: int = 1, known: Collection[str] = ()) -> str:
    """In which order those have their turns who ask at once, a turn of the loop each."""
    turns, had = Turns(slots, known), list[str]()

    async def one(source: str) -> None:
        async with turns.of(source):
            had.append(source)
            await asyncio.sleep(0)

    await asyncio.gather(*map(one, asking))
    assert (turns._free, turns._free_for_others, turns._waiting) == (slots, (slots + 1) // 2, {}), "nothing is kept"
    return "".join(had)


async def test_each_source_has_a_turn_before_one_has_another() -> None:
    assert await order("aaaabbc") == "aabcaba"


async def test_who_is_known_comes_before_all_others() -> None:
    assert await order("aabkkl", known="kl") == "aklkab"


async def test_others_have_half_of_the_turns_at_most() -> None:
    turns = Turns(4, "kl")
    began, done = list[str](), asyncio.Event()

    async def one(source: str) -> None:
        async with turns.of(source):
            began.append(source)
            await done.wait()

    async with asyncio.TaskGroup() as group:
        for source in "abcdeklk":
            group.create_task(one(source))
        for _ in range(10):
            await asyncio.sleep(0)
        assert began == list("abkl")
        done.set()
    assert (turns._free, turns._free_for_others, turns._waiting) == (4, 2, {})


async def test_who_gives_up_has_no_turn_and_keeps_none() -> None:
    turns = Turns(4)
    holding = asyncio.Event()

    async def one(source: str) -> None:
        async with turns.of(source):
            await holding.wait()

    first, second, third, fourth = (asyncio.create_task(one(source)) for source in "abcd")
    await asyncio.sleep(0)
    third.cancel()
    await asyncio.sleep(0)
    first.cancel()  # its turn goes to the fourth, which is given up before it can begin
    await asyncio.sleep(0)
    fourth.cancel()
    holding.set()
    await asyncio.gather(first, second, third, fourth, return_exceptions=True)
    assert (turns._free, turns._free_for_others, turns._waiting) == (4, 2, {})
    async with asyncio.timeout(5), turns.of("e"), turns.of("f"):
        pass
