"""Sources take turns by the time that they have had."""

import asyncio
from collections import Counter
from collections.abc import Collection

from frameworkinjector.serving.turns import AT_ONCE_SECONDS, Turns


async def shares(
    of: dict[str, tuple[int, float]], turns: int, slots: int = 1, known: Collection[str] = ()
) -> Counter[str]:
    """How many of the first turns each source has had, that asks for so many at once and takes these seconds."""
    now, had = 0.0, list[str]()
    fair = Turns(slots, lambda: now, known)

    async def one(source: str, seconds: float) -> None:
        nonlocal now
        async with fair.of(source, source.encode()):
            await asyncio.sleep(0)
            now += seconds
            had.append(source)

    asking = [one(source, seconds) for source, (number, seconds) in of.items() for _ in range(number)]
    await asyncio.gather(*asking)
    assert (fair._free, fair._free_for_others) == (slots, (slots + 1) // 2)
    for queue in (fair._first, fair._others):
        assert (queue._count, queue._parts, queue._heap) == (0, {}, []), "nothing is kept"
    return Counter(had[:turns])


async def test_equal_time_and_not_equal_turns() -> None:
    """One Pod with costly reviews let each of those of others wait for one of its own."""
    assert await shares({"costly": (40, 0.05), "cheap": (60, 0.001)}, 62) == {"costly": 2, "cheap": 60}


async def test_who_comes_later_has_saved_nothing_up() -> None:
    now = 0.0
    fair, had = Turns(1, lambda: now), list[str]()

    async def one(source: str) -> None:
        nonlocal now
        async with fair.of(source):
            await asyncio.sleep(0)
            now += 0.01
            had.append(source)
            if len(had) == 10:
                half.set()

    half = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(one("early"))
        await half.wait()
        for _ in range(10):
            group.create_task(one("late"))
    assert Counter(had[10:18]) == {"early": 4, "late": 4}


async def test_who_comes_next_waits_for_a_bounded_part_of_those_that_came_at_once() -> None:
    """A hundred connections whose Pods arrive in one turn of the event loop had all their reviews before others."""
    now, had = 0.0, list[str]()
    fair = Turns(1, lambda: now)

    async def one(source: str) -> None:
        nonlocal now
        async with fair.of(source):
            now += AT_ONCE_SECONDS / 4
            had.append(source)

    many = [asyncio.create_task(one("many")) for _ in range(100)]
    await asyncio.sleep(0)
    assert len(had) == 4
    await asyncio.gather(one("next"), *many)
    assert had.index("next") < 8, had


async def test_of_equals_each_has_a_turn() -> None:
    """Of slots that become free one after the other, a source took all before it had had any time."""
    same = {"first": (8, 1.0), "second": (8, 1.0), "third": (8, 1.0)}
    assert await shares(same, 12, slots=4) == {"first": 4, "second": 4, "third": 4}


async def test_who_is_known_comes_first() -> None:
    assert await shares({"other": (9, 1 / 32), "known": (99, 1 / 1024)}, 100, known={"known"}) == {
        "other": 1,
        "known": 99,
    }
    assert await shares({"first": (9, 1.0), "second": (3, 1.0)}, 6, known={"first", "second"}) == {
        "first": 3,
        "second": 3,
    }


async def test_others_have_a_fifth_of_the_time_beside_known_ones() -> None:
    """Costly reviews of one API server were the end of all of another one that was not known yet."""
    same = {"known": (90, 1 / 1024), "other": (20, 1 / 1024)}
    assert await shares(same, 100, known={"known"}) == {"known": 80, "other": 20}


async def test_others_have_half_of_the_turns_at_most() -> None:
    fair = Turns(4, lambda: 0.0, {"known"})
    began, done = list[str](), asyncio.Event()

    async def one(source: str) -> None:
        async with fair.of(source):
            began.append(source)
            await done.wait()

    async with asyncio.TaskGroup() as group:
        for source in ["other"] * 5 + ["known"] * 3:
            group.create_task(one(source))
        for _ in range(10):
            await asyncio.sleep(0)
        assert Counter(began) == {"other": 2, "known": 2}
        done.set()
    assert (fair._free, fair._free_for_others, bool(fair._others)) == (4, 2, False)


async def test_of_a_source_that_is_known_those_take_turns_for_whom_it_asks() -> None:
    """All namespaces are one source behind an API server: costly Pods of one held up those of all."""
    turns, had = Turns(1, lambda: 0.0, {"api", "next"}), list[str]()

    async def one(namespace: str, server: str = "api") -> None:
        async with turns.of(server, namespace.strip("-").encode()):
            had.append(namespace)
            await asyncio.sleep(0)

    await asyncio.gather(*map(one, "aaaab"))
    assert "".join(had) == "aabaa"
    had.clear()
    await asyncio.gather(*map(one, "a---bb", ["api", "api", "next", "next", "api", "api"]))
    assert "".join(had) == "a-b-b-", "those that do not say it are one source, by whichever server they come"


async def test_nothing_is_kept_of_those_that_gave_up_before_their_turn() -> None:
    """One source kept 78,000 so, which went in 0.12 s of one turn of the event loop."""
    fair = Turns(1, lambda: 0.0)

    async def one() -> None:
        async with fair.of("many"):
            raise AssertionError

    async with fair.of("other"):
        waiting = [asyncio.create_task(one()) for _ in range(10)]
        await asyncio.sleep(0)
        assert fair._others._count == 10
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (fair._others._count, len(fair._others._parts["many"]._items)) == (0, 0)
    async with asyncio.timeout(5), fair.of("many"):
        pass


async def test_who_gives_up_has_no_turn_and_keeps_none() -> None:
    fair = Turns(4, lambda: 0.0)
    holding = asyncio.Event()

    async def one(source: str) -> None:
        async with fair.of(source):
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
    assert (fair._free, fair._free_for_others, bool(fair._others)) == (4, 2, False)
    async with asyncio.timeout(5), fair.of("e"), fair.of("f"):
        pass
