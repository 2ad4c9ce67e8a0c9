"""`python -m localcluster`: the command line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from localcluster import cluster, settings
from localcluster.context import Depth
from localcluster.errors import LocalClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 after an error, 2 for wrong usage, 130 if interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: run `up` to continue, or `down` to remove the cluster", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(run.__name__.removeprefix("_"), help=text)
        parser.set_defaults(run=run)
        return parser

    up = command(_up, "start a cluster, or its missing components, and wait until it is ready")
    up.add_argument(
        "--depth", type=Depth, choices=list(Depth), default=Depth.CONTROL_PLANE, help="default: %(default)s"
    )
    up.add_argument(
        "--kubernetes", metavar="VERSION", help="for example 1.30.14 or 1.30; default: $KUBERNETES or the pinned one"
    )
    up.add_argument("--nodes", type=int, default=5, help="simulated nodes at depth kwok; default: %(default)s")

    down = command(_down, "stop a cluster and remove it")
    down.add_argument("--all", action="store_true", help="remove every cluster")
    kubeconfig = command(_kubeconfig, "print the path of the administrator's kubeconfig")
    kubectl = command(_kubectl, "run kubectl on a cluster: kubectl [--name N] -- get pods")
    kubectl.add_argument("arguments", nargs="*")
    build = command(_build, "build images into archives")
    build.add_argument("images", nargs="*", metavar="NAME", help="default: all")

    for one in (up, down, kubeconfig, kubectl):
        one.add_argument("--name", default="default", help="the cluster; default: %(default)s")
    return parser


def _up(arguments: argparse.Namespace) -> int:
    made = cluster.up(
        arguments.name,
        arguments.depth,
        kubernetes=arguments.kubernetes,
        nodes=arguments.nodes,
    )
    print(f"Kubernetes {made.version} ({made.depth}) is ready at {made.server}")
    print(f"export KUBECONFIG={made.kubeconfig}")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    for name in settings.names() if arguments.all else [arguments.name]:
        cluster.down(name)
    return 0


def _running(name: str) -> cluster.Cluster:
    found = cluster.get(name)
    if found is None:
        raise LocalClusterError(
            f"cluster {name!r} is not running: start it with `python -m localcluster up --name {name}`"
        )
    return found


def _kubeconfig(arguments: argparse.Namespace) -> int:
    print(_running(arguments.name).kubeconfig)
    return 0


def _kubectl(arguments: argparse.Namespace) -> int:
    print(_running(arguments.name).kubectl(*arguments.arguments), end="")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from localcluster import images

    for name, archive in images.build_all(arguments.images or images.CATALOGUE).items():
        print(f"{name:<12} {archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
