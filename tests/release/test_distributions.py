"""The wheel and the source distribution, built from a commit."""

from __future__ import annotations

import sys
import tarfile
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from frameworkrelease.artefacts import checksums, sources
from frameworkrelease.artefacts.build import distributions
from frameworkrelease.artefacts.release import PROJECT, Release
from frameworkrelease.artefacts.run import ReleaseError, run
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.cut import VersionError
from localcluster.archive import digest

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkrelease.artefacts.sources import Sources

# That of the commit: the working tree may be of another one.
VERSION = tomllib.loads(run("git", "show", "HEAD:pyproject.toml", folder=REPOSITORY))["project"]["version"]
SDIST = f"{PROJECT}-{VERSION}.tar.gz"


@pytest.fixture
def exported(tmp_path: Path) -> Sources:
    folder = tmp_path / "sources"
    folder.mkdir()
    return sources.export(VERSION, folder)


@pytest.fixture
def built(exported: Sources, tmp_path: Path) -> Path:
    distributions(exported, tmp_path / "built")
    return tmp_path / "built"


def test_the_same_commit_gives_the_same_bytes(exported: Sources, built: Path, tmp_path: Path) -> None:
    # Somebody else's checkout has other times.
    run("find", exported.folder, "-exec", "touch", "--date=@1000000000", "{}", "+")
    distributions(exported, tmp_path / "again")
    assert checksums.write(built).read_text() == checksums.write(tmp_path / "again").read_text()


def test_the_sources_make_the_same_wheel(exported: Sources, built: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    again = tmp_path / "again"
    run(*pip, "--wheel-dir", again, built / SDIST, environ=exported.environ)
    assert digest(Release(again, VERSION).wheel) == digest(Release(built, VERSION).wheel)


def test_the_wheel_has_what_the_programs_read_and_nothing_of_the_tools(built: Path) -> None:
    with zipfile.ZipFile(Release(built, VERSION).wheel) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "frameworkbarrier", "frameworkclient", "frameworkcontroller", "frameworkinjector", "frameworkkube",
        f"frameworkcontroller-{VERSION}.dist-info",
    }  # fmt: skip
    data = {"frameworkbarrier/presets/pytorch.toml", "frameworkcontroller/api/crd.yaml"}
    assert data | {"frameworkcontroller/engine/default.yaml"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_sources_have_the_licence_and_the_changelog(built: Path) -> None:
    with tarfile.open(built / SDIST) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml"} <= names


def test_sources_of_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VersionError, match=r"run `make cut VERSION=999\.0\.0` and commit"):
        sources.export("999.0.0", tmp_path)


def test_a_commit_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no-such-commit"):
        sources.export(VERSION, tmp_path, "no-such-commit")


def test_the_time_of_the_environment_takes_the_place_of_that_of_the_commit(tmp_path: Path) -> None:
    found = sources.export(VERSION, tmp_path, environ={"SOURCE_DATE_EPOCH": "1000000000"})
    assert (found.epoch, found.environ["SOURCE_DATE_EPOCH"]) == (1_000_000_000, "1000000000")
