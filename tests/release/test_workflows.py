"""What GitHub runs is what a developer types."""

import re
from typing import Any

import pytest
import yaml

from frameworkrelease.chart import REPOSITORY

FILES = (REPOSITORY / ".github" / "workflows").glob("*.yaml")
WORKFLOWS: dict[str, Any] = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def commands_of(workflow: dict[str, Any]) -> list[str]:
    return [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", ["ci", "release", "lock"])
def test_each_target_and_script_that_a_workflow_calls_exists(name: str) -> None:
    assert len(WORKFLOWS) == 3
    for command in commands_of(WORKFLOWS[name]):
        assert set(re.findall(r"(?:^|&& )make ([a-z-]+)", command)) <= TARGETS, command
        for script in re.findall(r"(?<=\s)(\.ci/\S+)", command):
            assert (REPOSITORY / script).is_file()


def test_a_release_is_built_checked_and_only_then_published() -> None:
    workflow = WORKFLOWS["release"]
    commands = " ".join(commands_of(workflow))
    order = ["frameworkrelease notes", "make release ", "make release-check ", "make publish ", "gh release create"]
    assert sorted(order, key=commands.index) == order
    # Whoever may upload keeps no token, and waits for the release.
    pypi = workflow["jobs"]["pypi"]
    assert (pypi["needs"], pypi["permissions"]) == ("release", {"id-token": "write"})
