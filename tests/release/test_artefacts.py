"""The artefacts of a release, as far as no image is built: distributions, checksums, archives, bills of materials."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkrelease import bills, signing
from frameworkrelease.__main__ import main
from frameworkrelease.build import Sources, distributions, export, pack
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.release import PREFIX, PROJECT, Release, images, moved

# That of the commit: the working tree may be of another one.
VERSION = tomllib.loads(run("git", "show", "HEAD:pyproject.toml", folder=REPOSITORY))["project"]["version"]


# --- the wheel and the source distribution ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return export(VERSION, tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def built(exported: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    distributions(exported, folder)
    return folder


def test_the_same_commit_gives_the_same_bytes_and_so_do_its_sources(
    exported: Sources, built: Path, tmp_path: Path
) -> None:
    # Somebody else's checkout has other times.
    run("find", exported.folder, "-exec", "touch", "--date=@1000000000", "{}", "+")
    distributions(exported, tmp_path)
    contents = {file.name: file.read_bytes() for file in built.iterdir()}
    assert contents == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    sdist = built / f"{PROJECT}-{VERSION}.tar.gz"
    run(*pip, "--wheel-dir", tmp_path / "again", sdist, environ=exported.environ)
    wheel = Release(tmp_path / "again", VERSION).wheel
    assert wheel.read_bytes() == contents[wheel.name]


def test_the_distributions_have_all_files_of_the_programs_and_nothing_of_the_tools(
    exported: Sources, built: Path
) -> None:
    with zipfile.ZipFile(Release(built, VERSION).wheel) as wheel:
        names = wheel.namelist()
    packages = {f"framework{name}" for name in ("barrier", "client", "controller", "history", "injector", "kube")}
    assert {name.partition("/")[0] for name in names} == packages | {f"frameworkcontroller-{VERSION}.dist-info"}
    roots = [exported.folder / package.removeprefix("framework") for package in packages]
    files = {str(file.relative_to(root)) for root in roots for file in root.glob("framework*/**/*") if file.is_file()}
    assert files == {name for name in names if ".dist-info/" not in name}
    assert {f"{package}/py.typed" for package in packages} | {"frameworkcontroller/api/crd.yaml"} <= files
    with tarfile.open(built / f"{PROJECT}-{VERSION}.tar.gz") as sdist:
        assert {"LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml"} <= {
            name.partition("/")[2] for name in sdist.getnames()
        }


def test_sources_that_are_not_those_of_the_release_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"run `make cut VERSION=999\.0\.0` and commit"):
        export("999.0.0", tmp_path)
    with pytest.raises(ReleaseError, match="no-such-commit"):
        export(VERSION, tmp_path, "no-such-commit")


def test_the_time_of_the_environment_takes_the_place_of_that_of_the_commit(tmp_path: Path) -> None:
    found = export(VERSION, tmp_path, environ={"SOURCE_DATE_EPOCH": "1000000000"})
    assert (found.epoch, found.environ["SOURCE_DATE_EPOCH"]) == (1_000_000_000, "1000000000")


# --- the checksums ---------------------------------------------------------------------------------------------------


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    folder.mkdir()
    for name in ("a.whl", "b.tgz"):
        (folder / name).write_text(name)
    signing.write_checksums(folder)
    (folder / signing.SIGNATURE).write_text("")
    return folder


RIGHT = hashlib.sha256(b"a.whl").hexdigest()


def test_checksums_are_those_that_sha256sum_checks(release: Path) -> None:
    assert signing.verify_checksums(release) == {"a.whl", "b.tgz"}
    assert (release / signing.CHECKSUMS).read_text().splitlines()[0] == f"{RIGHT}  a.whl"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        pytest.param("b.tgz", "another", r"b\.tgz: FAILED", id="changed"),
        pytest.param("b.tgz", None, r"b\.tgz: FAILED open or read", id="missing"),
        pytest.param("c.yaml", "", r"the difference: c\.yaml", id="without a checksum"),
        pytest.param("SHA256SUMS.more", "", r"the difference: SHA256SUMS\.more", id="named like the checksums"),
    ],
)
def test_a_file_that_is_not_that_of_the_release_is_found(
    release: Path, name: str, text: str | None, words: str
) -> None:
    (release / name).unlink() if text is None else (release / name).write_text(text)
    with pytest.raises(ReleaseError, match=words):
        signing.verify_checksums(release)


@pytest.mark.parametrize(
    "line",
    [
        "", "no sums", f"{RIGHT}  b.tgz", f"{RIGHT}  ../release/a.whl", f"{RIGHT}  ./a.whl", f"{RIGHT} a.whl",
        f"\\{RIGHT}  a.whl", f"SHA256 (a.whl) = {RIGHT}", f"# {RIGHT}  a.whl",
    ],
)  # fmt: skip
def test_a_line_that_is_no_checksum_of_a_file_in_the_folder_is_refused(release: Path, line: str) -> None:
    sums = release / signing.CHECKSUMS
    own, other = sums.read_text().splitlines()
    for lines in ([line], [line, other], [own, line, other]):
        sums.write_text("\n".join(lines) + "\n")
        with pytest.raises(ReleaseError, match=r"`sha256sum|the difference: "):
            signing.verify_checksums(release)


# --- images and their bills of materials -----------------------------------------------------------------------------

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
METADATA = "Metadata-Version: 2.4\nName: Charset_Normalizer\nVersion: 2.0\nLicense-Expression: MIT\n\nText: none\n"
REFERENCE = "registry.example/team/controller:1.2.3"


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
    metadata = "app/lib/python3.11/site-packages/c.dist-info/METADATA"
    layers = [
        add_blob(folder, layer({"./var/lib/dpkg/status": "Package: old\n", "./etc/hosts": "x"})),
        add_blob(folder, layer({"var/lib/dpkg/status": STATUS, metadata: METADATA})),
    ]
    manifest = add_blob(folder, json.dumps({"config": add_blob(folder, b"{}"), "layers": layers}).encode())
    annotations = {"org.opencontainers.image.ref.name": "controller"}
    (folder / "index.json").write_text(json.dumps({"manifests": [{**manifest, "annotations": annotations}]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def validated(bill: str) -> Any:
    """A bill of materials that the schema of its format accepts."""
    # Its imports compile a grammar for seconds, which is nothing for each worker to do that collects this module.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    return json.loads(bill)


def test_an_archive_of_an_image_does_not_depend_on_the_day_or_the_user(image: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    digest = pack(image, REFERENCE, first, 1_000_000)
    for file in image.rglob("*"):
        os.utime(file, (5, 5))
    (image / "index.json").chmod(0o600)
    (image / "blobs").chmod(0o700)
    pack(image, REFERENCE, second, 1_000_000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert {(member.mtime, member.uid, member.uname) for member in tar} == {(1_000_000, 0, "")}
        assert {"index.json", "oci-layout", "blobs/sha256"} < set(tar.getnames())
        index = tar.extractfile("index.json")
        assert index
        (manifest,) = json.load(index)["manifests"]
    assert manifest["annotations"]["io.containerd.image.name"] == REFERENCE
    assert manifest["digest"] == digest


def test_a_bill_of_an_image_lists_its_packages_and_distributions_and_that_of_the_wheel_libraries_of_python_alone(
    image: Path, release: Path, tmp_path: Path
) -> None:
    digest = pack(image, REFERENCE, tmp_path / "image.tar", 0)
    texts = [bills.of_image(REFERENCE, digest, bills.contents(image, digest), 1_000_000) for _ in range(2)]
    assert texts[0] == texts[1]
    bill = validated(texts[0])
    assert bill["metadata"]["timestamp"] == "1970-01-12T13:46:40+00:00"
    assert digest in bill["metadata"]["component"]["purl"]
    assert [one["purl"].partition("?")[0] for one in bill["components"]] == [
        "pkg:pypi/charset-normalizer@2.0",
        "pkg:pypi/frameworkcontroller@1.2.3",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13",
        "pkg:deb/debian/python3.11@3.11.2-6%2Bdeb12u6",
    ]
    assert bill["components"][0]["licenses"] == [{"license": {"id": "MIT"}}]

    # Two images have the same library.
    bill = validated(bills.of_wheel(release / "a.whl", "1.2.3", bills.contents(image, digest) * 2, 0))
    assert [one["name"] for one in bill["components"]] == ["charset-normalizer"]
    assert bill["metadata"]["component"]["type"] == "application"
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": RIGHT}]


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
    text = images("1.2.3", prefix, {"barrier": "sha256:1"})
    (tmp_path / "images.yaml").write_text(text)
    assert Release(tmp_path, "1.2.3").prefix == prefix
    assert moved(prefix, "127.0.0.1:5000") == prefix.replace(registry, "127.0.0.1:5000")
    assert yaml.safe_load(text) == {
        "image": {"registry": registry, "digestsOf": "1.2.3"},
        "barrier": {"image": {"repository": repository, "digest": "sha256:1"}},
    }


def test_a_release_has_a_bill_for_the_wheel_and_each_image(tmp_path: Path) -> None:
    files = Release(tmp_path, "1.2.3").names
    assert {name for name in files if name.endswith(".cdx.json")} == {
        "frameworkcontroller-1.2.3-py3-none-any.whl.cdx.json",
        *(f"{program}-1.2.3.oci.tar.cdx.json" for program in ("barrier", "controller", "history", "injector")),
    }
    assert {"frameworkcontroller-1.2.3.tgz", "frameworkcontroller-1.2.3.tar.gz", "install.yaml"} <= files


@pytest.mark.parametrize("command", ["build", "check", "publish"])
def test_a_release_without_a_version_or_a_key_is_refused_with_the_variable(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As make calls it where `VERSION` or `KEY` is not set."""
    for arguments, missing in ((["", "--key=x"], "VERSION=1.2.3"), (["1.2.3", "--key="], "KEY=cosign.key")):
        with pytest.raises(SystemExit) as ended:
            main([command, *arguments])
        assert ended.value.code == 2
        assert f"it is missing: add {missing}" in capsys.readouterr().err


def test_what_is_wrong_with_a_release_is_one_line_of_the_command() -> None:
    with pytest.raises(SystemExit, match=r"error: there is no .*0\.0\.1: run `make release VERSION=0\.0\.1 KEY=k`"):
        main(["publish", "0.0.1", "--key=k"])
