"""What processes say of their progress, in real files and as text (docs/reference/progress.md)."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkbarrier.health import pod as pods
from frameworkbarrier.health import report
from frameworkbarrier.health.lead import ANSWER_BYTES, MUTE, decode, encode
from frameworkbarrier.health.pod import Pod
from frameworkbarrier.health.pulse import Limits
from frameworkbarrier.health.report import Report
from frameworkbarrier.health.verdict import Answer

LIMITS = Limits(floor=120, factor=8, first=1800)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ("step", "section", "checkpoint", "alive", "thread", "numbers")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"12", Report(12)),
        (b"12\n", Report(12)),
        (b"11\n12\n1", Report(12)),
        (b"11\n12\n\n", Report(12)),
        (b" 12.0 \n", Report(12)),
        (b'{"step": 3, "section": "forward"}\n', Report(3, "forward")),
        (b'{"step": 3, "numbers": {"loss": 0.5, "bad": "x", "worse": NaN}}', Report(3, numbers={"loss": 0.5})),
        (b'{"section": "a\\u0000b\\n' + b"c" * 99 + b'"}', Report(section="a b " + "c" * 35 + "…")),
        (b'{"step": true, "checkpoint": -1, "alive": [1]}', Report()),
        (b"-1", None),
        (b"1e999", None),
        (b"true", None),
        (b"[1]", None),
        (b"[" * 4000, None),
        (b"1" * 4097, None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_the_last_whole_line_is_what_a_process_says(data: bytes, expected: Report | None) -> None:
    assert report.read(report.last_line(data)) == expected


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.binary(max_size=200))
def test_nothing_that_a_process_says_is_an_error_or_makes_an_answer_too_long(found: object, noise: bytes) -> None:
    pod = Pod("/nowhere", LIMITS)
    for data in (json.dumps(found).encode(), noise):
        pod.hear("/one", data, 1.0)
    answer = pod.answer(2.0)
    written = encode(answer, "12345678", 3)
    assert len(written) <= ANSWER_BYTES
    assert decode(written, "12345678", 3) == (answer or MUTE)
    assert decode(written, "12345678", 4) is None


@given(st.dictionaries(st.sampled_from(("uid", "epoch", "silent", "limit", "lived", "stack", *FIELDS)), JSON))
def test_the_answer_of_a_stranger_is_never_an_error(found: dict[str, object]) -> None:
    decode(json.dumps(found | {"uid": "u", "epoch": 0}).encode(), "u", 0)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A Pod whose processes report in the folder of the test."""
    return Pod(str(tmp_path), LIMITS)


def said(pod: Pod, now: float) -> Answer:
    """What it answers, while some process of it reports."""
    answer = pod.answer(now)
    assert answer is not None
    return answer


def test_a_pod_is_as_far_as_its_slowest_process(pod: Pod, tmp_path: Path) -> None:
    assert pod.answer(0.0) is None
    (tmp_path / "rank.1").write_text('{"step": 8, "checkpoint": 5}')
    (tmp_path / "rank.2").write_text("5\n6\n")
    (tmp_path / "other").write_text("1")
    (tmp_path / "rank.3").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / "rank.4")
    pod.look(0.0)
    pod.hear("/posted", b"7", 10.0)
    answer = said(pod, 30.0)
    assert (answer.step, answer.fastest, answer.checkpoint, answer.processes) == (6, 8, 5, 3)
    assert (answer.silent, answer.lived, answer.limit) == (20.0, 30.0, 1800)
    (tmp_path / "rank.2").unlink()
    pod.look(31.0)
    assert said(pod, 31.0).step == 7


def test_of_a_pod_that_has_done_its_work_and_waits_for_its_peers_no_progress_is_expected(tmp_path: Path) -> None:
    """One that reports by a file or by HTTP was taken for one that hangs, and its gang restarted."""
    held = tmp_path / "held"
    pod = Pod(str(tmp_path), LIMITS, str(held))
    pod.hear("/posted", b"7", 0.0)
    assert said(pod, 1.0).step == 7
    held.touch()
    assert pod.answer(2.0) is None
    held.unlink()
    assert said(pod, 3.0).step == 7


def test_a_touch_is_a_sign_of_life_and_no_step(pod: Pod, tmp_path: Path) -> None:
    file = tmp_path / "rank"
    file.write_text("4\n")
    pod.look(0.0)
    os.utime(file, (1, 1))
    pod.look(100.0)
    answer = said(pod, 110.0)
    assert (answer.silent, answer.lived, answer.step) == (10.0, 10.0, 4)
    os.utime(file, (2, 2))
    pod.look(1990.0)
    assert said(pod, 2000.0).silent == 2000.0, "after hang-first, signs of life count no more"


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_a_file_that_grows_is_cut_and_a_program_that_holds_it_open_goes_on_behind_that(
    pod: Pod, tmp_path: Path, mode: str
) -> None:
    pods.prepare(str(tmp_path), anew=True)
    with (tmp_path / "rank").open(mode) as held:
        for step in range(3):
            held.write(f"{' ' * pods.CUT_AT}\n{step}\n")
            held.flush()
            pod.look(float(step))
            assert (tmp_path / "rank").stat().st_size == 0
            assert said(pod, 9.0).step == step


def test_an_epoch_begins_without_the_files_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "rank.9").write_text("900\n")
    (tmp_path / "rank.9.stack").write_text("x")
    pods.prepare(str(tmp_path), anew=False)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rank", "rank.9", "rank.9.stack"]
    pods.prepare(str(tmp_path), anew=True)
    assert [one.name for one in tmp_path.iterdir()] == ["rank"]
    assert (tmp_path / "rank").stat().st_mode & 0o777 == 0o666


def test_there_are_bounds_for_processes_and_files(pod: Pod, tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"rank.{number}").write_text("1")
        pod.hear(f"/{number}", b"1", 0.0)
    pod.look(0.0)
    assert said(pod, 0.0).processes == pods.PROCESSES


def test_the_stack_is_that_of_the_thread_which_makes_steps(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "rank.1").write_text('{"step": 1, "thread": "0x00007f02"}')
    (tmp_path / "rank.1.stack").write_text(
        "Timeout (0:00:05)!\nThread 0x00007f01 (most recent call first):\n"
        '  File "/usr/lib/python3/threading.py", line 1 in wait\n\n'
        'Thread 0x00007f02 (most recent call first):\n  File "/app/train.py", line 12 in load\n'
        '  File "/app/train.py", line 40 in main\n  File "/app/train.py", line 50 in <module>\n'
    )
    with (tmp_path / "rank.1").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pod.look(0.0)
        assert said(pod, 0.0).stack == ("/app/train.py:12 in load", "/app/train.py:40 in main")


def test_a_process_that_was_killed_keeps_nobody_waiting(pod: Pod, tmp_path: Path) -> None:
    """One that is watched without a change of its program holds a lock as long as it lives."""
    (tmp_path / "rank.1.stack").touch()
    with (tmp_path / "rank.1.stack").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pod.look(0.0)
        answer = said(pod, 5.0)
        assert (answer.step, answer.silent, answer.limit) == (None, 5.0, 1800), "it has joined its peers"
        (tmp_path / "rank.1").write_text('{"step": 1, "thread": "0x1", "checkpoint": 1}')
        pod.look(6.0)
        answer = said(pod, 6.0)
        assert (answer.step, answer.saved) == (1, True)
    pod.look(7.0)
    assert pod.answer(7.0) is None


def test_a_process_that_ends_before_its_first_step_keeps_nobody_waiting(pod: Pod, tmp_path: Path) -> None:
    """It stayed for good, with the limit of one that has just begun."""
    stack = tmp_path / "rank.1.stack"
    for has_reported in (False, True):
        with stack.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            pod.look(0.0)
            if has_reported:
                (tmp_path / "rank.1").write_text('{"step": 1, "thread": "0x1"}')
                pod.look(1.0)
                (tmp_path / "rank.1").unlink()
                pod.look(2.0)
            assert said(pod, 2.0).processes == 1
            stack.unlink()
        pod.look(3.0)
        assert pod.answer(3.0) is None


def test_who_has_been_silent_longest_gives_way_where_there_are_too_many(pod: Pod) -> None:
    for number in range(2 * pods.PROCESSES):
        assert pod.hear(f"http {number}", str(number).encode(), float(number))
    answer = said(pod, 200.0)
    assert (answer.step, answer.processes) == (pods.PROCESSES, pods.PROCESSES)


def test_what_is_posted_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "outside.stack").write_text('Thread 0x1 (most recent call first):\n  File "/a.py", line 3 in read\n')
    pod = Pod(str(tmp_path / "inside"), LIMITS)
    pod.hear(f"http {tmp_path}/outside", b'{"step": 1, "thread": "0x1"}', 0.0)
    assert said(pod, 0.0).stack == ()


def test_the_last_verdict_stays_where_the_pod_stays(tmp_path: Path) -> None:
    assert pods.last_verdict(str(tmp_path)) is None
    pods.keep_verdict(str(tmp_path), '{"epoch":3}')
    pods.prepare(str(tmp_path), anew=True)
    assert pods.last_verdict(str(tmp_path)) == {"epoch": 3}
