"""The artefacts of a release, as far as nothing is built: checksums, layouts of images, bills of materials, values."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkrelease.artefacts import bills, checksums, layout
from frameworkrelease.artefacts.__main__ import main
from frameworkrelease.artefacts.bills import Part
from frameworkrelease.artefacts.check import moved
from frameworkrelease.artefacts.release import PREFIX, Release, images
from frameworkrelease.artefacts.run import ReleaseError

if TYPE_CHECKING:
    from pathlib import Path


def validated(bill: str) -> object:
    """Return what is wrong with a bill of materials, None if nothing is."""
    # Its imports compile a grammar for seconds, which is nothing for each worker to do that collects this module.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill)


STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u13

Package: gone
Status: deinstall ok config-files
Version: 1

Package: python3.11
Status: install ok installed
Version: 3.11.2-6+deb12u6
Description: a language
 with more lines
"""
METADATA = "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {license}\n\nText: none\n"
SITE = "app/lib/python3.11/site-packages"


def add_blob(folder: Path, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def layer(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), mtime=0)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A layout of an image of two layers, as buildah writes it."""
    folder = tmp_path / "image"
    requests = METADATA.format(name="Charset_Normalizer", version="2.0", license="MIT")
    layers = [
        add_blob(folder, layer({"./var/lib/dpkg/status": "Package: old\n", "./etc/hosts": "x"})),
        add_blob(folder, layer({"var/lib/dpkg/status": STATUS, f"{SITE}/c.dist-info/METADATA": requests})),
    ]
    config = add_blob(folder, json.dumps({"config": {"Labels": {"a": "b"}}}).encode())
    manifest = add_blob(folder, json.dumps({"config": config, "layers": layers}).encode())
    annotations = {"org.opencontainers.image.ref.name": "controller"}
    (folder / "index.json").write_text(json.dumps({"manifests": [{**manifest, "annotations": annotations}]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    folder.mkdir()
    for name in ("a.whl", "b.tgz"):
        (folder / name).write_text(name)
    checksums.write(folder)
    return folder


def test_checksums_are_those_that_sha256sum_checks(release: Path) -> None:
    assert checksums.verify(release) == {"a.whl", "b.tgz"}
    sums = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in ("a.whl", "b.tgz")]
    assert (release / checksums.FILE).read_text() == "".join(sums)


def test_a_file_that_was_changed_is_found(release: Path) -> None:
    (release / "b.tgz").write_text("another")
    with pytest.raises(ReleaseError, match=r"b\.tgz: FAILED"):
        checksums.verify(release)


@pytest.mark.parametrize("name", ["c.yaml", "SHA256SUMS.more"])
def test_a_file_without_a_checksum_is_found(release: Path, name: str) -> None:
    (release / checksums.SIGNATURE).write_text("")
    (release / name).write_text("")
    with pytest.raises(ReleaseError, match=f"the difference: {name}"):
        checksums.verify(release)


def test_a_file_that_is_missing_is_found(release: Path) -> None:
    (release / "b.tgz").unlink()
    with pytest.raises(ReleaseError, match=r"b\.tgz: FAILED open or read"):
        checksums.verify(release)


RIGHT = hashlib.sha256(b"a.whl").hexdigest()


@pytest.mark.parametrize(
    "line",
    [
        "", "no sums", f"{RIGHT}  b.tgz", f"{RIGHT}  ../release/a.whl", f"{RIGHT}  ./a.whl", f"{RIGHT} a.whl",
        f"\\{RIGHT}  a.whl", f"SHA256 (a.whl) = {RIGHT}", f"# {RIGHT}  a.whl",
    ],
)  # fmt: skip
def test_a_line_that_is_no_checksum_of_a_file_in_the_folder_is_refused(release: Path, line: str) -> None:
    sums = release / checksums.FILE
    own, other = sums.read_text().splitlines()
    for lines in ([line], [line, other], [own, line, other]):
        sums.write_text("\n".join(lines) + "\n")
        with pytest.raises(ReleaseError, match=r"`sha256sum|the difference: "):
            checksums.verify(release)


def test_an_archive_of_an_image_does_not_depend_on_the_day_or_the_user(image: Path, tmp_path: Path) -> None:
    layout.name(image, "registry.example/team/controller:1.2.3")
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    layout.pack(image, first, 1_000_000)
    for file in image.rglob("*"):
        os.utime(file, (5, 5))
    (image / "index.json").chmod(0o600)
    layout.pack(image, second, 1_000_000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert {member.mtime for member in tar} == {1_000_000}
        index = tar.extractfile("index.json")
        assert index
        (manifest,) = json.load(index)["manifests"]
    assert manifest["annotations"]["io.containerd.image.name"] == "registry.example/team/controller:1.2.3"
    assert manifest["digest"] == layout.digest(image)


def test_the_contents_of_an_image_are_its_packages_and_distributions(image: Path) -> None:
    assert bills.parts(image) == (
        Part("deb", "libc6", "2.36-9+deb12u13"),
        Part("deb", "python3.11", "3.11.2-6+deb12u6"),
        Part("pypi", "charset-normalizer", "2.0", "MIT"),
    )


def test_the_bill_of_an_image_is_valid_and_the_same_each_time(image: Path) -> None:
    reference = "registry.example/team/controller:1.2.3"
    texts = [bills.of_image(reference, image, bills.parts(image), 1_000_000) for _ in range(2)]
    assert texts[0] == texts[1]
    assert validated(texts[0]) is None
    bill = json.loads(texts[0])
    assert bill["metadata"]["timestamp"] == "1970-01-12T13:46:40+00:00"
    assert layout.digest(image) in bill["metadata"]["component"]["purl"]
    urls = [one["purl"].partition("?")[0] for one in bill["components"]]
    assert urls == [
        "pkg:pypi/charset-normalizer@2.0",
        "pkg:pypi/frameworkcontroller@1.2.3",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13",
        "pkg:deb/debian/python3.11@3.11.2-6%2Bdeb12u6",
    ]
    assert bill["components"][0]["licenses"] == [{"license": {"id": "MIT"}}]


def test_the_bill_of_the_wheel_lists_libraries_of_python_alone(release: Path) -> None:
    contents = [Part("deb", "libc6", "1"), Part("pypi", "aiohttp", "3.14.0", "Apache-2.0 AND MIT")]
    text = bills.of_wheel(release / "a.whl", "1.2.3", contents, 0)
    assert validated(text) is None
    bill = json.loads(text)
    assert [one["name"] for one in bill["components"]] == ["aiohttp"]
    digest = hashlib.sha256(b"a.whl").hexdigest()
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]


@pytest.mark.parametrize(
    ("prefix", "registry", "repository"),
    [
        (PREFIX, "docker.io", "frameworkcontroller/barrier"),
        ("registry.example:5000/a/b", "registry.example:5000", "a/b/barrier"),
        ("registry.example", "registry.example", "barrier"),
    ],
)
def test_the_values_of_a_release_name_each_image_by_its_digest(
    prefix: str, registry: str, repository: str, tmp_path: Path
) -> None:
    text = images(prefix, {"barrier": "sha256:1"})
    (tmp_path / "images.yaml").write_text(text)
    assert Release(tmp_path, "1.2.3").prefix == prefix
    assert moved(prefix, "127.0.0.1:5000") == prefix.replace(registry, "127.0.0.1:5000")
    assert yaml.safe_load(text) == {
        "image": {"registry": registry},
        "barrier": {"image": {"repository": repository, "digest": "sha256:1"}},
    }


def test_a_release_has_a_bill_for_the_wheel_and_each_image(tmp_path: Path) -> None:
    files = Release(tmp_path, "1.2.3").names
    assert {name for name in files if name.endswith(".cdx.json")} == {
        "frameworkcontroller-1.2.3-py3-none-any.whl.cdx.json",
        *(f"{program}-1.2.3.oci.tar.cdx.json" for program in ("barrier", "controller", "injector")),
    }
    assert {"frameworkcontroller-1.2.3.tgz", "frameworkcontroller-1.2.3.tar.gz", "install.yaml"} <= files


@pytest.mark.parametrize("command", ["build", "check", "publish"])
def test_a_release_without_a_version_or_a_key_is_refused_with_the_variable(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As make calls it where `VERSION` or `KEY` is not set."""
    for arguments, missing in ((["", "--key=x"], "VERSION=1.2.3"), (["1.2.3", "--key="], "KEY=cosign.key")):
        with pytest.raises(SystemExit):
            main([command, *arguments])
        assert f"it is missing: add {missing}" in capsys.readouterr().err
