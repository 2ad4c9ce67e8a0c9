"""The TensorFlow example has what its README says: one label, one annotation and the training itself."""

import re
from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "tensorflow"
ROLES = yaml.safe_load((FOLDER / "framework.yaml").read_text())["spec"]["taskRoles"]


def test_a_pod_needs_one_label_one_annotation_and_the_training_without_a_shell() -> None:
    for pod in (role["task"]["pod"] for role in ROLES):
        assert pod["metadata"] == {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {"barrier.frameworkcontroller.microsoft.com/preset": "tensorflow"},
        }
        assert not {"initContainers", "serviceAccountName", "volumes", "hostNetwork"} & set(pod["spec"])
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["python3", "/app/train.py"]
        assert not {"args", "env", "envFrom"} & set(container)
    assert len((FOLDER / "train.py").read_text().splitlines()) < 80


def test_the_image_has_packages_pinned_by_hash_and_a_numeric_user_that_is_not_root() -> None:
    text = (FOLDER / "requirements.txt").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert any(package.startswith("tensorflow-cpu==2.21.") for package in packages)
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    # From no particular registry.
    assert "://" not in text
    (user,) = re.findall(r"^USER (\S+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert all(int(part) > 0 for part in user.split(":"))
