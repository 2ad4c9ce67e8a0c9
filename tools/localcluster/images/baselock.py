"""The lock of a release's base image: the digest of its layer, and the packages of Debian that it was made of.

The digest decides. The packages say why a digest is another one, and what to list in a bill of materials.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from localcluster.errors import SetupError
from localcluster.images.debian import Package

_HEAD: Final = """\
# The base image of a release: what localcluster.images.debian makes of these packages. Written by `make lock-base`.
"""
_LAYER: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PACKAGE: Final = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+) (?P<version>[\w.+~:-]+) (?P<sha256>[0-9a-f]{64})")


@dataclass(frozen=True)
class Lock:
    """What a base image is: the digest of its layer, `sha256:...`, and its packages by name.

    `epoch` is the time of what its installation wrote, in Unix seconds; also that of Debian's packages.
    """

    epoch: int
    layer: str
    packages: tuple[Package, ...]


def read(file: Path) -> Lock:
    """Return a lock; SetupError if a line is not one of a lock."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    heads = dict(line.split(" ", 1) for line in lines[:2] if " " in line)
    epoch, layer = heads.get("epoch", ""), heads.get("layer", "")
    if not epoch.isdecimal() or not _LAYER.fullmatch(layer):
        raise SetupError(f"{file} must begin with `epoch SECONDS` and `layer sha256:DIGEST`: run `make lock-base`")
    packages = []
    for line in lines[2:]:
        found = _PACKAGE.fullmatch(line)
        if not found:
            raise SetupError(f"{file}: {line!r} must be a package, its version and its checksum: run `make lock-base`")
        packages.append(Package(found["name"], found["version"], found["sha256"]))
    return Lock(int(epoch), layer, tuple(packages))


def text(lock: Lock) -> str:
    """Return the text of a lock."""
    lines = [f"{one.name} {one.version} {one.sha256}" for one in lock.packages]
    return _HEAD + "\n".join([f"epoch {lock.epoch}", f"layer {lock.layer}", *lines]) + "\n"


def difference(file: Path, lock: Lock, made: Lock) -> str:
    """Return why a base image is not that of the lock, and what to do next."""
    old, new = ({one.name: one for one in each.packages} for each in (lock, made))
    changed = [
        f"{name} ({old[name].version if name in old else 'absent'} in the lock,"
        f" {new[name].version if name in new else 'absent'} now)"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if not changed:
        return (
            f"the base image has the packages of {file.name} but the digest {made.layer} instead of {lock.layer}: a"
            " program of this machine that makes it (mmdebstrap, tar) differs; compare its version with that in"
            " docs/operate/releases.md"
        )
    moment = datetime.fromtimestamp(lock.epoch, UTC).strftime("%Y%m%dT%H%M%SZ")
    return (
        f"Debian's packages are not those of {file.name}: {', '.join(changed)}. Run `make lock-base` to build on"
        f" those of today, or set DEBIAN_SNAPSHOT={moment} to build on those of the lock, from snapshot.debian.org"
    )
