"""A preset is one file: what else it needs is made."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from frameworkbarrier.presets import model
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import presets
from tests.barrier.test_goldens import render_case


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("barrier/frameworkbarrier/presets", "tests/barrier/golden", "examples"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_a_new_preset_begins_with_files_that_work_and_are_not_overwritten(root: Path) -> None:
    made = {str(file.relative_to(root)): file.read_text() for file in presets.begin("my-launcher", root)}
    with pytest.raises(ReleaseError, match=r"NAME=my-launcher: there is barrier/.*/my-launcher.toml already"):
        presets.begin("my-launcher", root)
    definition = tomllib.loads(made.pop("barrier/frameworkbarrier/presets/my-launcher.toml"))
    assert model.decode("my-launcher", definition).place == 1 + max(model.load(name).place for name in model.names())
    for shape in ("one-task", "three-roles", "thousand-tasks"):
        case = json.loads(made.pop(f"tests/barrier/golden/my-launcher-{shape}.json"))
        case["environment"]["FB_PRESET_DEFINITIONS"] = json.dumps({"my-launcher": definition})
        ranks = sum(tasks for role, tasks in case["shape"].items() if role != "dashboard")
        assert f"MY_LAUNCHER_SIZE='{ranks}'" in render_case(case)
    files = {name.removeprefix("examples/my-launcher/"): text for name, text in made.items()}
    assert sorted(files) == ["README.md", "framework.yaml", "kustomization.yaml", "main.py"]
    assert "make example NAME=my-launcher" in files["README.md"]
    (role,) = yaml.safe_load(files["framework.yaml"])["spec"]["taskRoles"]
    annotations = role["task"]["pod"]["metadata"]["annotations"]
    assert annotations == {"barrier.frameworkcontroller.microsoft.com/preset": "my-launcher"}
    compile(files["main.py"], "main.py", "exec")
    assert "PREFIX" not in "".join(files.values())


@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "-a", "a" * 41])
def test_a_name_that_is_none_is_refused(root: Path, name: str) -> None:
    with pytest.raises(ReleaseError, match="must be lower-case letters, digits and '-', at most 40"):
        presets.begin(name, root)


def test_every_preset_says_what_its_values_are() -> None:
    assert [name for name in model.names() if not model.load(name).doc] == []
