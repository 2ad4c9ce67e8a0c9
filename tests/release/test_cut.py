"""The version: one source, the same in every place; and what cutting the next one changes."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkrelease import changelog, plain, version
from frameworkrelease import cut as cutting
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.version import VersionError

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.date(2026, 12, 24)
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- New.\n\n## 0.1.0 - 2026-11-22\n\n- Old.\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of every file that names the version."""
    for file in version.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / file, tmp_path / file)
    return tmp_path


def test_every_place_names_the_version_of_the_one_source() -> None:
    source = version.current()
    assert [place for place in version.places() if place.version != source] == []
    version.require(source)


@pytest.mark.parametrize("program", ["frameworkbarrier", "frameworkcontroller", "frameworkinjector"])
def test_each_program_says_the_version_of_the_one_source(program: str) -> None:
    done = subprocess.run([sys.executable, "-m", program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == metadata.version("frameworkcontroller") == version.current()


def test_what_is_installed_says_the_version_of_the_one_source() -> None:
    """The tags of the images, the label of every object, and the barrier that is injected."""
    source = version.current()
    documents = [one for one in yaml.safe_load_all(plain.FILE.read_text()) if one]
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in documents} == {source}
    text = plain.FILE.read_text()
    assert f"--barrier-image=docker.io/frameworkcontroller/barrier:{source}" in text
    for program in ("controller", "injector"):
        assert f"image: docker.io/frameworkcontroller/{program}:{source}" in text


def test_a_version_is_written_into_every_place(copy: Path) -> None:
    version.write("3.14.15", copy)
    assert {place.version for place in version.places(copy)} == {"3.14.15"}
    assert {place.file for place in version.places(copy)} == set(version.PLACES)
    version.require("3.14.15", copy)
    chart = yaml.safe_load((copy / "charts/frameworkcontroller/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == ("3.14.15", "3.14.15")


def test_nothing_else_of_a_file_changes(copy: Path) -> None:
    before = {file: (copy / file).read_text() for file in version.PLACES}
    version.write("3.14.15", copy)
    for file, text in before.items():
        assert (copy / file).read_text().replace("3.14.15", version.current()) == text


def test_sources_of_another_version_are_refused_with_the_place(copy: Path) -> None:
    with pytest.raises(VersionError, match=r"pyproject.toml, line \d+, names version .* run `make cut VERSION=9.9.9`"):
        version.require("9.9.9", copy)
    (copy / "deploy" / "hello.yaml").write_text("kind: Framework\n")
    with pytest.raises(VersionError, match=r"deploy/hello.yaml names no version"):
        version.require(version.current(), copy)


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "1.2.3-rc.1", "01.2.3", "1.2.3\n", "latest"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(VersionError, match="is not a version: write three numbers"):
        version.require(text)


def test_cutting_a_version_makes_its_section_of_what_was_unreleased() -> None:
    cut = changelog.cut(CHANGELOG, "0.2.0", DAY)
    assert cut == CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 - 2026-12-24\n")
    assert changelog.section(cut, "0.2.0") == "### Added\n\n- New.\n"
    assert changelog.section(cut, "0.1.0") == "- Old.\n"
    assert changelog.section(cut, "0.1") is None


def test_a_version_that_was_released_is_not_cut_again() -> None:
    with pytest.raises(VersionError, match=r"has a section 0\.1\.0: choose the next version"):
        changelog.cut(CHANGELOG, "0.1.0", DAY)


def test_nothing_is_cut_where_nothing_is_unreleased() -> None:
    with pytest.raises(VersionError, match="there is nothing to release"):
        changelog.cut(changelog.cut(CHANGELOG, "0.2.0", DAY), "0.3.0", DAY)


def test_the_changelog_of_the_repository_can_be_cut() -> None:
    text = (REPOSITORY / changelog.FILE).read_text()
    if text.partition("## Unreleased\n")[2].partition("\n## ")[0].strip():
        assert changelog.section(changelog.cut(text, "999.0.0", DAY), "999.0.0")


def test_a_version_that_was_cut_has_notes(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / changelog.FILE).write_text(CHANGELOG)
    assert cutting.main(["0.2.0", "--notes"], copy) == 1
    assert "run `make cut VERSION=0.2.0` and commit" in capsys.readouterr().err
    assert cutting.main(["0.2.0"], copy) == 0
    assert cutting.main(["0.2.0", "--notes"], copy) == 0
    assert capsys.readouterr().out == "### Added\n\n- New.\n"
    assert cutting.main(["0.2.0"], copy) == 1
    assert "has a section 0.2.0" in capsys.readouterr().err


def test_a_version_without_notes_is_not_released(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / changelog.FILE).write_text("# Changelog\n\n## Unreleased\n\n- New.\n")
    assert cutting.main([version.current(), "--notes"], copy) == 1
    assert f"CHANGELOG.md has no section {version.current()}" in capsys.readouterr().err
