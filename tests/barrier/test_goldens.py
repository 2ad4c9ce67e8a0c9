"""Every file of every case in `golden/`: `NAME.json` is the case, `NAME.txt` what the application finds.

After an intended change write them again (FB_WRITE_GOLDENS=1 pytest tests/barrier/test_goldens.py) and read the diff.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.files.container import Container
from frameworkbarrier.presets import model as presets
from tests.barrier.files.written import rendered
from tests.barrier.gangs import roster

FOLDER = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))
WHOLE_UP_TO = 4096
"""Bytes; of longer files a golden text keeps size, digest and both ends."""


def render_case(case: dict[str, Any]) -> str:
    role, index = case["me"]
    document = roster(case["shape"], gpus=case.get("gpus"), **case.get("roster", {}))
    container = Container("127.0.0.1\tlocalhost\n", case.get("hostname", ""), case.get("templates", {}))
    environ = case.get("environment", {})
    made = rendered(document, role, index, container, framework=case.get("framework"), **environ)
    parts = [
        f"=== {file.name} {file.mode:o}{' in place' if file.in_place else ''}\n{shown(file.data)}"
        for file in made.files
    ]
    return "".join([*parts, *(f"=== warning\n{warning}\n" for warning in made.warnings)])


def shown(data: bytes) -> str:
    text = data.decode()
    if len(data) <= WHOLE_UP_TO:
        return text if text.endswith("\n") else f"{text}\n(no newline at the end)\n"
    lines = text.count("\n")
    digest = hashlib.sha256(data).hexdigest()
    return f"{len(data)} bytes, {lines} lines, sha256 {digest}\n{text[:300]}\n[...]\n{text[-300:]}\n"


@pytest.mark.parametrize("name", CASES)
def test_the_files_are_as_in_the_golden_text(name: str) -> None:
    expected = FOLDER / f"{name}.txt"
    made = render_case(json.loads((FOLDER / f"{name}.json").read_text()))
    if os.environ.get("FB_WRITE_GOLDENS"):
        expected.write_text(made)
    assert made == expected.read_text()


def test_every_golden_text_has_its_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == CASES
    assert len(CASES) >= 12


def test_every_preset_has_goldens_of_one_task_three_roles_and_a_thousand_tasks() -> None:
    for preset in presets.names():
        for shape in ("one-task", "three-roles", "thousand-tasks"):
            assert f"{preset}-{shape}" in CASES
