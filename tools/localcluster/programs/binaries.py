"""Where the programs of a cluster come from: the first of five places that has the program.

1. `KUBEBUILDER_ASSETS`, the folder of envtest. Its kube-apiserver decides the version unless one is requested; its
   etcd is used whatever its version.
2. `PATH`, if the version is the right one.
3. The cache, `~/.cache/frameworkcontroller/<version>/` (`FRAMEWORKCONTROLLER_CACHE` is another root).
4. The project's official download, where the network allows it and `FRAMEWORKCONTROLLER_DOWNLOADS` is not `never`.
5. `go build` of the pinned modules, which needs Go and a Go module proxy: minutes, once.

Programs from 4 and 5 go into the cache, complete or not at all, by one process at a time.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from localcluster.errors import BinaryError
from localcluster.programs import downloads, gobuild
from localcluster.programs.catalogue import CATALOGUE, Program, parse_version, pinned_version, version_of


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of everything that is kept between runs: programs by version, clusters by name."""
    chosen = environ.get("FRAMEWORKCONTROLLER_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "frameworkcontroller"


def find(name: str, *, kubernetes: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a program of `CATALOGUE`; download or build it if this machine does not have it.

    The version of Kubernetes is that of the cluster, without `v`.

    Raises:
        BinaryError: No place has the program; the text says what to install or which build failed.
    """
    if name not in CATALOGUE:
        raise BinaryError(f"{name!r} is not a program of a cluster; choose one of: {', '.join(CATALOGUE)}")
    program = CATALOGUE[name]
    version = version_of(program, kubernetes)
    asset = _executable(name, environ.get("KUBEBUILDER_ASSETS"))
    if asset and (program.project != "kubernetes" or reported_version(asset, program) == version):
        return asset
    installed = _executable(name, environ.get("PATH"))
    if installed and reported_version(installed, program) == version:
        return installed
    target = cache_root(environ) / version / name
    if not os.access(target, os.X_OK):
        with FileLock(target.with_name(f".{name}.lock")):
            # The process that held the lock before may have made the same program.
            if not os.access(target, os.X_OK):
                _obtain(program, version, target, environ)
    return target


def reported_version(file: Path, program: Program) -> str | None:
    """Return the version that an executable reports, without `v`; None if it does not run or reports none."""
    try:
        answer = subprocess.run(
            [file, *program.version_command], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(?<![\d.])\d+\.\d+\.\d+(?:-[\w.]+)?(?![\w.])", answer.stdout + answer.stderr)
    return found[0] if found else None


def kubernetes_version(requested: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the version of Kubernetes to use, without `v`; see `parse_version` for a requested one.

    It is the requested one, else `KUBERNETES` of the environment, else that of kube-apiserver in `KUBEBUILDER_ASSETS`,
    else the pinned one.

    Raises:
        SetupError: The request is not a version.
    """
    wanted = requested or environ.get("KUBERNETES")
    if wanted:
        return parse_version(wanted)
    server = _executable("kube-apiserver", environ.get("KUBEBUILDER_ASSETS"))
    found = reported_version(server, CATALOGUE["kube-apiserver"]) if server else None
    return found or pinned_version("kubernetes")


def _executable(name: str, folders: str | None) -> Path | None:
    """Return the first program of that name in folders, separated as in PATH, that this user may execute."""
    found = shutil.which(name, path=folders or "")
    return Path(found) if found else None


def _obtain(program: Program, version: str, target: Path, environ: Mapping[str, str]) -> None:
    temporary = target.with_name(f".{program.name}.new")
    # Of a killed run; `go build` does not overwrite what is no program.
    temporary.unlink(missing_ok=True)
    try:
        if not downloads.download(program, version, temporary, environ):
            gobuild.build(program, version, temporary, environ)
        temporary.chmod(0o755)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
