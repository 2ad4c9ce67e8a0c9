"""The commands that change a Framework, with their flags: `wait`, `stop`, `start`, `scale`, `retry`, `delete`."""

from typing import Annotated, Any

import typer

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Name, Timeout, command
from frameworkclient.cli.output import resource_name, write
from frameworkclient.cli.run import Cluster
from frameworkclient.views.text import seconds_of

app = typer.Typer()


@command(app)
def wait(
    cluster: Cluster,
    name: Name,
    for_: Annotated[
        str, typer.Option("--for", help="completed, succeeded, running, ready (all Tasks are) or deleted.")
    ] = "completed",
    timeout: Timeout = "",
) -> ExitCode | None:
    """Wait until a Framework is Completed, or ready.

    Exit code 3 says that it has failed, 4 that the time is over, 5 that it was deleted.
    """
    from frameworkclient.cli.commands import writing

    seconds = seconds_of(timeout, "--timeout") if timeout else None
    goal: Any = for_
    return cluster.stay(name, lambda client: writing.wait_for(client, name, goal, seconds))


@command(app)
def stop(cluster: Cluster, name: Name) -> None:
    """End a Framework for good; its status stays."""
    cluster.run(lambda client: client.stop(name))
    write(f"{resource_name(name)} stopped\n")


@command(app)
def start(cluster: Cluster, name: Name) -> None:
    """Start a Framework that waits to be started."""
    cluster.run(lambda client: client.start(name))
    write(f"{resource_name(name)} started\n")


@command(app)
def scale(
    cluster: Cluster,
    name: Name,
    tasks: Annotated[list[str], typer.Argument(help="New numbers of Tasks, like worker=4.", metavar="ROLE=NUMBER...")],
) -> None:
    """Change numbers of Tasks, also while they run."""
    from frameworkclient.cli.commands import writing

    numbers = writing.numbers_of(tasks)
    cluster.run(lambda client: client.scale(name, numbers))
    write(f"{resource_name(name)} scaled\n")


@command(app)
def retry(
    cluster: Cluster,
    name: Name,
    task: Annotated[str, typer.Argument(help="A Task, like worker-0; the whole Framework by default.")] = "",
) -> None:
    """Begin another attempt of a Framework or a Task.

    A Framework that is Completed is deleted and submitted again.
    """
    from frameworkclient.cli.commands import writing

    cluster.run(lambda client: writing.retry(client, name, task))


@command(app)
def delete(
    cluster: Cluster,
    names: Annotated[list[str], typer.Argument(help="Names of Frameworks.", metavar="NAME...")],
    wait: Annotated[bool, typer.Option("--wait", help="Stay until they are gone with all their Pods.")] = False,
    timeout: Timeout = "",
) -> None:
    """Delete Frameworks with all their Pods."""
    seconds = seconds_of(timeout, "--timeout") if timeout else None

    async def work(client: Any) -> None:
        for name in names:
            await client.delete(name, wait=wait, timeout=seconds)
            write(f"{resource_name(name)} deleted\n")

    cluster.run(work)
