"""The steps of the demo as lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from frameworkdemo.progress import Steps, format_duration
from localcluster.progress import State


@dataclass
class Told:
    """Steps whose lines are kept, with a clock that the test moves."""

    now: float = 100.0
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = Steps(self.lines.append, clock=lambda: self.now)

    def parts(self) -> list[str]:
        return [line.partition("] ")[2] for line in self.lines]


def test_a_step_has_a_line_at_its_beginning_and_its_end() -> None:
    told = Told()
    with told.steps.step("cluster"):
        told.now += 6.7
    assert told.lines == ["[    0.0 s] cluster ...", "[    6.7 s] cluster: done in 6.7 s"]


def test_a_step_that_fails_says_so_and_its_error_goes_on() -> None:
    told = Told()

    def build() -> None:
        with told.steps.step("images"):
            told.now += 125
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert told.lines[-1] == "[  125.0 s] images: FAILED after 2 min 05 s"


def test_a_short_part_has_no_line_and_a_long_one_a_line_every_half_minute() -> None:
    told = Told()
    told.steps.show("start etcd", State.RUNS, 0)
    told.steps.show("start etcd", State.DONE, 0.9)
    for second in range(71):
        told.steps.show("build kubelet", State.RUNS, second, f"{second} packages" if second > 40 else "")
    told.steps.show("build kubelet", State.DONE, 71)
    for second in (0, 1, 30):
        told.steps.show("build kubelet", State.RUNS, second)
    told.steps.show("build kubelet", State.FAILED, 30.5)
    told.steps.show("build etcd", State.FAILED, 0.5)
    assert told.parts() == [
        "  build kubelet: goes on, 30.0 s",
        "  build kubelet: goes on, 1 min 00 s, 60 packages",
        "  build kubelet: 1 min 11 s",
        "  build kubelet: goes on, 30.0 s",
        "  build kubelet: FAILED after 30.5 s",
        "  build etcd: FAILED after 0.5 s",
    ]


def test_a_part_of_the_demo_reports_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frameworkdemo.progress.GOES_ON_SECONDS", 0.5)
    told = Told()
    with told.steps.part("controller, injector") as report:
        report("frameworkcontroller: 0 of 1 ready")
        while not told.lines:
            time.sleep(0.01)
    assert told.parts()[0].endswith(", frameworkcontroller: 0 of 1 ready")


def test_the_summary_has_each_step_and_all_together() -> None:
    told = Told()
    for name, seconds in (("cluster", 8.25), ("gang", 72)):
        with told.steps.step(name):
            told.now += seconds
    told.now += 1
    assert told.steps.summary() == [
        "steps:",
        "  cluster                     8.2 s",
        "  gang                   1 min 12 s",
        "  all together           1 min 21 s",
    ]


def test_no_line_has_control_characters() -> None:
    told = Told()
    told.steps.say("\x1b[31mred\x07\r")
    told.steps.report("title\n", ["\x1b[31mred\x07\ttext"])
    assert told.lines == ["[    0.0 s] red ", "--- title ", "    red    text"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (59.94, "59.9 s"), (59.95, "1 min 00 s"), (125.4, "2 min 05 s")]
)
def test_durations_of_a_minute_and_more_are_whole_seconds(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
