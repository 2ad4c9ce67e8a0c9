"""The ends of logs in memory: which bytes stay, whatever the chunks, and after connections that broke."""

import random

from hypothesis import given
from hypothesis import strategies as st

from frameworkhistory.logs.tail import CUT, Memory, Tail

ZONES = ["Z", "+08:00"]
PLENTY = 1 << 30


def line(number: int, text: bytes, zone: str = "Z") -> bytes:
    """A line of the kubelet; ten have one second, and two one time."""
    seconds, part = divmod(number // 2, 5)
    return b"2026-01-01T12:%02d:%02d.%d00000000%s " % (*divmod(seconds, 60), part, zone.encode()) + text + b"\n"


LINES = st.lists(st.binary(max_size=90).map(lambda text: text.replace(b"\n", b"")), max_size=60)


def chunks(text: bytes, seed: int) -> list[bytes]:
    """The same bytes in pieces of any size."""
    draw, found = random.Random(seed), []
    while text:
        size = draw.choice([1, 7, 40, 200, 5000])
        found.append(text[:size])
        text = text[size:]
    return found


def fed(pieces: list[bytes], limit: int = PLENTY, memory: Memory | None = None) -> Tail:
    tail = Tail(limit, memory or Memory(PLENTY))
    for piece in pieces:
        tail.feed(piece)
    return tail


@given(LINES, st.integers(100, 3000), st.integers(), st.sampled_from(ZONES), st.booleans())
def test_the_last_bytes_stay_from_the_beginning_of_a_line_on(
    texts: list[bytes], limit: int, seed: int, zone: str, fits: bool
) -> None:
    text = b"".join(line(number, one, zone) for number, one in enumerate(texts))
    if fits:
        # As many whole lines as there is room for.
        limit -= len(text[-limit:].partition(b"\n")[0]) + 1 if len(text) > limit else 0
        limit = max(limit, 50)
    tail, last = fed(chunks(text, seed), limit), text[-limit:]
    assert tail.is_whole == (len(text) <= limit)
    if len(text) > limit and text[-limit - 1 : -limit] != b"\n":
        rest = last.partition(b"\n")[2]
        if 2 * len(rest) >= limit:
            last = rest
        else:
            begin = text.rfind(b"\n", 0, len(text) - limit) + 1
            last = text[begin:].partition(b" ")[0] + CUT + last
    assert tail.lines() == last


def test_of_one_line_without_an_end_the_end_stays_with_its_time() -> None:
    limit = 1 << 16
    begin = line(0, b"")[:-1]
    tail = fed([begin, *[b"x" * 100_000] * 500], limit)
    assert len(tail) == limit
    assert tail.lines() == begin[:-1] + CUT + b"x" * limit
    tail.feed(b"\nthe end\n")
    assert tail.lines().endswith(b"xxx\nthe end\n")


@given(LINES, st.lists(st.integers(0, 5000), max_size=4), st.integers(), st.sampled_from(ZONES), st.integers(200, 9000))
def test_after_connections_that_broke_each_line_is_there_once(
    texts: list[bytes], breaks: list[int], seed: int, zone: str, limit: int
) -> None:
    lines = [line(number, one, zone) for number, one in enumerate(texts)]
    tail = Tail(limit, Memory(PLENTY))
    for place in [*breaks, PLENTY]:
        since = tail.since
        assert not since or since.endswith(zone)
        # As the kubelet does: all of that second.
        answer = b"".join(one for one in lines if one[:19] >= since[:19].encode())[:place]
        for number, piece in enumerate(chunks(answer, seed)):
            if number == 0:
                tail.rewind(since)
            tail.feed(piece)
    whole = b"".join(lines)
    assert tail.lines().split(CUT)[-1] == whole[len(whole) - len(tail.lines().split(CUT)[-1]) :]
    assert len(tail) <= limit
    if len(whole) <= limit:
        assert tail.lines() == whole


def test_what_comes_again_of_a_second_that_was_cut_is_whole() -> None:
    whole = b"".join(line(number, b"x" * 20) for number in range(5))
    tail = fed([whole], 120)
    since = tail.since
    tail.rewind(since)
    assert len(tail) == 0
    tail.feed(whole[-110:].partition(b"\n")[2])
    assert tail.lines() == whole[-110:].partition(b"\n")[2]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 400)), max_size=100), st.integers(0, 1000))
def test_all_together_have_no_more_bytes_than_they_may_and_the_longest_of_the_namespace_with_most_pays(
    pieces: list[tuple[int, int]], limit: int
) -> None:
    memory = Memory(limit)
    tails = [Tail(PLENTY, memory, "one" if place else "other") for place in range(5)]
    for place, size in pieces:
        tails[place].feed(b"a" * size)
        assert memory.used == sum(map(len, tails)) <= limit
        if tails[0].seen < limit // 2:
            assert tails[0].is_whole, "a namespace with few keeps all of them"
    for tail in tails:
        assert tail.is_whole == (len(tail) == tail.seen)
        tail.release()
    assert (memory.used, memory.tails, memory._used_by) == (0, set(), {})
