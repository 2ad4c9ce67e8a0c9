"""Programs built from pinned Go modules; all that it needs is Go and a Go module proxy.

Without a Go that can do it, without an answer of the proxy, or where nothing pins the modules, and where Go fails, a
function raises BinaryError, whose text says what to install, or has Go's last lines.

`k8s.io/kubernetes` builds like any other module once its staging modules are replaced by their published versions:
`k8s.io/api v0.0.0` of its go.mod becomes `k8s.io/api v0.36.3`.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from localcluster.errors import BinaryError
from localcluster.programs.catalogue import Program, architecture, module_of
from localcluster.progress import task

# The first release that fetches the toolchain that a go.mod requires, and the first that can download one as a module.
_OLDEST_WITH_TOOLCHAINS = (1, 21)
_OLDEST_WITH_MODULES = (1, 17)
# At least the newest `go` line of go/*/go.mod.
_TOOLCHAIN = "1.26.0"
OFFICIAL_GO = Path("/usr/local/go/bin/go")
# What would build for another machine, or in another way.
_FOREIGN = ("GOOS", "GOARCH", "GOFLAGS", "GOROOT")
_LAST_LINES = 25
# An empty line, a package that is compiled, a module that is downloaded.
_NO_ERROR = re.compile(r"[\w./~-]*|go: downloading .*")


def go_command(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of `go`: that of PATH or of Go's official folder, or a newer one that an old one downloads."""
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
    with task(f"fetch Go {_TOOLCHAIN}"):
        toolchain = f"golang.org/toolchain@v0.0.1-go{_TOOLCHAIN}.linux-{architecture()}"
        root = Path(download(found, toolchain, environ)["Dir"])
        # Modules carry no file modes; Go sets these itself from 1.21 on.
        for program in [*root.glob("bin/*"), *root.glob("pkg/tool/*/*")]:
            program.chmod(0o555)
        return str(root / "bin" / "go")


def download(go: str, module: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Download a module, `PATH@VERSION`, into Go's cache; return what Go says: its folder `Dir`, its checksum `Sum`."""
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [go, "mod", "download", "-json", module],
            cwd=empty, env={**environ}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise BinaryError(f"{go} could not fetch {module}: {(done.stderr or done.stdout).strip()}")
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def build(program: Program, version: str, target: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Compile one program into a file; the linker writes its version into it, else it reports v0.0.0 to its clients."""
    module = module_of(program, version)
    command = [
        go_command(environ), "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false",
        # What describes the code to a debugger takes an eighth of the time, and the linker leaves it out (`-w`).
        "-gcflags=all=-dwarf=false",
        "-ldflags", linker_flags(program, version), "-o", str(target), program.package,
    ]  # fmt: skip
    own = {name: value for name, value in environ.items() if name not in _FOREIGN}
    with task(f"build {program.name} {version}"):
        done = subprocess.run(
            command,
            # A compiler that collects less garbage takes a seventh less time.
            cwd=module, env={"GOGC": "400", **own, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            errors = [line.strip() for line in done.stderr.splitlines() if not _NO_ERROR.fullmatch(line.strip())]
            shown = "\n".join(f"  {line}" for line in errors[-_LAST_LINES:])
            raise BinaryError(f"`go build ... {program.package}` failed:\n{shown}")


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
