"""Where programs come from: the order of the places, verified downloads, and builds that happen once."""

from __future__ import annotations

import hashlib
import io
import os
import re
import socket
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localcluster import binaries, gobuild, progress
from localcluster.binaries import kubernetes_version
from localcluster.downloads import Source, expected_sum, fetch, source
from localcluster.errors import BinaryError, SetupError
from localcluster.programs import BUILDABLE, CATALOGUE, minor_of, module_of, pinned_version, version_of
from localcluster.progress import task
from testkit.waiting import eventually
from tests.support.http import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

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
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty cache, an empty PATH but for a compiler, and no downloads."""
    script(tmp_path / "compiler" / "go", FAKE_GO)
    return {
        "FRAMEWORKCONTROLLER_CACHE": str(tmp_path / "cache"),
        "FRAMEWORKCONTROLLER_DOWNLOADS": "never",
        "PATH": f"{tmp_path / 'path'}:{tmp_path / 'compiler'}:/usr/bin:/bin",
        "CALLS": str(tmp_path / "calls"),
    }


def find(name: str, environ: dict[str, str], kubernetes: str = PINNED) -> Path:
    return binaries.find(name, kubernetes=kubernetes, environ=environ)


def output(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


class TestOrder:
    def test_the_folder_of_envtest_comes_before_path_and_path_before_the_cache(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        folders = [tmp_path / "assets", tmp_path / "path", tmp_path / "cache" / PINNED]
        first, second, third = [version_script(folder / "kubelet", f"Kubernetes v{PINNED}") for folder in folders]
        assert find("kubelet", environ | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}) == first
        assert find("kubelet", environ) == second
        second.unlink()
        assert find("kubelet", environ) == third

    @pytest.mark.parametrize(
        "words", ["Kubernetes v1.2.3", f"Kubernetes v{PINNED}-beta.1", f"Kubernetes v{PINNED}1", ""]
    )
    def test_a_program_of_another_version_is_ignored(self, environ: dict[str, str], tmp_path: Path, words: str) -> None:
        for folder in ("assets", "path"):
            version_script(tmp_path / folder / "kubelet", words)
        cached = version_script(tmp_path / "cache" / PINNED / "kubelet", "cached")
        assert find("kubelet", environ | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}) == cached

    def test_a_program_that_no_place_has_is_built_into_the_cache_once(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        folder = tmp_path / "cache" / pinned_version("etcd")
        folder.mkdir(parents=True)
        # What a killed build leaves.
        (folder / ".etcd.new").write_text("half a program")
        for _ in range(2):
            assert find("etcd", environ) == folder / "etcd"
        assert output(folder / "etcd") == "built\n"
        assert Path(environ["CALLS"]).read_text() == "build\n"
        assert {file.name for file in folder.iterdir()} == {".etcd.lock", "etcd"}

    def test_processes_that_need_the_same_program_build_it_once(self, environ: dict[str, str]) -> None:
        code = f"""
            import os
            from localcluster.binaries import find
            print(find("etcd", kubernetes={PINNED!r}))
        """
        command = [sys.executable, "-c", textwrap.dedent(code)]
        started = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        answers = {process.communicate()[0] for process in started}
        assert len(answers) == 1
        assert Path(environ["CALLS"]).read_text() == "build\n"

    def test_the_error_for_an_unknown_program_lists_the_known_ones(self, environ: dict[str, str]) -> None:
        with pytest.raises(
            BinaryError, match="'kubeadm' is not a program of a cluster; choose one of: kube-apiserver,"
        ):
            find("kubeadm", environ)


class TestVersion:
    @pytest.mark.parametrize(
        ("asked", "environ", "expected"),
        [
            (None, {}, PINNED),
            (None, {"KUBERNETES": "1.34.4"}, "1.34.4"),
            ("v1.30.14", {"KUBERNETES": "1.34.4"}, "1.30.14"),
            ("1.30", {}, "1.30.14"),
        ],
        ids=["pinned", "environment", "asked for", "minor"],
    )
    def test_the_version_is_one_setting(self, asked: str | None, environ: dict[str, str], expected: str) -> None:
        assert kubernetes_version(asked, environ) == expected

    def test_the_api_server_of_envtest_decides_the_version(self, tmp_path: Path) -> None:
        version_script(tmp_path / "kube-apiserver", "Kubernetes v1.33.5")
        assert kubernetes_version(None, {"KUBEBUILDER_ASSETS": str(tmp_path)}) == "1.33.5"

    @pytest.mark.parametrize("wish", ["latest", "1", "1.36.3.4", "1.99"])
    def test_an_invalid_version_is_refused(self, wish: str) -> None:
        with pytest.raises(SetupError, match=f"KUBERNETES='{wish}'"):
            kubernetes_version(wish, {})

    def test_one_version_of_each_minor_version_can_be_built_and_the_default_is_one(self) -> None:
        minors = [minor_of(version) for version in BUILDABLE]
        assert minors == list(range(minors[0], minors[-1] + 1))
        assert PINNED in BUILDABLE

    def test_every_program_has_a_pinned_version(self) -> None:
        assert all(version_of(program, PINNED) for program in CATALOGUE.values())

    @pytest.mark.apiserver
    @pytest.mark.parametrize("name", ["kube-apiserver", "etcd", "kube-controller-manager", "kubectl", "helm"])
    def test_the_real_programs_report_their_versions(self, name: str) -> None:
        version = kubernetes_version(None)
        found = binaries.find(name, kubernetes=version)
        if name != "etcd" or "KUBEBUILDER_ASSETS" not in os.environ:
            assert binaries.reported_version(found, CATALOGUE[name]) == version_of(CATALOGUE[name], version)


class TestBuild:
    def test_the_error_for_a_missing_compiler_says_what_to_install(
        self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gobuild, "OFFICIAL_GO", Path("/nonexistent/go"))
        with pytest.raises(
            BinaryError, match=r"^there is no `go` to build Kubernetes with: install Go \(1\.21 or newer"
        ):
            find("etcd", environ | {"PATH": "/nonexistent"})

    def test_a_compiler_from_before_modules_is_refused(self, environ: dict[str, str], tmp_path: Path) -> None:
        version_script(tmp_path / "compiler" / "go", "go version go1.11.6 linux/amd64")
        with pytest.raises(BinaryError, match=r"go1\.11\.6 linux/amd64: install Go"):
            find("etcd", environ)

    def test_the_error_of_a_failed_build_shows_the_compilers_messages(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
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
        with pytest.raises(BinaryError) as failure:
            find("etcd", environ)
        assert "`" in str(failure.value)
        assert "no route to the module proxy" in str(failure.value)
        assert "some/package" not in str(failure.value)
        assert not (tmp_path / "cache" / pinned_version("etcd") / "etcd").exists()

    def test_the_linker_writes_the_version_into_kubernetes_programs(self) -> None:
        flags = gobuild.linker_flags(CATALOGUE["kubelet"], "1.30.14")
        assert "-X k8s.io/component-base/version.gitVersion=v1.30.14" in flags
        assert "-X k8s.io/component-base/version.gitMinor=30" in flags
        assert gobuild.linker_flags(CATALOGUE["etcd"], "3.6.16") == "-s -w"
        assert (
            gobuild.linker_flags(CATALOGUE["helm"], "4.3.1")
            == "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1"
        )

    @pytest.mark.parametrize("version", BUILDABLE)
    def test_each_version_that_can_be_built_replaces_every_staging_module(self, version: str) -> None:
        text = (module_of(CATALOGUE["kubelet"], version) / "go.mod").read_text()
        assert f"\nrequire k8s.io/kubernetes v{version}\n" in text
        replaced = re.findall(r"^(?:replace |\t)(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
        assert len(replaced) == text.count("=>") > 25
        assert all(row == (row[0], row[0], f"v0.{version.split('.', 1)[1]}") for row in replaced)

    def test_a_version_without_a_module_is_an_error_that_names_those_with_one(
        self, environ: dict[str, str], tmp_path: Path
    ) -> None:
        with pytest.raises(
            BinaryError, match=rf"Kubernetes 1\.33\.5 has no go\.mod in .*build one of {BUILDABLE[0]}, "
        ):
            find("kubelet", environ, "1.33.5")
        assert not (tmp_path / "cache" / "1.33.5" / "kubelet").exists()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class TestDownload:
    @pytest.fixture(autouse=True)
    def site(self) -> Iterator[None]:
        self.files: dict[str, bytes] = {}
        with serving(lambda path: (200, self.files[path]) if path in self.files else (404, b"")) as self.url:
            yield

    def fetch(self, target: Path, file: str, sums: str, member: str | None = None) -> bool:
        return fetch(Source(f"{self.url}/{file}", f"{self.url}/{sums}", member), "program", target)

    def test_a_program_with_the_right_checksum_is_downloaded(self, tmp_path: Path) -> None:
        self.files = {"/kubelet": b"program", "/kubelet.sha256": sha256(b"program").encode()}
        assert self.fetch(tmp_path / "target", "kubelet", "kubelet.sha256")
        assert (tmp_path / "target").read_bytes() == b"program"

    def test_a_program_in_an_archive_is_extracted(self, tmp_path: Path) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            entry = tarfile.TarInfo("etcd-v3/etcd")
            entry.size = 7
            archive.addfile(entry, io.BytesIO(b"program"))
        content = packed.getvalue()
        sums = f"{'0' * 64}  other.tar.gz\n{sha256(content)}  etcd.tar.gz\n"
        self.files = {"/etcd.tar.gz": content, "/SHA256SUMS": sums.encode()}
        assert self.fetch(tmp_path / "target", "etcd.tar.gz", "SHA256SUMS", "etcd-v3/etcd")
        assert (tmp_path / "target").read_bytes() == b"program"

    def test_a_wrong_checksum_is_an_error_and_no_file_is_left(self, tmp_path: Path) -> None:
        self.files = {"/kubelet": b"tampered", "/kubelet.sha256": sha256(b"program").encode()}
        with pytest.raises(BinaryError, match="has the SHA-256 checksum"):
            self.fetch(tmp_path / "target", "kubelet", "kubelet.sha256")
        assert list(tmp_path.iterdir()) == []

    def test_a_program_that_is_not_published_is_not_downloaded(self, tmp_path: Path) -> None:
        assert not self.fetch(tmp_path / "target", "a", "a.sha256")

    def test_a_host_that_cannot_be_reached_is_asked_once(self, tmp_path: Path) -> None:
        asked: list[str] = []

        def record(path: str) -> tuple[int, bytes]:
            asked.append(path)
            return 404, b""

        with socket.socket() as silent:
            # Bound and not listening: connections are refused.
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            assert not self.fetch(tmp_path / "target", "a", "a.sha256")
        with serving(record, port=port):
            assert not self.fetch(tmp_path / "target", "a", "a.sha256")
        assert asked == []

    @pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in {"kwok", "kueue", "jobset", "lws"}])
    def test_every_project_that_publishes_checksums_has_a_source(self, name: str) -> None:
        found = source(CATALOGUE[name], "1.2.3", "amd64")
        assert found is not None
        assert "1.2.3" in found.url
        assert found.sums.startswith("https://")

    @pytest.mark.parametrize("text", ["", "abc  other\n", "one\ntwo\n"])
    def test_a_list_of_checksums_without_the_file_is_an_error(self, text: str) -> None:
        with pytest.raises(BinaryError, match="none for file"):
            expected_sum(text, "file")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def told(self, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, lines: int) -> str:
        """Run a task until so many lines are written of it, and return them with `N` for each number of seconds."""
        monkeypatch.setattr(sys, "stderr", stream)
        with task("build etcd"):
            eventually(lambda: _expect(stream.getvalue().count("build etcd") >= lines))
        return re.sub(r" +[\d.]+ s", " N s", stream.getvalue())

    def test_without_a_terminal_a_long_task_is_a_few_plain_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
        told = self.told(monkeypatch, io.StringIO(), 1)
        assert told == " N s  build etcd ...\n✓ N s  build etcd\n"

    def test_on_a_terminal_one_line_is_rewritten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = self.told(monkeypatch, Terminal(), 2)
        assert told.startswith("\r\x1b[K N s  build etcd\r\x1b[K N s  build etcd")
        assert told.endswith("\r\x1b[K✓ N s  build etcd\n")

    def test_a_short_task_is_not_mentioned_but_its_failure_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
        with task("short"):
            pass
        assert not stream.getvalue()
        with pytest.raises(LookupError), task("broken"):
            raise LookupError
        assert re.fullmatch(r"✗ +\d+\.\d s  broken\n", stream.getvalue())


def _expect(truth: bool) -> None:
    assert truth
