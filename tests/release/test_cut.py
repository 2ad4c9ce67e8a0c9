"""The version: one source, the same in every place; and what cutting the next one changes."""

import re
import shutil
import sys
import tomllib
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from frameworkrelease import cut
from frameworkrelease.__main__ import main
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.cut import CHANGELOG
from frameworkrelease.generate import plain

PYPROJECT = "pyproject.toml"
FILES = [one["filename"] for one in tomllib.loads((REPOSITORY / PYPROJECT).read_text())["tool"]["bumpversion"]["files"]]
NAMED = re.compile(r'(?:[:/"-]|\bv|ersion: |--version |VERSION=)(\d+\.\d+\.\d+)\b(?!\.\d)')
CURRENT = cut.current()
NEXT = "3.14.15"
UNRELEASED = "# Changelog\n\n## Unreleased\n\n### Added\n\n- New.\n\n## 0.1.0 - 2026-11-22\n\n- Old.\n"
RELEASED = UNRELEASED.replace("## Unreleased\n", f"## Unreleased\n\n## {NEXT} - 2026-12-24\n")
NEW = "# Changelog\n\n## Unreleased\n\n- New.\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of every file that names the version, with a changelog of its own."""
    for file in (*FILES, PYPROJECT):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    (tmp_path / CHANGELOG).write_text(UNRELEASED)
    return tmp_path


def test_every_place_names_the_version_of_the_one_source() -> None:
    places = [file for file in FILES if file != CHANGELOG]
    assert [file for file in places if set(NAMED.findall((REPOSITORY / file).read_text())) != {CURRENT}] == []
    programs = run("git", "grep", "-lE", '^__version__ = "', "--", "*.py", folder=REPOSITORY)
    assert set(programs.split()) <= set(FILES)


@pytest.mark.parametrize("program", ["barrier", "client", "controller", "history", "injector"])
def test_each_program_says_the_version_of_the_one_source(program: str) -> None:
    said = run(sys.executable, "-m", f"framework{program}", "--version")
    assert said.split()[-1] == metadata.version("frameworkcontroller") == CURRENT


def test_what_is_installed_says_the_version_of_the_one_source() -> None:
    """The tags of the images, the label of every object, and the barrier that is injected."""
    text = plain.FILE.read_text()
    documents = [one for one in yaml.safe_load_all(text) if one]
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in documents} == {CURRENT}
    for image in ("--barrier-image=%s/barrier", "image: %s/controller", "image: %s/injector"):
        assert f"{image % 'docker.io/frameworkcontroller'}:{CURRENT}" in text


def test_cutting_a_version_writes_it_into_every_place_and_changes_nothing_else(copy: Path) -> None:
    # What a sentence says of a version stays.
    with (copy / "README.md").open("a") as readme:
        readme.write(f"\nBefore {CURRENT}, of which 10.{CURRENT} is an address.\n")
    sentence = (copy / "README.md").read_text().splitlines()[-1]
    before = {file: (copy / file).read_text() for file in (*FILES, PYPROJECT) if file != CHANGELOG}
    cut.check(NEXT, copy)
    with pytest.raises(ReleaseError, match=f"run `make cut VERSION={NEXT}` and commit"):
        cut.notes(NEXT, copy)
    days = {datetime.now(UTC).date().isoformat()}
    # As `make cut` does.
    run(sys.executable, "-m", "bumpversion", "bump", "--new-version", NEXT, folder=copy)
    days.add(datetime.now(UTC).date().isoformat())
    for file, text in before.items():
        after = (copy / file).read_text()
        assert after != text
        assert after.replace(NEXT, CURRENT) == text
        assert file == PYPROJECT or set(NAMED.findall(after)) == {NEXT}
    assert (copy / "README.md").read_text().splitlines()[-1] == sentence
    assert (copy / CHANGELOG).read_text() in {RELEASED.replace("2026-12-24", day) for day in days}
    assert cut.notes(NEXT, copy) == "### Added\n\n- New."


@pytest.mark.parametrize(
    ("wanted", "changelog", "words"),
    [
        *(
            (text, UNRELEASED, "is not a version: write three numbers")
            for text in ("", "1.2", "v1.2.3", "1.2.3-rc.1", "01.2.3", "1.2.3\n", "latest")
        ),
        ("0.1.0", UNRELEASED, r"has a section 0\.1\.0: choose the next version"),
        (CURRENT, NEW, r"are of version .* already: choose the next version"),
        ("0.99.0", RELEASED, "there is nothing to release"),
    ],
)
def test_what_cannot_be_cut_is_refused(wanted: str, changelog: str, words: str, copy: Path) -> None:
    (copy / CHANGELOG).write_text(changelog)
    with pytest.raises(ReleaseError, match=words):
        cut.check(wanted, copy)


def test_a_version_without_notes_is_not_released_and_the_changelog_has_only_sections_that_are_looked_for(
    copy: Path,
) -> None:
    (copy / CHANGELOG).write_text(NEW)
    with pytest.raises(ReleaseError, match=f"has no section {re.escape(CURRENT)}"):
        cut.notes(CURRENT, copy)
    text = (REPOSITORY / CHANGELOG).read_text()
    assert text.count("\n## Unreleased\n") == 1
    assert re.findall(r"^## (?!Unreleased$|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$).*", text, re.MULTILINE) == []


def test_the_command_says_what_is_wrong() -> None:
    with pytest.raises(SystemExit, match=r"^error: .*choose the next version"):
        main(["cut", CURRENT])
    with pytest.raises(SystemExit, match=r"^error: .*run `make cut VERSION=9\.9\.9` and commit"):
        main(["notes", "9.9.9"])
