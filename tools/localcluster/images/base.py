"""The base image of the project's images: Docker's official Python, or a Debian root made on this machine.

Where no image registry answers, a Debian root with Python 3.11 is made from a Debian mirror, trimmed to what programs
need at run time. It stands in for the official slim image: `python3`, `python` and `pip` are on PATH, apt and dpkg are
there, a compiler is not.

A release is always built on such a root, on the one that `images/base.lock` names: it is the same on every machine, and
it is the one that the tests run on. Where this machine may not or cannot make one, or Debian's packages are not those
of the lock, a function raises SetupError, which says why.
"""

import hashlib
import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.images import archive, baselock, debian, wheels
from localcluster.images.buildah import Base
from localcluster.packages import require
from localcluster.progress import task

OFFICIAL = "docker.io/library/python:3.11-slim-bookworm"
REPOSITORY = Path(__file__).parents[3]
LOCK = REPOSITORY / "images" / "base.lock"
_PIP = REPOSITORY / "requirements" / "base.txt"
_REGISTRY = "https://registry-1.docker.io/v2/"
_PATIENCE_SECONDS = 4.0
_DIGITS = 12
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def choose(cache: Path, environ: Mapping[str, str] = os.environ) -> Base:
    """Return the base image for this machine, and make it if no registry answers: about a minute, once.

    `BASE_IMAGE` of the environment names another one, for example in a private registry. `cache` has image archives.
    """
    if wished := environ.get("BASE_IMAGE"):
        return Base(wished, None)
    recipe = repr((debian.SUITE, debian.TRIMMED, debian.KEPT_EMPTY, debian.PIP_SCRIPT))
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    reference, file = _place(cache, digest)
    # A machine that began without a registry keeps the local base: images do not change under a working setup.
    if not file.is_file():
        if registry_answers():
            return Base(OFFICIAL, None)
        with task("make a Debian base image (no image registry answers)"):
            _make(cache, int(time.time()), digest=digest)
    return Base(reference, file)


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


def locked(cache: Path) -> Base:
    """Return the base image of a release, the one that the lock names; make it if it is not in the cache.

    `DEBIAN_SNAPSHOT` of the environment is a time of snapshot.debian.org (`20261122T000000Z`).
    """
    lock = baselock.read(LOCK)
    reference, file = _place(cache, lock.layer)
    if not file.is_file():
        with task("make the base image of a release"):
            made = _make(cache, lock.epoch, os.environ.get("DEBIAN_SNAPSHOT"))
        if made != lock:
            _place(cache, made.layer)[1].unlink()
            raise SetupError(baselock.difference(LOCK, lock, made))
    return Base(reference, file)


def relock(cache: Path) -> baselock.Lock:
    """Make the base image of Debian's packages of today, and write the lock that names it."""
    day = 24 * 60 * 60
    epoch = int(time.time()) // day * day
    with task("make a base image of Debian's packages of today"):
        lock = _make(cache, epoch)
    LOCK.write_text(baselock.text(lock))
    return lock


def _place(cache: Path, digest: str) -> tuple[str, Path]:
    """Return the name of a base image, and its archive."""
    short = digest.removeprefix("sha256:")[:_DIGITS]
    return f"localhost/frameworkcontroller/python:{wheels.PYTHON}-{short}", cache / f"base-{short}.tar"


def _make(cache: Path, epoch: int, snapshot: str | None = None, digest: str = "") -> baselock.Lock:
    """Write the archive of a base image, by default named by its layer, and return the lock of its contents."""
    if os.geteuid() != 0:
        raise SetupError(
            "no image registry answers, and only root can make a base image with mmdebstrap:"
            " run as root, or set BASE_IMAGE to an image that can be pulled"
        )
    require(("mmdebstrap", "debian-keyring"))
    cache.mkdir(parents=True, exist_ok=True)
    (pip,) = wheels.download([_PIP], cache.parent / "wheels").glob("pip-*.whl")
    with tempfile.TemporaryDirectory(prefix=".base-", dir=cache) as folder:
        root, layer = Path(folder, "root"), Path(folder, "layer.tar")
        packages = debian.make_root(root, pip, epoch=epoch, snapshot=snapshot)
        debian.pack(root, layer, epoch)
        lock = baselock.Lock(epoch, archive.digest(layer), packages)
        reference, file = _place(cache, digest or lock.layer)
        config = {"Env": [f"PATH={_PATH}", "LANG=C.UTF-8"], "Cmd": ["python3"]}
        archive.write(file, reference=reference, layer=layer, config=config)
    return lock
