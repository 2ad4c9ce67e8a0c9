"""What is kept about a cluster between runs: its settings, its folder, and the lock that serializes its changes."""

import contextlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec
from filelock import FileLock

from localcluster.context import Depth, Settings
from localcluster.errors import SetupError
from localcluster.processes import ports
from localcluster.processes.process import boot_id
from localcluster.programs import binaries

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?")
_ROUTES = Path("/proc/net/route")


def clusters_folder() -> Path:
    """Return the folder of all clusters of this cache."""
    return binaries.cache_root() / "clusters"


def state_folder(name: str) -> Path:
    """Return the folder of a cluster; SetupError if the name is invalid."""
    if not _NAME.fullmatch(name):
        raise SetupError(
            f"name {name!r} is invalid: a cluster's name has 1 to 30 lower-case letters, digits and inner hyphens"
        )
    return clusters_folder() / name


def names() -> list[str]:
    """Return the names of all clusters that have a folder, running or not."""
    return sorted(entry.name for entry in clusters_folder().glob("*") if entry.is_dir() and _NAME.fullmatch(entry.name))


def read(name: str) -> Settings | None:
    """Return the settings of a cluster; None if there are none that can be read."""
    try:
        # A cluster that runs since an older version of this package may have more, which are left out.
        return msgspec.json.decode((state_folder(name) / "cluster.json").read_bytes(), type=Settings)
    except (OSError, ValueError):  # the errors of msgspec are such, too
        return None


def create(name: str, depth: Depth, version: str, *, nodes: int) -> Settings:
    """Choose a network and a token for a new cluster, write its settings, and return them."""
    state = state_folder(name)
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)
    # Under a lock, so that two clusters do not choose the same network.
    with locked("networks"):
        others = {other.octet for known in names() if (other := read(known)) is not None}
        routes = _ROUTES.read_text() if _ROUTES.exists() else ""
        octet = ports.choose_octet(sum(name.encode()), others | ports.taken_octets(routes))
        settings = Settings(name, depth, version, nodes, octet, secrets.token_urlsafe(24), boot_id())
        file = state / "cluster.json"
        file.touch(0o600)
        file.write_bytes(msgspec.json.encode(settings))
    return settings


@contextlib.contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold the lock of that name while the block runs. The value is its file, which the block may remove at its end."""
    file = binaries.cache_root() / "locks" / name
    with FileLock(file):
        yield file
