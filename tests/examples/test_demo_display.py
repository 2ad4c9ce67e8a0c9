"""How a run reads: plain lines, the screen, the summary."""

from __future__ import annotations

import io
import json
import threading
from itertools import pairwise

import pytest
from rich.console import Console

from demo import events
from demo.display import Board, Display, Plain, Screen, choose
from demo.facts import TaskKey
from demo.lines import changes
from demo.model import Demo
from demo.screen import picture, summary_picture
from demo.summary import as_json, as_lines, summarize
from examples.gang import APPLIED_AT, CHIEF, WORKER0, WORKER1, Gang, ended, running, whole_life


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(gang: Gang) -> list[str]:
    """Return all lines of a life, in order."""
    lines: list[str] = []
    for before, after in pairwise(gang.states):
        lines += changes(before, after, APPLIED_AT)
    return lines


def drawn(demo: Demo, *, width: int = 120, height: int = 40, now: float = APPLIED_AT + 30) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, height=height).print(picture(demo, now, height))
    return stream.getvalue()


def test_a_good_run_reads_from_apply_to_completed() -> None:
    lines = told(whole_life())
    wanted = [
        "Framework spirals applied, 3 Tasks",
        "chief-0: not scheduled",
        "worker-1: waits in the barrier, on node-a, 10.64.0.4",
        "gang: 3 of 3 ready",
        "the last Task is ready, the gate opens",
        "gate open after 4.0 s",
        "Framework spirals: AttemptRunning",
        "chief-0 | 2026-11-21T00:00:09Z training started, first loss 0.7",
        "training started after 9.0 s",
        "chief-0 | step 150/1500 loss 0.3",
        "Framework spirals: Completed, Succeeded",
        "gang: done in 30.0 s",
    ]
    assert [line for line in lines if line in wanted] == wanted


def test_nothing_new_is_no_line() -> None:
    demo = whole_life().demo
    assert changes(demo, demo, APPLIED_AT + 100) == []


def test_no_line_is_said_twice_in_a_row() -> None:
    lines = told(whole_life())
    assert [line for line, following in pairwise(lines) if line == following] == []


def test_only_the_chiefs_log_is_in_the_lines() -> None:
    gang = Gang().applied().says(1, WORKER0, "worker speaks").says(2, CHIEF, "chief speaks")
    assert "chief-0 | chief speaks" in told(gang)
    assert not [line for line in told(gang) if "worker speaks" in line]


def test_a_log_longer_than_what_is_kept_is_told_line_by_line_without_gaps() -> None:
    gang = Gang().applied()
    for number in range(150):
        gang.says(1, CHIEF, f"line {number}")
    assert [line for line in told(gang) if " | " in line] == [f"chief-0 | line {number}" for number in range(150)]


def test_the_trouble_of_a_pod_stands_in_its_line() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    gang = Gang().applied().pod(1, WORKER1, conditions=[condition])
    assert "worker-1: not scheduled (Unschedulable: 0/1 nodes)" in told(gang)


def test_a_failed_container_tells_its_exit_code() -> None:
    gang = Gang().applied().pod(1, WORKER1, node="a", barrier=ended(), application=ended(3, "Error"))
    assert "worker-1: failed, on a (tensorflow: Error: exit code 3)" in told(gang)


def test_a_second_attempt_is_told() -> None:
    gang = Gang().applied().framework(1, "AttemptRunning").framework(9, "AttemptCreationPending", attempt=1)
    assert "the gang starts again, attempt 2" in told(gang)


def test_a_long_part_of_a_step_gives_a_sign_of_life_every_half_minute_and_a_short_one_none() -> None:
    gang = Gang().post(events.Planned(0, ("cluster",)), events.StepBegan(0, "cluster"))
    gang.post(events.WorkBegan(0, "build kubelet"))
    for second in range(1, 71):
        gang.post(events.WorkTold(second, "build kubelet", f"{second} packages"))
    gang.post(events.WorkEnded(71, "build kubelet"))
    gang.post(events.WorkBegan(71, "start etcd"), events.WorkEnded(71.3, "start etcd"))
    lines = [line for line in told(gang) if line.startswith("  ")]
    assert [line.split(",")[-1].strip() for line in lines[:2]] == ["30 packages", "60 packages"]
    assert lines[2:] == ["  build kubelet: 1 min 11 s"]


def test_plain_lines_have_no_control_characters_whatever_a_log_holds() -> None:
    stream = io.StringIO()
    board = Board(Plain(stream), clock=lambda: APPLIED_AT)
    for state in Gang().applied().post(events.Logged(APPLIED_AT, CHIEF, "", False, "\x1b[31mred\x07\r")).states:
        Plain(stream).changed(Demo(), state, APPLIED_AT)
    board.post(events.Said("hello"))
    text = stream.getvalue()
    assert "chief-0 | red" in text
    assert [character for character in text if not character.isprintable() and character != "\n"] == []


def test_the_picture_shows_tasks_addresses_the_gang_and_the_log() -> None:
    text = drawn(whole_life().demo)
    for part in (
        "spirals",
        "chief-0",
        "worker-1",
        "node-a",
        "3/3 ready",
        "gate open after 4.0 s",
        "step 150/1500",
        "succeeded",
    ):
        assert part in text


@pytest.mark.parametrize("state", range(0, 40, 3))
def test_the_picture_can_be_drawn_at_any_moment(state: int) -> None:
    states = whole_life().states
    assert "FrameworkController demo" in drawn(states[min(state, len(states) - 1)])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 24)], ids=["small", "large", "narrow"])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    gang = whole_life()
    for number in range(60):
        gang.says(11, CHIEF, f"a long line {number} " + "x" * 300)
    lines = drawn(gang.demo, width=width, height=height).splitlines()
    assert max(len(line) for line in lines) <= width
    assert len(lines) <= height


def test_markup_in_foreign_text_is_shown_not_obeyed() -> None:
    gang = Gang().applied().says(1, CHIEF, "[bold red]loss[/] \x1b[31m0.5")
    assert "[bold red]loss[/] 0.5" in drawn(gang.demo)


def test_the_summary_counts_from_the_apply() -> None:
    summary = summarize(whole_life().demo, APPLIED_AT + 21)
    assert summary.milestones == {"created": 1.0, "addressed": 3.0, "opened": 4.0, "started": 9.0, "completed": 20.0}
    assert summary.phases == {"cluster": 10.0, "gang": 30.0}
    assert (summary.succeeded, summary.retries, summary.total) == (True, 0, 41.0)


def test_the_summary_of_a_run_that_broke_off_has_holes_not_zeros() -> None:
    summary = summarize(Gang().applied().pod(1, CHIEF).demo, APPLIED_AT + 5)
    assert summary.milestones["opened"] is None
    assert not summary.succeeded
    assert next(line for line in as_lines(summary) if "gate open" in line).endswith("-")


def test_the_summary_can_be_drawn_even_if_nothing_happened() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(summary_picture(summarize(Demo(), 5)))
    assert "not applied" in stream.getvalue()


def test_the_json_holds_all_of_the_summary() -> None:
    read = json.loads(as_json(summarize(whole_life().demo, APPLIED_AT + 21)))
    assert read["milestones"]["opened"] == 4.0
    assert read["outcome"] == "Completed, Succeeded"
    assert set(read) == {"outcome", "succeeded", "retries", "phases", "parts", "milestones", "total"}


@pytest.mark.parametrize(
    ("stream", "environ", "kind"),
    [
        (Terminal(), {"TERM": "xterm"}, Screen),
        (io.StringIO(), {"TERM": "xterm"}, Plain),
        (Terminal(), {"TERM": "dumb"}, Plain),
        (Terminal(), {}, Plain),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, Plain),
        (Terminal(), {"TERM": "xterm", "CI": "true"}, Plain),
    ],
    ids=["terminal", "pipe", "dumb", "unknown", "no-color", "ci"],
)
def test_a_screen_is_drawn_only_where_a_person_looks(
    stream: io.StringIO, environ: dict[str, str], kind: type[Display]
) -> None:
    assert isinstance(choose(stream, environ), kind)


def test_the_screen_leaves_the_terminal_as_it_was() -> None:
    stream = Terminal()
    with Screen(Console(file=stream, force_terminal=True, width=100, height=30), clock=lambda: APPLIED_AT) as screen:
        screen.changed(Demo(), whole_life().demo, APPLIED_AT)
    assert stream.getvalue().rfind("\x1b[?25h") > stream.getvalue().rfind("\x1b[?25l")


def test_the_board_wakes_who_waits_for_what_another_thread_posts() -> None:
    board = Board(Plain(io.StringIO()))
    board.post(events.Planned(0, ()))
    later = threading.Timer(0.05, board.post, [events.Applied(1, "spirals", (TaskKey("chief", 0),))])
    later.start()
    assert board.wait(lambda demo: demo.applied is not None, 10)
    later.join()


def test_a_closed_board_takes_no_more_events() -> None:
    stream = io.StringIO()
    board = Board(Plain(stream))
    board.post(events.Said("before"))
    board.close()
    board.post(events.Said("after"))
    assert "before" in stream.getvalue()
    assert "after" not in stream.getvalue()


def test_the_board_waits_no_longer_than_it_was_told() -> None:
    assert not Board(Plain(io.StringIO())).wait(lambda demo: demo.finished, 0.05)


def test_a_task_that_reaches_the_barrier_is_told_with_its_place_and_counted() -> None:
    gang = Gang().applied().pod(1, CHIEF, node="a", ip="10.0.0.9", barrier=running())
    assert told(gang)[-2:] == ["chief-0: waits in the barrier, on a, 10.0.0.9", "gang: 1 of 3 ready"]
