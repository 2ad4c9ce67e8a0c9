"""What the demo tells of its steps, and when it takes an image for missing."""

import pytest

from frameworkdemo.deploy import MissingImages
from frameworkdemo.errors import DemoError
from frameworkdemo.steps import Steps
from tests.client.documents import container, pod


class Told(Steps):
    """Steps whose lines are kept, with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        super().__init__(self.lines.append, clock=lambda: self.now)


def test_each_step_has_a_line_at_its_beginning_and_its_end_and_one_in_the_summary() -> None:
    told = Told()
    for name, seconds in (("cluster", 8.25), ("gang", 72)):
        with told.step(name):
            told.now += seconds
    told.now += 1
    assert told.lines == ["cluster ...", "cluster: done in 8.2 s", "gang ...", "gang: done in 72.0 s"]
    assert told.summary() == [
        "steps:",
        "  cluster           8.2 s",
        "  gang             72.0 s",
        "  all together     81.2 s",
    ]


def test_a_step_that_fails_says_so_and_its_error_goes_on() -> None:
    told = Told()
    with pytest.raises(KeyboardInterrupt), told.step("images"):
        raise KeyboardInterrupt
    assert told.lines[-1] == "images: FAILED after 0.0 s"


def test_a_report_has_no_control_characters() -> None:
    told = Told()
    told.report("title\n", ["\x1b[31mred\x07\ttext"])
    assert told.lines == ["--- title ", "    red    text"]


NO_IMAGE = pod("worker-1", statuses=[container("main", "waiting", reason="ImagePullBackOff", message="not found")])
RUNNING = pod("worker-1", statuses=[container()])


def test_an_image_may_be_missing_for_a_while_and_what_waits_for_something_else_misses_none() -> None:
    images = MissingImages(20.0)
    for now, seen in ((0.0, NO_IMAGE), (19.0, NO_IMAGE), (30.0, RUNNING), (40.0, NO_IMAGE), (59.0, NO_IMAGE)):
        images.check([RUNNING, seen], now)
    with pytest.raises(DemoError, match="training-worker-1: main: ImagePullBackOff: not found"):
        images.check([RUNNING, NO_IMAGE], 60.0)
    for reason in ("ContainerCreating", "PodInitializing", "CrashLoopBackOff"):
        MissingImages(0.0).check([pod(statuses=[container("main", "waiting", reason=reason)])], 0.0)
