"""CI runs every kind of example and every preset that it can; what it does not run, `make test-all` does."""

import re
from pathlib import Path

from frameworkbarrier.presets import model as presets
from frameworkdemo.examples import catalogue
from tests.examples.choice import IN_CI, KINDS, ONLY_LONG, OTHER_TESTS

ROOT = Path(__file__).parents[2]
PRESET = re.compile(r"^ +barrier\.frameworkcontroller\.microsoft\.com/preset: ([a-z, -]+)$", re.MULTILINE)


def presets_of(folder: Path) -> set[str]:
    found = [text for file in folder.glob("*.yaml") for text in PRESET.findall(file.read_text())]
    return {name.strip() for names in found for name in names.split(",")}


USED = {name: presets_of(catalogue.folder_of(name)) for name in catalogue.names()}


def test_every_preset_is_run_by_an_example() -> None:
    assert set(presets.names()) == set().union(*USED.values())


def test_ci_runs_an_example_of_every_kind_and_every_preset_unless_it_is_said_why_not() -> None:
    assert all(KINDS.values())
    assert set(catalogue.names()) >= IN_CI
    in_ci = set().union(*(USED[name] for name in IN_CI))
    assert set(presets.names()) - in_ci - OTHER_TESTS.keys() == ONLY_LONG.keys()
    assert not OTHER_TESTS.keys() & ONLY_LONG.keys()
    # The other tests name the preset.
    assert [name for name, file in OTHER_TESTS.items() if name not in (ROOT / file).read_text()] == []
