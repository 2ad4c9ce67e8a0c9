"""The base image of the project's images: Docker's official Python, or a Debian root made on this machine.

Where no image registry answers, debootstrap makes a Debian root with Python 3.11 from a Debian mirror, trimmed to what
programs need at run time. It stands in for the official slim image: `python3`, `python` and `pip` are on PATH, apt and
dpkg are there, a compiler is not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster import archive
from localcluster.errors import SetupError
from localcluster.machine import UNSHARED
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFICIAL = "docker.io/library/python:3.11-slim-bookworm"
PYTHON = "3.11"
_REGISTRY = "https://registry-1.docker.io/v2/"
_PATIENCE_SECONDS = 4.0
_SUITE = "bookworm"

# Programs do not need these at run time. zoneinfo and locales are absent from the official slim image as well.
_TRIMMED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug",
    "usr/share/zoneinfo", "usr/share/bash-completion", "usr/share/doc-base", "usr/share/pixmaps", "usr/share/gdb",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv", "usr/lib/python3.11/test",
    "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/EXTERNALLY-MANAGED",
    "var/cache/apt", "var/cache/debconf", "var/lib/apt/lists", "var/log",
)  # fmt: skip
_KEPT_EMPTY = ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial", "var/log/apt")
_PIP_SCRIPT = "#!/usr/bin/python3\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"


@dataclass(frozen=True)
class Base:
    """A base image, the value of the build argument `BASE`.

    Attributes:
        reference: The image's name.
        archive: The file that it is imported from; None means that the builder pulls it from a registry.
    """

    reference: str
    archive: Path | None


def choose(cache: Path, progress: Progress, environ: Mapping[str, str] = os.environ) -> Base:
    """Return the base image for this machine, and make it if no registry answers: about a minute, once.

    Args:
        cache: The folder of image archives.
        progress: Shows how long the base image takes to make.
        environ: The environment; `BASE_IMAGE` names another base image, for example in a private registry.

    Raises:
        SetupError: No registry answers, and debootstrap fails or may not run; the text says why.
    """
    if wished := environ.get("BASE_IMAGE"):
        return Base(wished, None)
    if (local := _local(cache)).archive.is_file():
        # A machine that began without a registry keeps the local base: images do not change under a working setup.
        return local
    if registry_answers():
        return Base(OFFICIAL, None)
    with task(progress, "make a Debian base image (no image registry answers)"):
        _bootstrap(local)
    return local


def registry_answers(url: str = _REGISTRY, patience_seconds: float = _PATIENCE_SECONDS) -> bool:
    """Report whether an image registry answers in time, the resolution of its name included."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=patience_seconds):
                answers.append(True)
        except urllib.error.HTTPError as error:
            # 401: the registry answers and wants a token, which a pull fetches.
            answers.append(error.code == 401)
        except OSError:
            answers.append(False)

    # In a thread, because a dead name server blocks getaddrinfo for longer than any timeout given to urlopen.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience_seconds)
    return answers == [True]


@dataclass(frozen=True)
class _Local(Base):
    archive: Path


def _local(cache: Path) -> _Local:
    recipe = repr((_SUITE, _TRIMMED, _KEPT_EMPTY, _PIP_SCRIPT))
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    return _Local(f"localhost/frameworkcontroller/python:{PYTHON}-{digest}", cache / f"base-{digest}.tar")


def _bootstrap(base: _Local) -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "no image registry answers, and only root can make a base image with debootstrap:"
            " run as root, or set BASE_IMAGE to an image that can be pulled"
        )
    base.archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".base-", dir=base.archive.parent) as folder:
        root = Path(folder, "root")
        keyring = "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg"
        done = subprocess.run(
            [*UNSHARED, "debootstrap", "--variant=minbase", "--include=python3", keyring, _SUITE, root],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            end = "\n".join(done.stdout.splitlines()[-10:])
            raise SetupError(f"no image registry answers, and debootstrap failed:\n{end}")
        _trim(root)
        _add_pip(root)
        layer = Path(folder, "layer.tar")
        subprocess.run(
            ["tar", "--create", "--file", layer, "--numeric-owner", "--sort=name", "--directory", root, "."], check=True
        )
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        archive.write(
            base.archive,
            reference=base.reference,
            layer=layer,
            config={"Env": [f"PATH={path}", "LANG=C.UTF-8"], "Cmd": ["python3"]},
        )


def _trim(root: Path) -> None:
    for name in _TRIMMED:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in _KEPT_EMPTY:
        (root / name).mkdir(parents=True)
    (root / "usr/bin/python").symlink_to("python3")


def _add_pip(root: Path) -> None:
    """Copy the pip of the running interpreter, which is pure Python; Debian's package depends on a compiler."""
    found = importlib.util.find_spec("pip")
    if found is None or not found.submodule_search_locations:
        raise SetupError("this Python has no pip to copy into the base image: run `python -m ensurepip`")
    target = root / "usr/local/lib/python3.11/dist-packages/pip"
    shutil.copytree(found.submodule_search_locations[0], target, ignore=shutil.ignore_patterns("__pycache__"))
    script = root / "usr/local/bin/pip"
    script.write_text(_PIP_SCRIPT)
    script.chmod(0o755)
