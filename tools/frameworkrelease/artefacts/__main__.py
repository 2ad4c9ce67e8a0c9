"""`python -m frameworkrelease.artefacts`: the command line."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkrelease.artefacts import build, check, publish, signing, sources
from frameworkrelease.artefacts.release import PREFIX, Release
from frameworkrelease.artefacts.run import ReleaseError
from frameworkrelease.chart import REPOSITORY, ChartError
from frameworkrelease.cut import VersionError
from localcluster import base
from localcluster.binaries import cache_root
from localcluster.errors import LocalClusterError
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RELEASES = REPOSITORY / "build" / "release"
_HELP = {
    "build": "build and sign all artefacts of a version from the last commit",
    "check": "verify a release, and install it from a local registry",
    "publish": "push images and chart of a release to a registry, and sign them",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 after an error, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="frameworkrelease.artefacts", description="The artefacts of a release.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, text in _HELP.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("version", type=_given("VERSION=1.2.3"))
        key = _given("KEY=cosign.key; `make release-key` makes one")
        command.add_argument("--key", type=key, required=True, help="cosign's private key")
        if name != "check":
            command.add_argument(
                "--registry", default=PREFIX, help="registry and path of the images; default: %(default)s"
            )
    keys = commands.add_parser("key", help="make a pair of keys")
    keys.add_argument("prefix", type=Path, help="their names without .key and .pub")
    commands.add_parser("lock-base", help="lock the base image of releases to Debian's packages of today")
    options = parser.parse_args(argv)
    try:
        sys.stdout.write(f"{_run(options)}\n")
    except (ReleaseError, VersionError, ChartError, LocalClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _given(example: str) -> Callable[[str], str]:
    """Refuse the empty text that make passes for a variable that is not set."""

    def read(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"it is missing: add {example}")
        return text

    return read


def _run(options: argparse.Namespace) -> str:
    """Run a command and return what it prints."""
    match options.command:
        case "build":
            return str(_build(options.version, options.registry.rstrip("/"), options.key))
        case "check":
            check.check(_built(options), options.key, Lines())
            return f"release {options.version} is verified, and installs"
        case "publish":
            published = publish.publish(_built(options), options.registry.rstrip("/"), options.key, Lines())
            return "\n".join(published.values())
        case "key":
            return "\n".join(map(str, signing.make_key(options.prefix)))
        case _:
            lock = base.relock(cache_root() / "images", Lines())
            return f"{base.LOCK}: {len(lock.packages)} packages, {lock.layer}"


def _build(version: str, prefix: str, private: str) -> Path:
    sources.require_clean()
    target = _RELEASES / version
    with tempfile.TemporaryDirectory() as folder:
        build.build(sources.export(version, Path(folder)), target, prefix=prefix, progress=Lines())
    signing.sign(target, private)
    return target


def _built(options: argparse.Namespace) -> Release:
    folder = _RELEASES / options.version
    if not folder.is_dir():
        raise ReleaseError(f"there is no {folder}: run `make release VERSION={options.version} KEY={options.key}`")
    return Release(folder, options.version)


if __name__ == "__main__":
    sys.exit(main())
