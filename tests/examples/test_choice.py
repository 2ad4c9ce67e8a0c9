"""CI runs every kind of example, and every preset that it can; what it does not run is said with the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from frameworkbarrier import presets
from frameworkdemo.examples import catalogue
from tests.examples.choice import IN_CI, NOT_RUN, ONLY_LONG

if TYPE_CHECKING:
    from pathlib import Path

PRESET = re.compile(r"^\s+barrier\.frameworkcontroller\.microsoft\.com/preset: ([a-z, -]+)$", re.MULTILINE)


def presets_of(folder: Path) -> set[str]:
    found = [text for file in folder.glob("*.yaml") for text in PRESET.findall(file.read_text())]
    return {name.strip() for names in found for name in names.split(",")}


USED = {name: presets_of(catalogue.folder_of(name)) for name in catalogue.names()}


def test_every_preset_is_run_by_an_example_unless_it_is_said_why_not() -> None:
    run = set().union(*USED.values())
    assert run <= set(presets.names())
    assert set(presets.names()) - run == set(NOT_RUN)


def test_every_preset_that_is_run_is_run_by_an_example_of_ci_unless_it_is_said_why_not() -> None:
    in_ci = set().union(*(USED[name] for name in IN_CI))
    assert set(presets.names()) - in_ci - set(NOT_RUN) == set(ONLY_LONG)


def test_every_example_of_ci_exists() -> None:
    assert set(catalogue.names()) >= IN_CI
