"""The TensorFlow example has what its README says: one label, one annotation and the training itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "tensorflow"
FRAMEWORK = yaml.safe_load((FOLDER / "framework.yaml").read_text())
ROLES = {role["name"]: role for role in FRAMEWORK["spec"]["taskRoles"]}


def pods() -> list[dict[str, Any]]:
    return [role["task"]["pod"] for role in ROLES.values()]


def test_the_gang_has_one_chief_and_two_workers() -> None:
    assert {name: role["taskNumber"] for name, role in ROLES.items()} == {"chief": 1, "worker": 2}


def test_a_pod_has_exactly_the_one_label_and_the_one_annotation() -> None:
    for pod in pods():
        assert pod["metadata"] == {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {"barrier.frameworkcontroller.microsoft.com/preset": "tensorflow"},
        }


@pytest.mark.parametrize("field", ["initContainers", "serviceAccountName", "volumes", "hostNetwork"])
def test_a_pod_does_not_need(field: str) -> None:
    assert [pod for pod in pods() if field in pod["spec"]] == []


def test_the_container_starts_the_training_without_a_shell() -> None:
    for pod in pods():
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["python3", "/app/train.py"]
        assert not {"args", "env", "envFrom"} & set(container)


def test_the_first_failed_task_fails_the_attempt_and_all_must_succeed() -> None:
    policies = [role["frameworkAttemptCompletionPolicy"] for role in ROLES.values()]
    assert policies == [{"minFailedTaskCount": 1, "minSucceededTaskCount": -1}] * 2


def test_the_training_script_stays_under_eighty_lines() -> None:
    assert len((FOLDER / "train.py").read_text().splitlines()) < 80


def test_every_package_of_the_image_is_pinned_by_hash_and_from_no_particular_registry() -> None:
    text = (FOLDER / "requirements.txt").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert any(package.startswith("tensorflow-cpu==2.21.") for package in packages)
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in text


def test_the_image_runs_as_a_numeric_user_that_is_not_root() -> None:
    (user,) = re.findall(r"^USER (\S+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert all(int(part) > 0 for part in user.split(":"))
