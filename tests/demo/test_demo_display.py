"""How a run is shown: plain lines, the live picture, the summary."""

from __future__ import annotations

import io
import json
import threading
from itertools import pairwise

import pytest
from rich.console import Console

from frameworkdemo.picture import events
from frameworkdemo.picture.display import Display, LiveDisplay, PlainDisplay, choose_display
from frameworkdemo.picture.objects import TaskKey
from frameworkdemo.picture.plain import describe_changes
from frameworkdemo.picture.render import render_run, render_summary
from frameworkdemo.picture.state import RunState
from frameworkdemo.picture.store import RunStore
from frameworkdemo.picture.summary import as_json, as_lines, summarize
from tests.demo.gang import APPLIED_AT, CHIEF, WORKER0, WORKER1, Gang, ended, running, successful_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_of(gang: Gang) -> list[str]:
    """Return the lines that describe all changes of a run, in order."""
    lines: list[str] = []
    for before, after in pairwise(gang.states):
        lines += describe_changes(before, after, APPLIED_AT)
    return lines


def drawn(state: RunState, *, width: int = 120, height: int = 40, now: float = APPLIED_AT + 30) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, height=height).print(render_run(state, now, height))
    return stream.getvalue()


def test_the_lines_of_a_successful_run_lead_from_apply_to_completed() -> None:
    lines = lines_of(successful_run())
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


def test_a_state_that_did_not_change_has_no_lines() -> None:
    state = successful_run().state
    assert describe_changes(state, state, APPLIED_AT + 100) == []


def test_no_line_is_repeated() -> None:
    lines = lines_of(successful_run())
    assert [line for line, following in pairwise(lines) if line == following] == []


def test_only_the_chiefs_log_is_in_the_lines() -> None:
    gang = Gang().applied().log(1, WORKER0, "worker speaks").log(2, CHIEF, "chief speaks")
    assert "chief-0 | chief speaks" in lines_of(gang)
    assert not [line for line in lines_of(gang) if "worker speaks" in line]


def test_a_log_longer_than_what_is_kept_is_shown_line_by_line_without_gaps() -> None:
    gang = Gang().applied()
    for number in range(150):
        gang.log(1, CHIEF, f"line {number}")
    assert [line for line in lines_of(gang) if " | " in line] == [f"chief-0 | line {number}" for number in range(150)]


def test_the_line_of_a_pod_has_the_reason_why_it_does_not_start() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    gang = Gang().applied().pod(1, WORKER1, conditions=[condition])
    assert "worker-1: not scheduled (Unschedulable: 0/1 nodes)" in lines_of(gang)


def test_the_line_of_a_failed_container_has_its_exit_code() -> None:
    gang = Gang().applied().pod(1, WORKER1, node="a", barrier=ended(), application=ended(3, "Error"))
    assert "worker-1: failed, on a (tensorflow: Error: exit code 3)" in lines_of(gang)


def test_a_second_attempt_has_a_line() -> None:
    gang = Gang().applied().framework(1, "AttemptRunning").framework(9, "AttemptCreationPending", attempt=1)
    assert "the gang starts again, attempt 2" in lines_of(gang)


def test_a_long_part_of_a_step_has_a_line_every_half_minute_and_a_short_one_none() -> None:
    gang = Gang().post(events.RunPlanned(0, ("cluster",)), events.StepStarted(0, "cluster"))
    gang.post(events.PartStarted(0, "build kubelet"))
    for second in range(1, 71):
        gang.post(events.PartProgressed(second, "build kubelet", f"{second} packages"))
    gang.post(events.PartEnded(71, "build kubelet"))
    gang.post(events.PartStarted(71, "start etcd"), events.PartEnded(71.3, "start etcd"))
    lines = [line for line in lines_of(gang) if line.startswith("  ")]
    assert [line.split(",")[-1].strip() for line in lines[:2]] == ["30 packages", "60 packages"]
    assert lines[2:] == ["  build kubelet: 1 min 11 s"]


def test_plain_lines_have_no_control_characters_whatever_a_log_holds() -> None:
    stream = io.StringIO()
    store = RunStore(PlainDisplay(stream), clock=lambda: APPLIED_AT)
    for state in Gang().applied().post(events.LogLine(APPLIED_AT, CHIEF, "", False, "\x1b[31mred\x07\r")).states:
        PlainDisplay(stream).changed(RunState(), state, APPLIED_AT)
    store.post(events.Notice("hello"))
    text = stream.getvalue()
    assert "chief-0 | red" in text
    assert [character for character in text if not character.isprintable() and character != "\n"] == []


def test_the_picture_shows_tasks_addresses_the_gang_and_the_log() -> None:
    text = drawn(successful_run().state)
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
    states = successful_run().states
    assert "FrameworkController demo" in drawn(states[min(state, len(states) - 1)])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 24)], ids=["small", "large", "narrow"])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    gang = successful_run()
    for number in range(60):
        gang.log(11, CHIEF, f"a long line {number} " + "x" * 300)
    lines = drawn(gang.state, width=width, height=height).splitlines()
    assert max(len(line) for line in lines) <= width
    assert len(lines) <= height


def test_markup_in_logs_is_shown_and_not_interpreted() -> None:
    gang = Gang().applied().log(1, CHIEF, "[bold red]loss[/] \x1b[31m0.5")
    assert "[bold red]loss[/] 0.5" in drawn(gang.state)


def test_the_summary_counts_from_the_apply() -> None:
    summary = summarize(successful_run().state, APPLIED_AT + 21)
    assert summary.milestones == {"created": 1.0, "addressed": 3.0, "opened": 4.0, "started": 9.0, "completed": 20.0}
    assert summary.phases == {"cluster": 10.0, "gang": 30.0}
    assert (summary.succeeded, summary.retries, summary.total) == (True, 0, 41.0)


def test_the_summary_of_an_interrupted_run_has_no_value_for_missed_milestones() -> None:
    summary = summarize(Gang().applied().pod(1, CHIEF).state, APPLIED_AT + 5)
    assert summary.milestones["opened"] is None
    assert not summary.succeeded
    assert next(line for line in as_lines(summary) if "gate open" in line).endswith("-")


def test_the_summary_can_be_drawn_even_if_nothing_happened() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(render_summary(summarize(RunState(), 5)))
    assert "not applied" in stream.getvalue()


def test_the_json_holds_all_of_the_summary() -> None:
    read = json.loads(as_json(summarize(successful_run().state, APPLIED_AT + 21)))
    assert read["milestones"]["opened"] == 4.0
    assert read["outcome"] == "Completed, Succeeded"
    assert set(read) == {"outcome", "succeeded", "retries", "phases", "parts", "milestones", "total"}


@pytest.mark.parametrize(
    ("stream", "environ", "kind"),
    [
        (Terminal(), {"TERM": "xterm"}, LiveDisplay),
        (io.StringIO(), {"TERM": "xterm"}, PlainDisplay),
        (Terminal(), {"TERM": "dumb"}, PlainDisplay),
        (Terminal(), {}, PlainDisplay),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, PlainDisplay),
        (Terminal(), {"TERM": "xterm", "CI": "true"}, PlainDisplay),
    ],
    ids=["terminal", "pipe", "dumb", "unknown", "no-color", "ci"],
)
def test_the_live_picture_is_chosen_only_for_a_terminal_that_can_draw_it(
    stream: io.StringIO, environ: dict[str, str], kind: type[Display]
) -> None:
    assert isinstance(choose_display(stream, environ), kind)


def test_the_screen_leaves_the_terminal_as_it_was() -> None:
    stream = Terminal()
    with LiveDisplay(
        Console(file=stream, force_terminal=True, width=100, height=30), clock=lambda: APPLIED_AT
    ) as screen:
        screen.changed(RunState(), successful_run().state, APPLIED_AT)
    assert stream.getvalue().rfind("\x1b[?25h") > stream.getvalue().rfind("\x1b[?25l")


def test_a_wait_ends_when_another_thread_posts_the_awaited_event() -> None:
    store = RunStore(PlainDisplay(io.StringIO()))
    store.post(events.RunPlanned(0, ()))
    later = threading.Timer(0.05, store.post, [events.FrameworkApplied(1, "spirals", (TaskKey("chief", 0),))])
    later.start()
    assert store.wait(lambda state: state.applied is not None, 100)
    later.join()


def test_a_closed_store_ignores_events() -> None:
    stream = io.StringIO()
    store = RunStore(PlainDisplay(stream))
    store.post(events.Notice("before"))
    store.close()
    store.post(events.Notice("after"))
    assert "before" in stream.getvalue()
    assert "after" not in stream.getvalue()


def test_a_wait_ends_at_its_limit() -> None:
    assert not RunStore(PlainDisplay(io.StringIO())).wait(lambda state: state.finished, 0.05)


def test_a_task_that_reaches_the_barrier_has_a_line_with_its_node_and_address_and_is_counted() -> None:
    gang = Gang().applied().pod(1, CHIEF, node="a", ip="10.0.0.9", barrier=running())
    assert lines_of(gang)[-2:] == ["chief-0: waits in the barrier, on a, 10.0.0.9", "gang: 1 of 3 ready"]
