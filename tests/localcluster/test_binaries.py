"""Where programs come from: the order of the places, verified downloads, and builds that happen once."""

import io
import os
import re
import socket
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from localcluster import progress
from localcluster.errors import BinaryError, SetupError
from localcluster.programs import binaries, gobuild
from localcluster.programs.binaries import kubernetes_version
from localcluster.programs.catalogue import BUILDABLE, CATALOGUE, minor_of, module_of, pinned_version, version_of
from localcluster.programs.downloads import Source, expected_sum, fetch, source
from localcluster.progress import task
from tests.support.http import serving
from tests.support.waiting import becomes

Environ = dict[str, str]
PINNED = pinned_version("kubernetes")
# A compiler that takes its time, counts its calls, and makes a program out of the arguments `-o FILE`.
FAKE_GO = """
    #!/bin/sh
    if [ "$1" = version ]; then echo go version go1.26.0 linux/amd64; exit; fi
    echo build >>"$CALLS"
    while [ "$1" != -o ]; do shift; done
    [ -e "$2" ] && echo "$2 is there already" >&2 && exit 1
    sleep 0.5
    echo some/package >&2
    printf '#!/bin/sh\\necho built' >"$2"
"""


def script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text).lstrip())
    file.chmod(0o755)
    return file


def version_script(file: Path, words: str) -> Path:
    return script(file, f"#!/bin/sh\necho '{words}'\n")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environ:
    """An environment with an empty cache, an empty PATH but for a compiler, and no downloads."""
    monkeypatch.setattr(gobuild, "OFFICIAL_GO", Path("/nonexistent/go"))
    script(tmp_path / "compiler" / "go", FAKE_GO)
    return {
        "FRAMEWORKCONTROLLER_CACHE": str(tmp_path / "cache"),
        "FRAMEWORKCONTROLLER_DOWNLOADS": "never",
        "PATH": f"{tmp_path / 'path'}:{tmp_path / 'compiler'}:/usr/bin:/bin",
        "CALLS": str(tmp_path / "calls"),
    }


def find(name: str, environ: Environ, kubernetes: str = PINNED) -> Path:
    return binaries.find(name, kubernetes=kubernetes, environ=environ)


class TestOrder:
    def test_the_folder_of_envtest_comes_before_path_and_path_before_the_cache(
        self, environ: Environ, tmp_path: Path
    ) -> None:
        folders = [tmp_path / "assets", tmp_path / "path", tmp_path / "cache" / PINNED]
        first, second, third = [version_script(folder / "kubelet", f"Kubernetes v{PINNED}") for folder in folders]
        assert find("kubelet", environ | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}) == first
        assert find("kubelet", environ) == second
        second.unlink()
        assert find("kubelet", environ) == third
        # A program of another version is ignored.
        for words in ("Kubernetes v1.2.3", f"Kubernetes v{PINNED}-beta.1", f"Kubernetes v{PINNED}1", ""):
            for folder in ("assets", "path"):
                version_script(tmp_path / folder / "kubelet", words)
            assert find("kubelet", environ | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}) == third

    def test_a_program_that_no_place_has_is_built_once_for_all_processes(
        self, environ: Environ, tmp_path: Path
    ) -> None:
        folder = tmp_path / "cache" / pinned_version("etcd")
        # What a killed build leaves.
        script(folder / ".etcd.new", "half a program")
        code = f"from localcluster.programs.binaries import find; print(find('etcd', kubernetes={PINNED!r}), end='')"
        command = [sys.executable, "-c", code]
        started = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert {process.communicate()[0] for process in started} == {str(folder / "etcd")}
        assert find("etcd", environ) == folder / "etcd"
        assert subprocess.check_output([folder / "etcd"]) == b"built\n"
        assert Path(environ["CALLS"]).read_text() == "build\n"
        assert {file.name for file in folder.iterdir()} == {".etcd.lock", "etcd"}


class TestVersion:
    def test_the_version_is_one_setting(self, tmp_path: Path) -> None:
        version_script(tmp_path / "kube-apiserver", "Kubernetes v1.33.5")
        for asked, environ, expected in (
            (None, {}, PINNED),
            (None, {"KUBERNETES": "1.34.4"}, "1.34.4"),
            ("v1.30.14", {"KUBERNETES": "1.34.4"}, "1.30.14"),
            ("1.30", {}, "1.30.14"),
            # The API server of envtest decides.
            (None, {"KUBEBUILDER_ASSETS": str(tmp_path)}, "1.33.5"),
        ):
            assert kubernetes_version(asked, environ) == expected
        for wish in ("latest", "1", "1.36.3.4", "1.99"):
            with pytest.raises(SetupError, match=f"KUBERNETES='{wish}'"):
                kubernetes_version(wish, {})

    def test_one_version_of_each_minor_version_can_be_built_and_every_program_is_pinned(self) -> None:
        minors = [minor_of(version) for version in BUILDABLE]
        assert minors == list(range(minors[0], minors[-1] + 1))
        assert PINNED in BUILDABLE
        assert all(version_of(program, PINNED) for program in CATALOGUE.values())

    @pytest.mark.apiserver
    def test_the_real_programs_report_their_versions(self) -> None:
        version = kubernetes_version(None)
        for name in ("kube-apiserver", "etcd", "kube-controller-manager", "kubectl", "helm"):
            found = binaries.find(name, kubernetes=version)
            if name != "etcd" or "KUBEBUILDER_ASSETS" not in os.environ:
                assert binaries.reported_version(found, CATALOGUE[name]) == version_of(CATALOGUE[name], version)


class TestBuild:
    @pytest.mark.parametrize(
        ("name", "kubernetes", "compiler", "reason"),
        [
            ("kubeadm", PINNED, "compiler", "'kubeadm' is not a program of a cluster; choose one of: kube-apiserver,"),
            ("kubelet", "1.33.5", "compiler", rf"1\.33\.5 has no go\.mod in .*build one of {BUILDABLE[0]}, "),
            ("etcd", PINNED, "absent", r"^there is no `go` to build Kubernetes with: install Go \(1\.21 or newer"),
            ("etcd", PINNED, "old", r"go1\.11\.6 linux/amd64: install Go"),
        ],
    )
    def test_what_cannot_be_built_is_refused_with_what_can_or_what_to_install(
        self, environ: Environ, tmp_path: Path, name: str, kubernetes: str, compiler: str, reason: str
    ) -> None:
        version_script(tmp_path / "old" / "go", "go version go1.11.6 linux/amd64")
        with pytest.raises(BinaryError, match=reason):
            find(name, environ | {"PATH": str(tmp_path / compiler)}, kubernetes)
        assert not list(tmp_path.glob(f"cache/*/{name}"))

    def test_the_error_of_a_failed_build_shows_the_compilers_words(self, environ: Environ, tmp_path: Path) -> None:
        script(
            tmp_path / "compiler" / "go",
            """
            #!/bin/sh
            [ "$1" = version ] && echo go version go1.26.0 linux/amd64 && exit
            echo go: downloading example.org/a v1.0.0 >&2
            echo some/package >&2
            echo 'dial tcp: no route to the module proxy' >&2
            exit 1
            """,
        )
        with pytest.raises(BinaryError, match=r"`(.|\n)*no route to the module proxy") as failure:
            find("etcd", environ)
        assert "some/package" not in str(failure.value)
        assert not (tmp_path / "cache" / pinned_version("etcd") / "etcd").exists()

    def test_the_linker_writes_the_version_into_kubernetes_programs(self) -> None:
        flags = gobuild.linker_flags(CATALOGUE["kubelet"], "1.30.14")
        assert "-X k8s.io/component-base/version.gitVersion=v1.30.14" in flags
        assert "-X k8s.io/component-base/version.gitMinor=30" in flags
        assert gobuild.linker_flags(CATALOGUE["etcd"], "3.6.16") == "-s -w"
        flags = gobuild.linker_flags(CATALOGUE["helm"], "4.3.1")
        assert flags == "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1"

    @pytest.mark.parametrize("version", BUILDABLE)
    def test_each_version_that_can_be_built_replaces_every_staging_module(self, version: str) -> None:
        text = (module_of(CATALOGUE["kubelet"], version) / "go.mod").read_text()
        assert f"\nrequire k8s.io/kubernetes v{version}\n" in text
        replaced = re.findall(r"^(?:replace |\t)(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
        assert len(replaced) == text.count("=>") > 25
        assert all(row == (row[0], row[0], f"v0.{version.split('.', 1)[1]}") for row in replaced)


class TestDownload:
    @pytest.fixture(autouse=True)
    def site(self) -> Iterator[None]:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        with serving(self.answer) as self.url:
            yield

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        return (200, self.files[path]) if path in self.files else (404, b"")

    def fetch(self, folder: Path, member: str | None = None) -> bool:
        return fetch(Source(f"{self.url}/file", f"{self.url}/sums", member), "program", folder / "target")

    def test_a_program_with_the_right_checksum_is_downloaded_and_one_in_an_archive_extracted(
        self, tmp_path: Path
    ) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            entry = tarfile.TarInfo("etcd-v3/etcd")
            entry.size = len(b"program")
            archive.addfile(entry, io.BytesIO(b"program"))
        for content, sums, member in (
            (b"program", "{}", None),
            (packed.getvalue(), f"{'0' * 64}  other\n{{}}  file\n", "etcd-v3/etcd"),
        ):
            self.files = {"/file": content, "/sums": sums.format(sha256(content).hexdigest()).encode()}
            assert self.fetch(tmp_path, member)
            assert (tmp_path / "target").read_bytes() == b"program"
            (tmp_path / "target").unlink()

    def test_a_program_that_is_not_published_is_not_downloaded_and_a_wrong_checksum_is_an_error(
        self, tmp_path: Path
    ) -> None:
        assert not self.fetch(tmp_path)
        self.files = {"/file": b"tampered", "/sums": sha256(b"program").hexdigest().encode()}
        with pytest.raises(BinaryError, match="has the SHA-256 checksum"):
            self.fetch(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_host_that_cannot_be_reached_is_asked_once(self, tmp_path: Path) -> None:
        with socket.socket() as silent:
            # Bound and not listening: connections are refused.
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            assert not self.fetch(tmp_path)
        with serving(self.answer, port=port):
            assert not self.fetch(tmp_path)
        assert self.asked == []

    def test_every_project_that_publishes_checksums_has_a_source(self) -> None:
        found = {name: source(program, "1.2.3", "amd64") for name, program in CATALOGUE.items()}
        built_here = "kwok kueue jobset lws trainer volcano scheduler-plugins versitygw"
        assert [name for name, one in found.items() if one is None] == built_here.split()
        assert all("1.2.3" in one.url and one.sums.startswith("https://") for one in found.values() if one)

    def test_a_list_of_checksums_without_the_file_is_an_error(self) -> None:
        for text in ("", "abc  other\n", "one\ntwo\n"):
            with pytest.raises(BinaryError, match="none for file"):
                expected_sum(text, "file")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    @pytest.mark.parametrize(
        ("stream", "expected"),
        [
            (io.StringIO(), r" N s  build etcd \.\.\.\n✓ N s  build etcd\n"),
            (Terminal(), r"(\r\x1b\[K N s  build etcd){2,}\r\x1b\[K✓ N s  build etcd\n"),
        ],
        ids=["plain", "terminal"],
    )
    def test_a_long_task_is_a_few_plain_lines_or_one_that_is_rewritten_on_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, expected: str
    ) -> None:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
        with task("build etcd"):
            becomes(lambda: stream.getvalue().count("build etcd") > stream.isatty(), wanted=True)
        assert re.fullmatch(expected, re.sub(r" +[\d.]+ s", " N s", stream.getvalue()))

    def test_a_short_task_is_not_mentioned_but_its_failure_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
        with task("short"):
            pass
        assert not stream.getvalue()
        with pytest.raises(LookupError), task("broken"):
            raise LookupError
        assert re.fullmatch(r"✗ +\d+\.\d s  broken\n", stream.getvalue())
