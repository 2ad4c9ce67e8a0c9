"""Every example has what `examples/README.md` says, and the runner tells and waits as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkdemo.errors import DemoError
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.__main__ import main
from frameworkdemo.examples.example import Example
from frameworkdemo.examples.run import AS_EXPECTED, Outcome, as_table
from frameworkdemo.examples.story import Story
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import TaskKey, read_framework, read_pod
from localcluster import images

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


def pod(name: str, uid: str, *, barrier: bool = True) -> events.PodObserved:
    role, index = name.rsplit("-", 1)
    spec = {"initContainers": [{"name": "frameworkbarrier"}]} if barrier else {}
    labels = {"FC_TASKROLE_NAME": role, "FC_TASK_INDEX": index}
    info = read_pod({"metadata": {"name": f"fw-{name}", "uid": uid, "labels": labels}, "spec": spec})
    assert info is not None
    return events.PodObserved(0.0, info)


def line(name: str, uid: str, text: str, *, barrier: bool = False, at: float = 0.0) -> events.LogLine:
    role, index = name.rsplit("-", 1)
    return events.LogLine(at, TaskKey(role, int(index)), uid, barrier=barrier, text=text)


class TestStory:
    def test_a_change_is_told_once(self) -> None:
        lines: list[str] = []
        listen = Story(lines.append).listener("fw")
        for _ in range(2):
            listen(pod("worker-0", "a"))
            listen(events.FrameworkObserved(0.0, read_framework({"status": {"state": "AttemptRunning"}})))
        assert [text.split("] ", 1)[1] for text in lines] == ["fw-worker-0: starting", "Framework fw: AttemptRunning"]

    def test_the_gate_is_open_when_the_last_barrier_is_and_stays_so_when_a_pod_is_added(self) -> None:
        story = Story(lambda _: None)
        listen = story.listener("fw")
        for event in (pod("worker-0", "a"), pod("worker-1", "b"), pod("web-0", "c", barrier=False)):
            listen(event)
        listen(line("worker-0", "a", "open after 1.0 s", barrier=True, at=1.0))
        assert story.gate_seconds is None
        listen(line("worker-1", "b", "open after 1.1 s", barrier=True, at=2.0))
        first = story.gate_seconds
        listen(pod("worker-2", "d"))
        listen(line("worker-2", "d", "open after 0.1 s", barrier=True, at=9.0))
        assert story.gate_seconds == first is not None
        assert story.pods == 4

    def test_a_barrier_whose_log_was_not_read_is_open_when_the_status_of_its_pod_says_so(self) -> None:
        story = Story(lambda _: None)
        labels = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"}
        ended = {"name": "frameworkbarrier", "state": {"terminated": {"exitCode": 0}}}
        info = read_pod(
            {
                "metadata": {"name": "fw-worker-0", "uid": "a", "labels": labels},
                "spec": {"initContainers": [{"name": "frameworkbarrier"}]},
                "status": {"initContainerStatuses": [ended]},
            }
        )
        assert info is not None
        story.listener("fw")(events.PodObserved(0.0, info))
        assert story.gate_seconds is not None


class TestSteps:
    def example(self, story: Story) -> Example:
        unused: Any = None
        return Example(Path("unused"), "unused", unused, [], story)

    def test_a_search_in_a_log_begins_after_the_line_that_the_last_one_found(self) -> None:
        story = Story(lambda _: None)
        for text in ("3 members", "2 members", "3 members"):
            story.listener("fw")(line("worker-0", "a", text))
        example = self.example(story)
        assert example.logged("fw-worker-0", "3 members") == "3 members"
        assert example.logged("fw-worker-0", "2 members") == "2 members"
        assert example.logged("fw-worker-0", "3 members") == "3 members"
        with pytest.raises(DemoError, match="gave up after 0 s of waiting for 'members' in the log of fw-worker-0"):
            example.logged("fw-worker-0", "members", seconds=0)

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
