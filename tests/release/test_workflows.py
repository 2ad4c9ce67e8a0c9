"""What GitHub runs is what a developer types."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from frameworkrelease.chart import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_workflows_for_changes_releases_and_dependencies() -> None:
    assert {file.stem for file in WORKFLOWS} == {"ci", "release", "lock"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.stem))
def test_each_target_and_script_that_a_workflow_calls_exists(file: Any) -> None:
    for step in steps(yaml.safe_load(file.read_text())):
        command = step.get("run", "")
        assert set(re.findall(r"(?:^|&& )make ([a-z-]+)", command)) <= TARGETS, command
        for script in re.findall(r"(?<=\s)(\.ci/\S+)", command):
            assert (REPOSITORY / script).is_file()


def test_a_release_is_built_checked_and_only_then_published() -> None:
    (workflow,) = (yaml.safe_load(file.read_text()) for file in WORKFLOWS if file.stem == "release")
    commands = " ".join(step.get("run", "") for step in steps(workflow))
    order = ["frameworkrelease notes", "make release ", "make release-check ", "make publish ", "gh release create"]
    assert sorted(order, key=commands.index) == order
    # Whoever may upload keeps no token, and waits for the release.
    pypi = workflow["jobs"]["pypi"]
    assert (pypi["needs"], pypi["permissions"]) == ("release", {"id-token": "write"})
