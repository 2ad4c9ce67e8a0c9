"""`python -m frameworkrelease.artefacts`: the command line."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkrelease.artefacts.errors import ReleaseError
from frameworkrelease.artefacts.names import PREFIX
from frameworkrelease.chart import REPOSITORY, ChartError
from frameworkrelease.cut import VersionError
from localcluster.errors import LocalClusterError
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RELEASES = REPOSITORY / "build" / "release"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 after an error, 2 for wrong usage."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except (ReleaseError, VersionError, ChartError, LocalClusterError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="frameworkrelease.artefacts", description="The artefacts of a release.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="build and sign all artefacts of a version from the last commit")
    build.set_defaults(run=_build)
    check = commands.add_parser("check", help="verify a release, and install it from a local registry")
    check.set_defaults(run=_check)
    publish = commands.add_parser("publish", help="push images and chart of a release to a registry, and sign them")
    publish.set_defaults(run=_publish)
    for command in (build, check, publish):
        command.add_argument("version", type=_given("VERSION=1.2.3"))
        command.add_argument(
            "--key",
            type=_given("KEY=cosign.key; `make release-key` makes one"),
            required=True,
            help="cosign's private key",
        )
    for command in (build, publish):
        command.add_argument("--registry", default=PREFIX, help="registry and path of the images; default: %(default)s")

    key = commands.add_parser("key", help="make a pair of keys")
    key.add_argument("prefix", type=Path, help="their names without .key and .pub")
    key.set_defaults(run=_key)
    lock = commands.add_parser("lock-base", help="lock the base image of releases to Debian's packages of today")
    lock.set_defaults(run=_lock_base)
    return parser


def _given(example: str) -> Callable[[str], str]:
    """Refuse the empty text that make passes for a variable that is not set."""

    def read(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"it is missing: add {example}")
        return text

    return read


def _build(options: argparse.Namespace) -> int:
    from frameworkrelease.artefacts import build, sources

    sources.require_clean()
    target = _RELEASES / options.version
    with tempfile.TemporaryDirectory() as folder:
        commit = sources.export(options.version, Path(folder))
        build.build(commit, target, prefix=options.registry.rstrip("/"), progress=Lines())
    build.sign(target, options.key)
    sys.stdout.write(f"{target}\n")
    return 0


def _check(options: argparse.Namespace) -> int:
    from frameworkrelease.artefacts import check

    check.check(_folder(options), options.version, options.key, Lines())
    sys.stdout.write(f"release {options.version} is verified, and installs\n")
    return 0


def _publish(options: argparse.Namespace) -> int:
    from frameworkrelease.artefacts import publish

    prefix = options.registry.rstrip("/")
    references = publish.publish(_folder(options), options.version, prefix, options.key, Lines())
    sys.stdout.write("".join(f"{reference}\n" for reference in references.values()))
    return 0


def _key(options: argparse.Namespace) -> int:
    from frameworkrelease.artefacts import signing

    for file in signing.make_key(options.prefix):
        sys.stdout.write(f"{file}\n")
    return 0


def _lock_base(_options: argparse.Namespace) -> int:
    from localcluster import base
    from localcluster.binaries import cache_root

    lock = base.relock(cache_root() / "images", Lines())
    sys.stdout.write(f"{base.LOCK}: {len(lock.packages)} packages, {lock.layer}\n")
    return 0


def _folder(options: argparse.Namespace) -> Path:
    folder = _RELEASES / str(options.version)
    if not folder.is_dir():
        raise ReleaseError(f"there is no {folder}: run `make release VERSION={options.version} KEY={options.key}`")
    return folder


if __name__ == "__main__":
    sys.exit(main())
