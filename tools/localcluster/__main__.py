"""`python -m localcluster`: the command line."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from localcluster.cluster import cluster, settings
from localcluster.context import Depth
from localcluster.errors import LocalClusterError
from localcluster.images import images

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="A real Kubernetes on this machine.",
)  # fmt: skip
Name = Annotated[str, typer.Option(help="The cluster.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; the process ends with 0, 1 after an error, 2 for wrong usage, 130 if interrupted."""
    try:
        app(argv)
    except LocalClusterError as error:
        sys.exit(f"error: {error}")


@app.command()
def up(
    depth: Annotated[Depth, typer.Option(help="How much of Kubernetes it has.")] = Depth.CONTROL_PLANE,
    kubernetes: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Such as 1.30.14 or 1.30; else $KUBERNETES or the pinned one.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Simulated nodes at depth kwok.")] = 5,
    name: Name = "default",
) -> None:
    """Start a cluster, or its missing components, and wait until it is ready."""
    made = cluster.up(name, depth, kubernetes=kubernetes, nodes=nodes)
    typer.echo(f"Kubernetes {made.version} ({made.depth}) is ready at {made.server}")
    typer.echo(f"export KUBECONFIG={made.kubeconfig}")


@app.command()
def down(
    *, every: Annotated[bool, typer.Option("--all", help="Every cluster.")] = False, name: Name = "default"
) -> None:
    """Stop a cluster and remove it."""
    for one in settings.names() if every else [name]:
        cluster.down(one)


@app.command()
def kubeconfig(name: Name = "default") -> None:
    """Print the path of the administrator's kubeconfig."""
    typer.echo(_running(name).kubeconfig)


@app.command()
def kubectl(arguments: list[str], name: Name = "default") -> None:
    """Run kubectl on a cluster: kubectl [--name N] -- get pods."""
    typer.echo(_running(name).kubectl(*arguments), nl=False)


@app.command()
def build(names: Annotated[list[str] | None, typer.Argument(help="By default all images.")] = None) -> None:
    """Build images into archives."""
    for name, archive in images.build_all(names or images.CATALOGUE).items():
        typer.echo(f"{name:<12} {archive}")


def _running(name: str) -> cluster.Cluster:
    found = cluster.get(name)
    if found is None:
        raise LocalClusterError(
            f"cluster {name!r} is not running: start it with `python -m localcluster up --name {name}`"
        )
    return found


if __name__ == "__main__":
    main()
