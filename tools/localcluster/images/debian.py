"""A Debian root with Python, made by mmdebstrap from Debian's signed packages, and packed as a layer of an image.

The same packages give the same bytes: mmdebstrap removes what differs from run to run, and the layer has sorted names,
numeric owners and no time after a given one. Where mmdebstrap fails, or Debian's indexes lack the checksum of a
package, a function raises SetupError, with the end of the output or the names.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localcluster.errors import SetupError
from localcluster.images.buildah import UNSHARED

SUITE: Final = "bookworm"
# Programs do not need these at run time. zoneinfo and locales are absent from the official slim image as well.
TRIMMED: Final = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug",
    "usr/share/zoneinfo", "usr/share/bash-completion", "usr/share/doc-base", "usr/share/pixmaps", "usr/share/gdb",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv", "usr/lib/python3.11/test",
    "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/EXTERNALLY-MANAGED",
    "var/cache/apt", "var/cache/debconf", "var/lib/apt/lists", "var/log",
)  # fmt: skip
KEPT_EMPTY: Final = ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log/apt")
PIP_SCRIPT: Final = "#!/usr/bin/python3\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"

_MIRROR: Final = "http://deb.debian.org"
# Keeps every package of every day: `20261122T000000Z`.
_SNAPSHOTS: Final = "http://snapshot.debian.org/archive"
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_MERGED: Final = "/usr/share/mmdebstrap/hooks/merged-usr"
# With it, a file has the same mode on every machine.
_UMASK: Final = 0o022
# What Debian's scripts import would leave bytecode behind, or not, as this machine's environment says.
_SAME_BYTES: Final = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Package:
    """An installed package of Debian, with the checksum of its file from Debian's signed index."""

    name: str
    version: str
    sha256: str


def make_root(root: Path, pip: Path, *, epoch: int, snapshot: str | None = None) -> tuple[Package, ...]:
    """Make a Debian root with Python and pip, without what programs do not need at run time; return its packages.

    Args:
        root: The folder to make.
        pip: The wheel of pip; Debian's package of it depends on a compiler.
        epoch: The time of what the installation writes, in Unix seconds.
        snapshot: A time of snapshot.debian.org; None means the packages of today.
    """
    command = [
        *UNSHARED, "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
        # /bin is /usr/bin from the start; otherwise a package comes along that makes it so, with all of Perl.
        "--include=python3,usr-is-merged", f"--hook-dir={_MERGED}",
        # The indexes have the checksums of the packages; they are removed with the rest.
        f"--keyring={_KEYRING}", "--skip=cleanup/apt/lists", '--aptopt=Acquire::Languages "none"',
    ]  # fmt: skip
    if snapshot:
        command.append('--aptopt=Acquire::Check-Valid-Until "false"')
    done = subprocess.run(
        [*command, SUITE, str(root), *_sources(snapshot)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, umask=_UMASK,
        env={**os.environ, **_SAME_BYTES, "SOURCE_DATE_EPOCH": str(epoch)},
    )  # fmt: skip
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-10:])
        raise SetupError(f"mmdebstrap cannot make a Debian root:\n{end}")
    packages = packages_of(root)
    _forget_the_machine(root)
    _trim(root)
    _add_pip(root, pip)
    return packages


def packages_of(root: Path) -> tuple[Package, ...]:
    """Return the packages that are installed in a root that still has apt's indexes, by name."""
    sums = {
        (one["Package"], one["Version"], one["Architecture"]): one["SHA256"]
        for index in sorted((root / "var/lib/apt/lists").glob("*_Packages"))
        for one in paragraphs(index.read_text())
    }
    installed = [
        (one["Package"], one["Version"], one["Architecture"])
        for one in paragraphs((root / "var/lib/dpkg/status").read_text())
    ]
    if missing := [name for name, *rest in installed if (name, *rest) not in sums]:
        raise SetupError(f"Debian's indexes have no checksum for {', '.join(missing)}: try again")
    return tuple(Package(name, version, sums[name, version, kind]) for name, version, kind in sorted(installed))


def pack(root: Path, layer: Path, epoch: int) -> None:
    """Write a root as a layer, whose files have no time after `epoch`."""
    options = ("--format=gnu", "--numeric-owner", "--sort=name", f"--mtime=@{epoch}", "--clamp-mtime")
    subprocess.run(["tar", "--create", "--file", layer, *options, "--directory", root, "."], check=True)


def _sources(snapshot: str | None) -> Iterator[str]:
    archives = {"debian": (SUITE, f"{SUITE}-updates"), "debian-security": (f"{SUITE}-security",)}
    for archive, suites in archives.items():
        url = f"{_SNAPSHOTS}/{archive}/{snapshot}" if snapshot else f"{_MIRROR}/{archive}"
        for suite in suites:
            yield f"deb {url} {suite} main"


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of a control file, without continued lines."""
    for paragraph in text.split("\n\n"):
        lines = (line.partition(": ") for line in paragraph.splitlines() if line[:1].strip())
        if found := {key: value for key, _, value in lines}:
            yield found


def _forget_the_machine(root: Path) -> None:
    """Remove what mmdebstrap copies from this machine, and name Debian's mirror whatever the packages came from."""
    for name in ("etc/resolv.conf", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
    folder = root / "etc/apt"
    for file in (folder / "sources.list.d").glob("*"):
        file.unlink()
    (folder / "sources.list").write_text("".join(f"{line}\n" for line in _sources(None)))


def _trim(root: Path) -> None:
    for name in TRIMMED:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in KEPT_EMPTY:
        (root / name).mkdir(parents=True)
    python = root / "usr/bin/python"
    python.unlink(missing_ok=True)
    python.symlink_to("python3")


def _add_pip(root: Path, wheel: Path) -> None:
    target = root / "usr/local/lib/python3.11/dist-packages"
    command = [sys.executable, "-m", "zipfile", "--extract", str(wheel), str(target)]
    subprocess.run(command, check=True, umask=_UMASK)
    script = root / "usr/local/bin/pip"
    script.write_text(PIP_SCRIPT)
    script.chmod(0o755)
