"""A whole release: built twice with the same bytes, verified as the manual says, and installed from its files alone."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworkrelease import build, chart, check, publish, registry, signing
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.release import PREFIX, PROGRAMS, PROJECT, Release, bill_of, moved
from localcluster import Cluster, Depth
from localcluster.images import base, baselock
from localcluster.packages import require
from tests.support.clusters import own_cluster, require_node
from tests.support.pages import blocks

# It needs a node, too; it has no mark of that, and runs with the chart.
pytestmark = [pytest.mark.chart, pytest.mark.long]

VERSION = tomllib.loads(run("git", "show", "HEAD:pyproject.toml", folder=REPOSITORY))["project"]["version"]
PAGE = "docs/operate/releases.md"


def made(folder: Path, private: str) -> Release:
    """Build and sign a release of the last commit."""
    for part in ("sources", "release"):
        (folder / part).mkdir(parents=True)
    commit = build.export(VERSION, folder / "sources")
    build.build(commit, folder / "release", prefix=PREFIX)
    signing.sign(folder / "release", private)
    return Release(folder / "release", VERSION)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    require_node()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSIGN_PASSWORD", "secret")
        patch.setenv("PROJECT_URL", "https://git.example/project")
        private, public = signing.make_key(tmp_path_factory.mktemp("keys") / "cosign")
        yield str(private), public


@pytest.fixture(scope="module")
def release(keys: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Release:
    return made(tmp_path_factory.mktemp("first"), keys[0])


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config, release: Release) -> Iterator[Cluster]:
    with own_cluster(pytestconfig, Depth.NODE, "release") as found:
        yield found


def test_a_release_is_verified_as_the_manual_says_and_not_by_another_key(
    release: Release, keys: tuple[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "release"
    run("cp", "--recursive", release.folder, copy)
    run("cp", keys[1], copy / "cosign.pub")
    (tmp_path / "cosign").symlink_to(chart.program("cosign"))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (commands, *_) = [block.text for block in blocks(PAGE) if block.heading == "Verify a release"]
    command = ["bash", "-euc", commands]

    def verified() -> int:
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode

    assert verified() == 0
    said = chart.helm("show", "chart", str(release.folder / release.chart))
    assert re.findall(r"^home: .*|^- https.*", said, re.MULTILINE) == [
        "home: https://git.example/project",
        "- https://git.example/project",
    ]
    with (copy / "install.yaml").open("a") as file:
        file.write("# changed\n")
    assert verified() != 0
    # Whoever changes a file can write its checksum, too, but cannot sign it.
    signing.write_checksums(copy)
    assert verified() != 0
    _, other = signing.make_key(tmp_path / "other")
    with pytest.raises(ReleaseError, match="verify-blob"):
        check.verify(release, other)
    with pytest.raises(ReleaseError, match=r"other\.key exists"):
        signing.make_key(tmp_path / "other")


def test_the_same_commit_gives_the_same_bytes(release: Release, keys: tuple[str, Path], tmp_path: Path) -> None:
    again = made(tmp_path, keys[0])
    assert (again.folder / signing.CHECKSUMS).read_text() == (release.folder / signing.CHECKSUMS).read_text()


def test_the_same_packages_give_the_same_base_image(keys: tuple[str, Path], tmp_path: Path) -> None:
    """It is made again, from Debian's mirror, and refused where its digest is not that of the lock."""
    made_again = base.locked(tmp_path / "images")
    assert made_again.archive
    assert made_again.archive.is_file()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bill_of_an_image_lists_what_is_in_it(release: Release, program: str) -> None:
    archive = release.image(program)
    bill = json.loads(bill_of(archive).read_text())
    listed = {one["name"]: one["version"] for one in bill["components"] if one["purl"].startswith("pkg:deb/")}
    # What the locks say must be there is there, in these versions.
    assert listed == {one.name: one.version for one in baselock.read(base.LOCK).packages}
    wheels = {one["name"]: one["version"] for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}
    pinned = re.findall(r"^([a-z0-9-]+)==(\S+)", (REPOSITORY / f"requirements/{program}.txt").read_text(), re.MULTILINE)
    pip = re.findall(r"^([a-z0-9-]+)==(\S+)", (REPOSITORY / "requirements/base.txt").read_text(), re.MULTILINE)
    assert wheels == {**dict(pinned), **dict(pip), PROJECT: VERSION}
    require(("skopeo",))
    labels = json.loads(run("skopeo", "inspect", "--config", f"oci-archive:{archive}"))["config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.revision"] == run("git", "rev-parse", "HEAD", folder=REPOSITORY).strip()


def test_a_release_installs_from_its_files_alone(
    release: Release, keys: tuple[str, Path], cluster: Cluster, tmp_path: Path
) -> None:
    private, public = keys
    check.verify(release, public)
    check.programs(release, tmp_path / "venv")
    with registry.on_loopback(tmp_path) as address, registry.on_node(tmp_path, cluster):
        prefix = moved(release.prefix, address)
        published = publish.publish(release, prefix, private)
        for reference in published.values():
            signing.verify_image(reference, public)
        _, other = signing.make_key(tmp_path / "other")
        with pytest.raises(ReleaseError, match=r"cosign verify .*failed"):
            signing.verify_image(published["barrier"], other)
        check.installed(cluster, release, prefix)
