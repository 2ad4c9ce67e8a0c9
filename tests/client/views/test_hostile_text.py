"""Text of containers and of others that is made to cost time, or to reach the terminal as more than text.

What the filters of output may cost, lines in chunks and `--grep` included, is in `tests/cost`.
"""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frameworkclient.diagnosis.tasks import CREATION, advice
from frameworkclient.views.text import sanitize
from tests.client.documents import container, pod
from tests.client.logs.test_lines import printed

SEQUENCES = ("\x1b]", "\x1b]0;a", "\x1b[", "\x1b[0;1", "\x1b[ !", "\x1b", "\x9b1;", "\x9d", "\x1bP", "\x1b]\x1b[0")
WORDS = ("\r", "\x07", "a", "0;", 'admission webhook "w" ', 'serviceaccount "', "Insufficient /", "error ")
OPENERS = (*SEQUENCES, *WORDS)
HOSTILE = st.lists(
    st.sampled_from([*OPENERS, "\x07", "\x1b\\", "m", "J", "\x1b[0m", "\x85", "\u202e", "\n", "\t"])
    | st.text(max_size=3),
    max_size=30,
).map("".join)
RATIO = 12
"""Of the CPU time of four times the text: 4 where it is linear, 16 where it is quadratic."""


READERS: dict[str, Callable[[str], object]] = {
    "advice": lambda text: advice(CREATION, text, ""),
    "reason of a Pod": lambda text: pod(statuses=[container("main", "terminated", exitCode=1, message=text)]).reason,
}


def seconds(work: Callable[[str], object], text: str) -> float:
    """The CPU time that the work takes, the best of some; what is too short to be measured counts as a millisecond."""
    best = float("inf")
    for _ in range(4):
        began = time.process_time()
        work(text)
        best = min(best, time.process_time() - began)
    return max(best, 1e-3)


@pytest.mark.parametrize("name", READERS)
def test_the_time_is_linear_in_text_that_opens_what_never_ends(name: str) -> None:
    for opener in OPENERS:
        few, many = (opener * (length // len(opener)) for length in (15_000, 60_000))
        assert seconds(READERS[name], many) < RATIO * seconds(READERS[name], few), repr(opener)


def test_control_sequences_and_what_is_not_visible_are_removed() -> None:
    assert sanitize("\x1b[2J\x1b]0;title\x07a\tb\rc\x9b31m\u202ed\ne") == "a    b cd e"


@given(HOSTILE)
def test_nothing_but_what_is_visible_is_left_of_text_of_others(text: str) -> None:
    assert sanitize(text).isprintable()


@given(HOSTILE.map(lambda text: text.replace("\n", "")))
@example("an end\x1b")
def test_nothing_but_colours_reaches_the_terminal_from_a_log(text: str) -> None:
    plain = printed(text, on_terminal=True)
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain) is None
    coloured = printed(text, colours=True, on_terminal=True)
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;]*m", "", coloured)) is None
    assert coloured.rfind("\x1b[") == coloured.rfind("\x1b[0m")
