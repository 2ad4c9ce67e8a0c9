"""When a gang hangs and who is the culprit, by what its Pods say (docs/reference/progress.md)."""

import pytest

from frameworkbarrier.health.pulse import KNOWN, SECTIONS, Limits, Pulse
from frameworkbarrier.health.report import Report
from frameworkbarrier.health.verdict import Answer, judge

LIMITS = Limits(floor=20, factor=8, first=600)
REDUCE = ("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:1322 in all_reduce",)
BACKWARD = ("/x/torch/autograd/__init__.py:197 in backward",)
LOADS = ("/app/data.py:3 in read",)


def trained(seconds: float, steps: int, *, first: float = 0.0, section: str = "") -> tuple[Pulse, float]:
    """Return a process that has made so many steps after the first two, and the time."""
    pulse, now = Pulse(LIMITS, 0.0), first
    for step in range(1, steps + 3):
        pulse.hear(Report(step, section), now)
        now += seconds
    return pulse, now - seconds


@pytest.mark.parametrize(
    ("seconds", "steps", "limit"),
    [(1, KNOWN - 1, 600), (1, KNOWN, 20), (5, KNOWN, 40), (5, 500, 40), (300, KNOWN, 2400)],
)
def test_the_limit_is_learned_from_ten_steps_on(seconds: float, steps: int, limit: float) -> None:
    assert trained(seconds, steps)[0].limit() == limit


def test_what_it_takes_to_the_second_step_is_not_learned() -> None:
    pulse = Pulse(LIMITS, 0.0)
    for step in range(20):
        pulse.hear(Report(step), 500.0 * min(step + 1, 2) + step)
    assert pulse.limit() == 20


def test_a_section_has_a_limit_of_its_own() -> None:
    pulse, now = trained(1, 50, section="train")
    pulse.hear(Report(52, "checkpoint"), now)
    assert pulse.limit() == 600, "nothing is known of it"
    for _ in range(KNOWN):
        now += 90
        pulse.hear(Report(52, "train"), now)
        now += 1
        pulse.hear(Report(52, "checkpoint"), now)
    assert pulse.limit() == 720
    pulse.hear(Report(53, "train"), now)
    assert pulse.limit() == 20


def test_a_long_silence_that_ended_by_itself_is_no_hang_for_a_while() -> None:
    pulse, now = trained(1, 300)
    pulse.hear(Report(303), now + 200)
    for step in range(303, 603):
        pulse.hear(Report(step), now + step)
    assert 350 < pulse.limit() < 400
    for step in range(603, 40_000):
        pulse.hear(Report(step), now + step)
    assert pulse.limit() == 20


def test_steps_that_fall_are_a_move_and_teach_nothing() -> None:
    pulse, now = trained(1, 50)
    pulse.hear(Report(3), now + 500)
    assert (pulse.limit(), pulse.silent(now + 501)) == (20, 1)


@pytest.mark.parametrize(
    ("seconds", "steps", "beat", "limit"),
    [(100, 100, 0, 800), (300, 1, 5, 40), (900, 1, 5, 7200)],
    ids=["a word tells of many steps", "signs of life within a step", "a step above `first`, with signs of life"],
)
def test_silences_are_learned_and_not_steps(seconds: int, steps: int, beat: int, limit: float) -> None:
    pulse = Pulse(LIMITS, 0.0)
    for word in range(20):
        pulse.hear(Report(word * steps), float(word * seconds))
        for second in range(beat, seconds, beat) if beat else ():
            pulse.live(float(word * seconds + second))
    pulse.hear(Report(20 * steps), 20.0 * seconds)
    assert pulse.limit() == limit


def test_a_section_that_takes_longer_than_first_is_no_hang_again() -> None:
    pulse, now = trained(1, 50, section="train")
    pulse.hear(Report(52, "evaluate"), now)
    pulse.hear(Report(52, "train"), now + 1000)
    pulse.hear(Report(53, "evaluate"), now + 1001)
    assert pulse.limit() == 2000


def test_any_number_of_sections_takes_little() -> None:
    pulse = Pulse(LIMITS, 0.0)
    for step in range(1000):
        pulse.hear(Report(step, f"section {step}"), float(step))
    assert len(pulse._sections) <= SECTIONS + 1


def answer(step: int | None = 10, silent: float = 30.0, **other: object) -> Answer:
    return Answer(**{"step": step, "fastest": step, "silent": silent, "limit": 20.0, "lived": silent, **other})  # type: ignore[arg-type]


def gang(count: int, changed: dict[int, Answer] | None = None, **other: object) -> dict[str, Answer]:
    return {f"w-{index}": (changed or {}).get(index, answer(**other)) for index in range(count)}


@pytest.mark.parametrize(
    ("answers", "lost", "culprits", "why"),
    [
        (gang(4), ["w-9"], ("w-9",), "its sidecar does not answer"),
        (gang(2), ["w-7", "w-8", "w-9"], (), "not known"),
        (gang(4, {2: answer(9)}), [], ("w-2",), "is behind the others"),
        (gang(4, {1: answer(9), 2: answer(9)}), [], (), "not known"),
        (gang(2, {1: answer(9)}), [], ("w-1",), "is behind the others"),
        (gang(4) | {"evaluator-0": answer(1)}, [], (), "not known"),
        (gang(4, {2: answer(9)}) | {"evaluator-0": answer(1)}, [], ("w-2",), "is behind the others"),
        (gang(4, stack=REDUCE) | {"master-0": answer(9, stack=LOADS)}, [], ("master-0",), "the others wait for it"),
        (gang(3, {1: answer(stack=LOADS)}, stack=REDUCE), [], ("w-1",), "the others wait for it"),
        (gang(3, {1: answer()}, stack=BACKWARD), [], ("w-1",), "the others wait for it"),
        (gang(3, {1: answer(section="load")}, section="allreduce"), [], ("w-1",), "the others wait for it"),
        (gang(3, {0: answer(stack=REDUCE)}, stack=LOADS), [], (), "not known"),
        (gang(4, {3: answer(lived=39.0)}), [], ("w-3",), "was the first to be silent"),
        (gang(4, {3: answer(lived=31.5)}), [], (), "not known"),
        (gang(4, {3: answer(lived=39.0), 2: answer(lived=36.0)}), [], (), "not known"),
        (gang(1), [], ("w-0",), "is alone"),
    ],
)
def test_the_culprit_differs_from_the_others_where_it_is_one_of_few(
    answers: dict[str, Answer], lost: list[str], culprits: tuple[str, ...], why: str
) -> None:
    hang = judge(answers, lost)
    assert hang is not None
    assert (hang.culprits, hang.why) == (culprits, why)


@pytest.mark.parametrize(
    ("answers", "hangs"),
    [
        ({}, False),
        (gang(3, silent=20.0), False),
        (gang(3, silent=20.1), True),
        (gang(3, {1: answer(silent=3.0)}), False),
        (gang(3, {1: answer(limit=600.0)}), False),
        (gang(3, {1: answer(None, silent=3.0)}), False),
    ],
)
def test_a_gang_hangs_once_who_moved_last_is_silent_for_longer_than_any_limit(
    answers: dict[str, Answer], hangs: bool
) -> None:
    assert (judge(answers, []) is not None) is hangs


def test_a_gang_of_which_not_everybody_is_heard_is_waited_for_longer_and_names_nobody() -> None:
    assert judge(gang(1), [], others=2, least=600.0) is None
    hang = judge(gang(1, silent=601.0), [], others=2, least=600.0)
    assert hang is not None
    assert (hang.culprits, hang.limit) == ((), 600.0)


@pytest.mark.parametrize(("lost", "others"), [(["w-0"], 1), (["w-0"], 6), (["w-0", "w-2"], 0)])
def test_a_lead_that_hears_nobody_may_be_cut_off_itself_and_names_nobody(lost: list[str], others: int) -> None:
    """It named the first of the gang, with which it could not speak any more."""
    hang = judge({"w-1": answer()}, lost, others)
    assert hang is not None
    assert (hang.culprits, hang.why) == ((), "not known")


def test_of_two_each_names_the_other() -> None:
    hang = judge({"w-1": answer()}, ["w-0"])
    assert hang is not None
    assert hang.culprits == ("w-0",)
