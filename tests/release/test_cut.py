"""The version: one source, the same in every place; and what cutting the next one changes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkrelease import cut, plain
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.cut import CHANGELOG, VersionError

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT = "pyproject.toml"
FILES = [one["filename"] for one in tomllib.loads((REPOSITORY / PYPROJECT).read_text())["tool"]["bumpversion"]["files"]]
NAMED = re.compile(r'(?:[:/"-]|\bv|ersion: |--version |VERSION=)(\d+\.\d+\.\d+)\b(?!\.\d)')
UNRELEASED = "# Changelog\n\n## Unreleased\n\n### Added\n\n- New.\n\n## 0.1.0 - 2026-11-22\n\n- Old.\n"
RELEASED = UNRELEASED.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 - 2026-12-24\n")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of every file that names the version, with a changelog of its own."""
    for file in (*FILES, PYPROJECT):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    (tmp_path / CHANGELOG).write_text(UNRELEASED)
    return tmp_path


def bump(copy: Path, version: str) -> None:
    """Write a version into the files, as `make cut` does."""
    command = [sys.executable, "-m", "bumpversion", "bump", "--new-version", version]
    subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("file", [one for one in FILES if one != CHANGELOG])
def test_every_place_names_the_version_of_the_one_source(file: str) -> None:
    assert set(NAMED.findall((REPOSITORY / file).read_text())) == {cut.current()}


def test_every_file_of_a_program_that_names_its_version_is_listed() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lE", '^__version__ = "', "--", "*.py"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listed.stdout.split()) <= set(FILES)


@pytest.mark.parametrize("program", ["frameworkbarrier", "frameworkclient", "frameworkcontroller", "frameworkinjector"])
def test_each_program_says_the_version_of_the_one_source(program: str) -> None:
    done = subprocess.run([sys.executable, "-m", program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == metadata.version("frameworkcontroller") == cut.current()


def test_what_is_installed_says_the_version_of_the_one_source() -> None:
    """The tags of the images, the label of every object, and the barrier that is injected."""
    source = cut.current()
    documents = [one for one in yaml.safe_load_all(plain.FILE.read_text()) if one]
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in documents} == {source}
    text = plain.FILE.read_text()
    assert f"--barrier-image=docker.io/frameworkcontroller/barrier:{source}" in text
    for program in ("controller", "injector"):
        assert f"image: docker.io/frameworkcontroller/{program}:{source}" in text


def test_a_version_is_written_into_every_place_and_nothing_else_changes(copy: Path) -> None:
    places = [file for file in (*FILES, PYPROJECT) if file != CHANGELOG]
    before = {file: (copy / file).read_text() for file in places}
    bump(copy, "3.14.15")
    for file, text in before.items():
        after = (copy / file).read_text()
        assert after != text
        assert after.replace("3.14.15", cut.current()) == text
        assert file == PYPROJECT or set(NAMED.findall(after)) == {"3.14.15"}
    cut.require("3.14.15", copy)


def test_what_a_sentence_says_of_a_version_stays(copy: Path) -> None:
    sentence = f"\nBefore {cut.current()}, of which 10.{cut.current()} is an address.\n"
    (copy / "README.md").write_text((copy / "README.md").read_text() + sentence)
    bump(copy, "3.14.15")
    assert (copy / "README.md").read_text().endswith(sentence)


def test_cutting_a_version_makes_its_section_of_what_was_unreleased(copy: Path) -> None:
    cut.check("0.2.0", copy)
    days = {datetime.now(UTC).date().isoformat()}
    bump(copy, "0.2.0")
    days.add(datetime.now(UTC).date().isoformat())
    written = (copy / CHANGELOG).read_text()
    assert written in {RELEASED.replace("2026-12-24", day) for day in days}
    assert cut.notes("0.2.0", copy) == "### Added\n\n- New.\n"


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "1.2.3-rc.1", "01.2.3", "1.2.3\n", "latest"])
def test_what_is_no_version_is_refused(text: str, copy: Path) -> None:
    with pytest.raises(VersionError, match="is not a version: write three numbers"):
        cut.check(text, copy)


def test_a_version_that_was_released_is_not_cut_again(copy: Path) -> None:
    with pytest.raises(VersionError, match=r"has a section 0\.1\.0: choose the next version"):
        cut.check("0.1.0", copy)


def test_the_version_of_the_sources_is_not_cut_again(copy: Path) -> None:
    (copy / CHANGELOG).write_text("# Changelog\n\n## Unreleased\n\n- New.\n")
    with pytest.raises(VersionError, match=r"are of version .* already: choose the next version"):
        cut.check(cut.current(), copy)


def test_nothing_is_cut_where_nothing_is_unreleased(copy: Path) -> None:
    (copy / CHANGELOG).write_text(RELEASED)
    with pytest.raises(VersionError, match="there is nothing to release"):
        cut.check("0.3.0", copy)


def test_sources_of_another_version_are_refused() -> None:
    with pytest.raises(VersionError, match=rf"are of version {cut.current()}: run `make cut VERSION=9.9.9` and commit"):
        cut.require("9.9.9")


def test_the_changelog_of_the_repository_has_the_sections_that_are_looked_for() -> None:
    text = (REPOSITORY / CHANGELOG).read_text()
    assert text.count("\n## Unreleased\n") == 1
    assert re.findall(r"^## (?!Unreleased$|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$).*", text, re.MULTILINE) == []


def test_the_command_says_what_is_wrong_or_prints_the_notes(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cut.main(["0.2.0"], copy) == 0
    assert cut.main(["0.1.0"], copy) == 1
    assert "error: CHANGELOG.md has a section 0.1.0" in capsys.readouterr().err
    assert cut.main(["0.2.0", "--notes"], copy) == 1
    assert "run `make cut VERSION=0.2.0` and commit" in capsys.readouterr().err
    bump(copy, "0.2.0")
    assert cut.main(["0.2.0", "--notes"], copy) == 0
    assert capsys.readouterr().out == "### Added\n\n- New.\n"


def test_a_version_without_notes_is_not_released(copy: Path) -> None:
    (copy / CHANGELOG).write_text("# Changelog\n\n## Unreleased\n\n- New.\n")
    with pytest.raises(VersionError, match=f"has no section {re.escape(cut.current())}"):
        cut.notes(cut.current(), copy)
