"""Every example has what `examples/README.md` says, and the runner tells and waits as it says."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import call, create_autospec

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
from localcluster.images import images
from tests.client.documents import SUCCEEDED, container, framework, pod
from tests.support.rows import each

INDEX = (catalogue.FOLDER / "README.md").read_text()
LIMIT = 100
TENSORFLOW = catalogue.FOLDER / "tensorflow"


@each("name", catalogue.names())
def test_an_example_is_explained_applied_by_kustomize_and_in_the_index_with_short_programs(name: str) -> None:
    folder = catalogue.folder_of(name)
    assert f"make example NAME={name}" in (folder / "README.md").read_text()
    resources = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert resources
    assert [name for name in resources if not (folder / name).is_file()] == []
    assert f"[{name}]({name}/README.md)" in INDEX
    sources = [file for file in folder.rglob("*") if file.suffix in {".py", ".sh", ".java"}]
    lengths = {file.name: len(file.read_text().splitlines()) for file in sources}
    assert {name: length for name, length in lengths.items() if length >= LIMIT} == {}
    assert set(catalogue.images_of([folder])) <= set(images.CATALOGUE)


def test_the_pods_of_the_tensorflow_example_need_one_label_one_annotation_and_the_training_without_a_shell() -> None:
    roles = yaml.safe_load((TENSORFLOW / "framework.yaml").read_text())["spec"]["taskRoles"]
    for template in (role["task"]["pod"] for role in roles):
        assert template["metadata"] == {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {"barrier.frameworkcontroller.microsoft.com/preset": "tensorflow"},
        }
        assert not {"initContainers", "serviceAccountName", "volumes", "hostNetwork"} & set(template["spec"])
        (container,) = template["spec"]["containers"]
        assert container["command"] == ["python3", "/app/train.py"]
        assert not {"args", "env", "envFrom"} & set(container)
    assert len((TENSORFLOW / "train.py").read_text().splitlines()) < 80


def test_its_image_has_packages_pinned_by_hash_and_a_numeric_user_that_is_not_root() -> None:
    text = (TENSORFLOW / "requirements.txt").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert any(package.startswith("tensorflow-cpu==2.21.") for package in packages)
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    # From no particular registry.
    assert "://" not in text
    (user,) = re.findall(r"^USER (\S+)$", (TENSORFLOW / "Dockerfile").read_text(), re.MULTILINE)
    assert all(int(part) > 0 for part in user.split(":"))


def test_an_unknown_example_is_an_error_that_lists_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pytorch", "nope"]) == 1
    printed = capsys.readouterr().out
    assert re.match(r"FAILED: there is no example 'nope'; choose from: .*pytorch, .*tensorflow", printed)


class TestChanges:
    def test_a_framework_is_told_with_its_attempt_and_its_end(self) -> None:
        for status, line in (
            ({"state": ""}, "applied"),
            ({"attempt": 1}, "AttemptRunning, attempt 2"),
            ({"state": "Completed", "attempt": 1, "end": SUCCEEDED}, "Completed, Succeeded (0), attempt 2"),
        ):
            assert places_of(framework(**status), []) == {"Framework training": line}

    def test_a_pod_is_told_with_its_address_and_what_holds_it_up(self) -> None:
        waiting = container("main", "waiting", reason="PodInitializing")
        waits = pod(init=[container("frameworkbarrier")], statuses=[waiting], podIP="10.0.0.2")
        assert places_of(framework(), [waits])["training-worker-0"] == "waits in the barrier, 10.0.0.2"
        gated = pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}])
        assert places_of(framework(), [gated])["training-worker-0"] == "not scheduled (SchedulingGated)"

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

    def test_a_framework_that_is_deleted_ends_the_story_and_a_log_that_may_not_be_read_is_told(self) -> None:
        client = self.client()
        client.logs.side_effect = ForbiddenError("no permission", 403)
        assert "Framework training is not followed any more: no permission" in self.told(client)
        client.get.side_effect = NotFoundError("gone", 404)
        client.logs.side_effect = DeletedError("gone")
        assert self.told(client) == []


class TestSteps:
    def test_a_search_in_a_log_begins_after_the_line_that_the_last_one_found(self) -> None:
        lines = ["3 members", "2 members", "3 members"]
        story = create_autospec(Story, instance=True)
        story.log.return_value = lines
        unused: Any = None
        example = Example(Path("unused"), "unused", unused, unused, story)
        assert [example.logged("training-worker-0", text) for text in lines] == lines
        reason = "gave up after 0 s of waiting for 'members' in the log of training-worker-0"
        with pytest.raises(DemoError, match=reason):
            example.logged("training-worker-0", "members", seconds=0)

    def test_an_example_without_steps_runs_and_succeeds(self, tmp_path: Path) -> None:
        recorded = create_autospec(Example, instance=True)
        catalogue.steps_of(tmp_path)(recorded)
        assert recorded.mock_calls == [call.apply(), call.ends()]


def test_the_table_has_a_line_for_each_example() -> None:
    table = as_table([Outcome("a", 69.8, AS_EXPECTED), Outcome("long-name", 1.0, "gave up")])
    assert table == [
        "example    seconds  result",
        "a             69.8  as expected",
        "long-name      1.0  gave up",
    ]
