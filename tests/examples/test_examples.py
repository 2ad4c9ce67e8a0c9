"""Every example has what `examples/README.md` says, and the runner tells and waits as it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import create_autospec

import pytest
import yaml

from frameworkclient import Client, DeletedError, ForbiddenError, NotFoundError, UnreachableError
from frameworkclient.logs.lines import LogLine, LogSource
from frameworkdemo.errors import DemoError
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.__main__ import main
from frameworkdemo.examples.example import Example
from frameworkdemo.examples.run import AS_EXPECTED, Outcome, as_table
from frameworkdemo.examples.story import Story, changes, places_of
from localcluster import images
from tests.client.documents import SUCCEEDED, container, framework, pod

if TYPE_CHECKING:
    from frameworkclient.views.pods import TaskPod

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


def waits(**more: Any) -> TaskPod:
    """A Pod that waits in its barrier."""
    init = [container("frameworkbarrier")]
    return pod(init=init, statuses=[container("main", "waiting", reason="PodInitializing")], **more)


class TestChanges:
    @pytest.mark.parametrize(
        ("status", "line"),
        [
            ({"state": ""}, "applied"),
            ({"attempt": 1}, "AttemptRunning, attempt 2"),
            ({"state": "Completed", "attempt": 1, "end": SUCCEEDED}, "Completed, Succeeded (0), attempt 2"),
        ],
        ids=["new", "retried", "ended"],
    )
    def test_a_framework_is_told_with_its_attempt_and_its_end(self, status: dict[str, Any], line: str) -> None:
        assert places_of(framework(**status), []) == {"Framework training": line}

    @pytest.mark.parametrize(
        ("seen", "line"),
        [
            (waits(podIP="10.0.0.2"), "waits in the barrier, 10.0.0.2"),
            (
                pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
                "not scheduled (SchedulingGated)",
            ),
        ],
        ids=["barrier", "gate"],
    )
    def test_a_pod_is_told_with_its_address_and_what_holds_it_up(self, seen: TaskPod, line: str) -> None:
        assert places_of(framework(), [seen])["training-worker-0"] == line

    def test_a_change_is_told_once_and_a_pod_that_is_not_there_any_more_is_gone(self) -> None:
        first = {"Framework training": "AttemptRunning", "training-worker-0": "running"}
        assert changes({}, first) == ["Framework training: AttemptRunning", "training-worker-0: running"]
        assert changes(first, dict(first)) == []
        assert changes(first, {"Framework training": "AttemptRunning"}) == ["training-worker-0: gone"]


class TestStory:
    def told(self, client: Any) -> list[str]:
        """Follow a Framework to its end and return the lines without their times."""
        lines: list[str] = []
        story = Story(client, lines.append)
        story.follow("training")
        story.tell_end("training")
        story.end()
        return sorted(text.split("] ", 1)[1] for text in lines)

    def client(self) -> Any:
        client = create_autospec(Client, instance=True)
        client.get.return_value = framework(state="Completed", end=SUCCEEDED)
        client.pods.return_value = []
        source = LogSource("worker-0", (0, 0), "training-worker-0", "uid", "main", 0, "worker-0")
        client.logs.return_value = iter([LogLine(source, "2026-01-01T12:00:00Z", "step 1\x07")])
        return client

    def test_a_framework_is_told_to_its_end_with_its_log_although_the_api_server_was_away(self) -> None:
        client = self.client()
        client.get.side_effect = [UnreachableError("no answer"), client.get.return_value]
        assert self.told(client) == ["Framework training: Completed, Succeeded (0)", "training-worker-0 | step 1"]

    def test_a_framework_that_is_deleted_ends_the_story(self) -> None:
        client = self.client()
        client.get.side_effect = NotFoundError("gone", 404)
        client.logs.side_effect = DeletedError("gone")
        assert self.told(client) == []

    def test_a_log_that_may_not_be_read_is_told(self) -> None:
        client = self.client()
        client.logs.side_effect = ForbiddenError("no permission", 403)
        assert "Framework training is not followed any more: no permission" in self.told(client)


class TestSteps:
    def test_a_search_in_a_log_begins_after_the_line_that_the_last_one_found(self) -> None:
        lines = ["3 members", "2 members", "3 members"]
        story = create_autospec(Story, instance=True)
        story.log.return_value = lines
        unused: Any = None
        example = Example(Path("unused"), "unused", unused, unused, story)
        assert [example.logged("training-worker-0", text) for text in lines] == lines
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
    table = as_table([Outcome("a", 69.8, AS_EXPECTED), Outcome("long-name", 1.0, "gave up")])
    assert table == [
        "example    seconds  result",
        "a             69.8  as expected",
        "long-name      1.0  gave up",
    ]
