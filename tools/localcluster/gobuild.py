"""Programs built from pinned Go modules; all that it needs is Go and a Go module proxy.

`k8s.io/kubernetes` builds like any other module once its staging modules are replaced by their published versions:
`k8s.io/api v0.0.0` of its go.mod becomes `k8s.io/api v0.36.3`. The modules of the default version and of the oldest
supported one are committed, in `go/kubernetes*/`; those of other versions are made once, in the cache.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from localcluster import machine
from localcluster.errors import BinaryError
from localcluster.programs import BUILDABLE, CATALOGUE, GO_MODULES, pinned_version
from localcluster.progress import task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localcluster.programs import Program
    from localcluster.progress import Progress

# The first release that fetches the toolchain that a go.mod requires, and the first that can download one as a module.
_OLDEST_WITH_TOOLCHAINS = (1, 21)
_OLDEST_WITH_MODULES = (1, 17)
# At least the newest `go` line of go/*/go.mod.
_TOOLCHAIN = "1.26.0"
OFFICIAL_GO = Path("/usr/local/go/bin/go")
_LAST_LINES = 25


def go_command(progress: Progress, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of `go`: that of PATH or of Go's official folder, or a newer one that an old one downloads.

    Raises:
        BinaryError: There is no `go`, or it cannot download a newer one; the text says what to install.
    """
    found = shutil.which("go", path=environ.get("PATH", "")) or shutil.which(OFFICIAL_GO)
    wanted = "install Go (1.21 or newer; any from 1.17 on, such as Debian's golang-go, fetches a newer one by itself)"
    if found is None:
        raise BinaryError(f"there is no `go` to build Kubernetes with: {wanted}, or set KUBEBUILDER_ASSETS")
    output = subprocess.run([found, "version"], capture_output=True, text=True, timeout=60, check=False).stdout
    number = re.search(r"go(\d+)\.(\d+)", output)
    version = (int(number[1]), int(number[2])) if number else (0, 0)
    if version >= _OLDEST_WITH_TOOLCHAINS:
        return found
    if version < _OLDEST_WITH_MODULES:
        raise BinaryError(f"{found} is {output.strip() or 'of no known version'}: {wanted}")
    with task(progress, f"fetch Go {_TOOLCHAIN}"):
        return _toolchain(found, environ)


def tools_module(
    program: Program, version: str, cache: Path, progress: Progress, environ: Mapping[str, str] = os.environ
) -> Path:
    """Return the folder of the module that a program is built in: a committed one, or one made for this version.

    Args:
        program: The program to build.
        version: Its version, without `v`.
        cache: The cache folder of that version.
        progress: Shows that a module is made.
        environ: The environment, for Go.

    Raises:
        BinaryError: The module proxy does not know the version, or lacks some of its modules.
    """
    if version == pinned_version(program.project):
        return GO_MODULES / program.project
    committed = GO_MODULES / f"{program.project}-{version}"
    if committed.is_dir():
        return committed
    folder = cache / "tools"
    with FileLock(folder / ".lock"):
        if not (folder / "complete").exists():
            with task(progress, f"resolve the modules of Kubernetes {version}"):
                _make_module(version, folder, progress, environ)
            (folder / "complete").touch()
    return folder


def build(
    program: Program,
    version: str,
    module: Path,
    target: Path,
    *,
    progress: Progress,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Compile one program.

    Args:
        program: The program.
        version: Its version, which the linker writes into it; a server without it reports v0.0.0 to its clients.
        module: The folder of a go.mod that requires it.
        target: The file to write.
        progress: Shows the number of compiled packages.
        environ: The environment, for Go.

    Raises:
        BinaryError: Go failed; the text has its last lines.
    """
    detail: list[str] = []
    command = [
        go_command(progress, environ), "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false",
        "-ldflags", linker_flags(program, version), "-o", str(target), program.package,
    ]  # fmt: skip
    with task(progress, f"build {program.name} {version}", detail):
        _run(command, module, environ, detail)


def linker_flags(program: Program, version: str) -> str:
    """Return the linker's flags: no symbol tables, and the version where the project's own build scripts set it."""
    flags = ["-s", "-w"]
    if program.project == "kubernetes":
        major, minor, _ = version.split(".", 2)
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        flags += [f"-X {package}.{key}={value}" for package in packages for key, value in values.items()]
    elif program.version_variable:
        flags.append(f"-X {program.version_variable}=v{version}")
    return " ".join(flags)


def kubernetes_module(upstream: str, version: str) -> str:
    """Return the go.mod of a tools module for a version of Kubernetes.

    Args:
        upstream: The text of Kubernetes' own go.mod, whose staging modules have the version v0.0.0.
        version: The version, without `v`.
    """
    staging = sorted(set(re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0$", upstream, re.MULTILINE)))
    published = "v0." + version.split(".", 1)[1]
    language = re.findall(r"^(?:go|godebug) .*$", upstream, re.MULTILINE)
    replaced = "\n".join(f"\t{module} => {module} {published}" for module in staging)
    return "\n\n".join(
        [
            "module localcluster/tools/kubernetes",
            *language,
            f"replace (\n{replaced}\n)",
            f"require k8s.io/kubernetes v{version}\n",
        ]
    )


def _toolchain(old_go: str, environ: Mapping[str, str]) -> str:
    """Return the `go` of a toolchain module, which an old Go downloads and verifies like any other module."""
    module = f"golang.org/toolchain@v0.0.1-go{_TOOLCHAIN}.linux-{machine.architecture()}"
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [old_go, "mod", "download", "-json", module],
            cwd=empty, env={**environ}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise BinaryError(f"{old_go} could not fetch Go {_TOOLCHAIN}: {(done.stderr or done.stdout).strip()}")
    root = Path(json.loads(done.stdout)["Dir"])
    # Modules carry no file modes; Go sets these itself from 1.21 on.
    for program in [*root.glob("bin/*"), *root.glob("pkg/tool/*/*")]:
        program.chmod(0o555)
    return str(root / "bin" / "go")


def _make_module(version: str, folder: Path, progress: Progress, environ: Mapping[str, str]) -> None:
    go = go_command(progress, environ)
    for name in ("go.mod", "go.sum"):
        (folder / name).unlink(missing_ok=True)
    output = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], folder, environ, [])
    answer = json.loads(output)
    (folder / "go.mod").write_text(kubernetes_module(Path(answer["GoMod"]).read_text(), version))
    # Without a version `go get` would upgrade the module to the newest.
    packages = [f"{program.package}@v{version}" for program in CATALOGUE.values() if program.project == "kubernetes"]
    try:
        _run([go, "get", *packages], folder, environ, [])
    except BinaryError as error:
        known = f"versions that can be: {', '.join(BUILDABLE)}"
        raise BinaryError(f"Kubernetes {version} cannot be built from Go modules ({known}): {error}") from None


def _run(command: Sequence[str], folder: Path, environ: Mapping[str, str], detail: list[str]) -> str:
    """Run Go and return its standard output; `detail` gets what it is doing."""
    environment = {**environ, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
    for foreign in ("GOOS", "GOARCH", "GOFLAGS", "GOROOT"):
        environment.pop(foreign, None)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    packages = 0
    errors: list[str] = []
    with process:
        assert process.stderr
        assert process.stdout
        for line in process.stderr:
            text = line.strip()
            if text.startswith("go: downloading"):
                detail.append(text.removeprefix("go: "))
            elif re.fullmatch(r"[\w./~-]+", text):
                packages += 1
                detail.append(f"{packages} packages compiled")
            elif text:
                errors.append(text)
        output = process.stdout.read()
    if process.returncode:
        shown = "\n".join(f"  {line}" for line in errors[-_LAST_LINES:])
        raise BinaryError(f"`{' '.join(command[:2])} ... {command[-1]}` failed:\n{shown}")
    return output
