"""Every example has what `examples/README.md` says, and the runner tells and waits as it says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkclient.logs.lines import LogLine, LogSource
from frameworkclient.moments import Moment
from frameworkdemo.errors import DemoError
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.__main__ import main
from frameworkdemo.examples.example import Example
from frameworkdemo.examples.run import AS_EXPECTED, Outcome, as_table
from frameworkdemo.examples.story import Story
from localcluster import images
from tests.client.documents import BEGIN, SUCCEEDED, container, framework, pod

if TYPE_CHECKING:
    from frameworkclient.pods import TaskPod

INDEX = (catalogue.FOLDER / "README.md").read_text()
LIMIT = 100


@pytest.mark.parametrize("name", catalogue.names())
def test_an_example_is_explained_applied_by_kustomize_and_in_the_index(name: str) -> None:
    folder = catalogue.folder_of(name)
    assert f"make example NAME={name}" in (folder / "README.md").read_text()
    resources = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert resources
    assert [name for name in resources if not (folder / name).is_file()] == []
    assert f"[{name}]({name}/README.md)" in INDEX


@pytest.mark.parametrize("name", catalogue.names())
def test_the_programs_of_an_example_are_short(name: str) -> None:
    sources = [file for file in catalogue.folder_of(name).rglob("*") if file.suffix in {".py", ".sh", ".java"}]
    assert {file.name: len(file.read_text().splitlines()) for file in sources if long(file)} == {}


def long(file: Path) -> bool:
    return len(file.read_text().splitlines()) >= LIMIT


@pytest.mark.parametrize("name", catalogue.names())
def test_every_image_of_an_example_is_one_that_the_project_builds(name: str) -> None:
    assert set(catalogue.images_of([catalogue.folder_of(name)])) <= set(images.CATALOGUE)


def test_an_unknown_example_is_an_error_that_lists_those_that_exist() -> None:
    with pytest.raises(DemoError, match=r"no example 'nope'; choose from: .*pytorch, .*tensorflow"):
        catalogue.folder_of("nope")


def test_the_command_line_says_what_is_wrong_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pytorch", "nope"]) == 1
    assert capsys.readouterr().out.startswith("FAILED: there is no example 'nope'; choose from: ")


def line(name: str, text: str, *, barrier: bool = False, uid: str = "", at: float = 0.0) -> LogLine:
    source = LogSource(name, (0, 0), f"training-{name}", uid, "frameworkbarrier" if barrier else "main", 0, name)
    return LogLine(source, datetime.fromtimestamp(at, UTC).isoformat(), text)


def waits(name: str, **more: Any) -> TaskPod:
    """A Pod that waits in its barrier."""
    init = [container("frameworkbarrier")]
    return pod(name, init=init, statuses=[container("main", "waiting", reason="PodInitializing")], **more)


class Told:
    """A story whose lines are kept, without their times."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.story = Story(self._lines.append)

    @property
    def lines(self) -> list[str]:
        return [text.split("] ", 1)[1] for text in self._lines]

    def changed(self, *pods: TaskPod, **status: Any) -> None:
        self.story.changed(Moment(framework(**status), {one.task: one for one in pods}))


class TestStory:
    def test_a_change_is_told_once(self) -> None:
        told = Told()
        for _ in range(2):
            told.changed(pod("worker-0"))
        assert told.lines == ["Framework training: AttemptRunning", "training-worker-0: starting"]

    def test_a_framework_is_told_with_its_attempt_and_its_end(self) -> None:
        told = Told()
        told.changed(state="")
        told.changed(attempt=1)
        told.changed(state="Completed", attempt=1, end=SUCCEEDED)
        assert told.lines == [
            "Framework training: applied",
            "Framework training: AttemptRunning, attempt 2",
            "Framework training: Completed, Succeeded (0), attempt 2",
        ]

    def test_a_program_that_is_started_again_in_its_pod_is_told(self) -> None:
        told, init = Told(), [container("frameworkbarrier", "terminated", exitCode=0)]
        states = [container(), container("main", "terminated", exitCode=1), container("main", "terminated", exitCode=0)]
        told.changed(waits("worker-0", podIP="10.0.0.2"))
        for state in states:
            told.changed(pod(init=init, statuses=[state], phase="Running", podIP="10.0.0.2"))
        told.changed(waits("worker-0", podIP="10.0.0.2", phase="Running"))
        assert [text for text in told.lines if text.startswith("training-")] == [
            "training-worker-0: waits in the barrier, 10.0.0.2",
            "training-worker-0: running, 10.0.0.2",
            "training-worker-0: failed, 10.0.0.2",
            "training-worker-0: succeeded, 10.0.0.2",
            "training-worker-0: waits in the barrier, 10.0.0.2",
        ]

    def test_a_pod_that_waits_for_a_scheduler_is_told_with_the_reason(self) -> None:
        told = Told()
        told.changed(pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]))
        assert told.lines[-1] == "training-worker-0: waiting (SchedulingGated)"

    def test_a_pod_that_is_replaced_is_gone_before_the_next_one_starts(self) -> None:
        told = Told()
        told.changed(pod(uid="a"))
        told.changed(pod(uid="a", metadata={"deletionTimestamp": BEGIN, "uid": "a"}))
        told.changed(pod(uid="b"))
        told.changed()
        assert told.lines[1:] == [
            f"training-worker-0: {place}" for place in ("starting", "ending", "gone", "starting", "gone")
        ]
        assert told.story.pods == 2

    def test_the_gate_is_open_when_the_last_barrier_is_and_stays_so_when_a_pod_is_added(self) -> None:
        told = Told()
        first, second, web = waits("worker-0", uid="a"), waits("worker-1", uid="b"), pod("web-0", uid="c")
        told.changed(first, second, web)
        told.story.logged(line("worker-0", "open after 1.0 s", barrier=True, uid="a", at=1.0))
        assert told.story.gate_seconds is None
        told.story.logged(line("worker-1", "open after 1.1 s", barrier=True, uid="b", at=2.0))
        gate = told.story.gate_seconds
        told.changed(first, second, web, waits("worker-2", uid="d"))
        told.story.logged(line("worker-2", "open after 0.1 s", barrier=True, uid="d", at=9.0))
        assert told.story.gate_seconds == gate is not None
        assert told.story.pods == 4

    def test_a_barrier_whose_log_was_not_read_is_open_when_the_status_of_its_pod_says_so(self) -> None:
        told = Told()
        told.changed(pod(init=[container("frameworkbarrier", "terminated", exitCode=0)]))
        assert told.story.gate_seconds is not None


class TestSteps:
    def example(self, story: Story) -> Example:
        unused: Any = None
        return Example(Path("unused"), "unused", unused, [], story, unused)

    def test_a_search_in_a_log_begins_after_the_line_that_the_last_one_found(self) -> None:
        story = Story(lambda _: None)
        for text in ("3 members", "2 members", "3 members"):
            story.logged(line("worker-0", text))
        example = self.example(story)
        assert example.logged("training-worker-0", "3 members") == "3 members"
        assert example.logged("training-worker-0", "2 members") == "2 members"
        assert example.logged("training-worker-0", "3 members") == "3 members"
        with pytest.raises(
            DemoError, match="gave up after 0 s of waiting for 'members' in the log of training-worker-0"
        ):
            example.logged("training-worker-0", "members", seconds=0)

    def test_an_example_without_steps_runs_and_succeeds(self, tmp_path: Path) -> None:
        called: list[str] = []

        class Recorded:
            def apply(self) -> None:
                called.append("apply")

            def ends(self) -> None:
                called.append("ends")

        recorded: Any = Recorded()
        catalogue.steps_of(tmp_path)(recorded)
        assert called == ["apply", "ends"]


def test_the_table_has_a_line_for_each_example() -> None:
    table = as_table([Outcome("a", 3, 3.64, 69.8, AS_EXPECTED), Outcome("long-name", 1, None, 1.0, "gave up")])
    assert table == [
        "example    Pods  seconds to gate  seconds to end  result",
        "a             3              3.6            69.8  as expected",
        "long-name     1                -             1.0  gave up",
    ]
