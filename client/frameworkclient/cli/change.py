"""The commands that change a Framework, with their flags: from `wait` to `delete` and `prune`."""

from typing import Annotated, Any

import typer

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import FilesOrNone, Name, Timeout, command, complete_name
from frameworkclient.cli.output import write, write_done
from frameworkclient.cli.run import Cluster
from frameworkclient.cli.terminal import say
from frameworkclient.errors import ArgumentError
from frameworkclient.views.text import seconds_of

app = typer.Typer()


@command(app, "wait training --for=ready --timeout=10m")
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
    return cluster.stay([(None, name)], lambda client: writing.wait_for(client, name, goal, seconds))


@command(app, "stop training")
def stop(cluster: Cluster, name: Name) -> None:
    """End a Framework for good; its status stays."""
    view = cluster.run(lambda client: client.stop(name))
    write_done(view.namespace, name, "stopped")


@command(app, "start training")
def start(cluster: Cluster, name: Name) -> None:
    """Start a Framework that waits to be started."""
    view = cluster.run(lambda client: client.start(name))
    write_done(view.namespace, name, "started")


@command(app, "suspend training")
def suspend(cluster: Cluster, name: Name) -> None:
    """End the attempt of a Framework, and let none begin until it is resumed; no retry is counted."""
    view = cluster.run(lambda client: client.suspend(name))
    write_done(view.namespace, name, "suspended")


@command(app, "resume training")
def resume(cluster: Cluster, name: Name) -> None:
    """Let a suspended Framework go on, with its next attempt."""
    view = cluster.run(lambda client: client.resume(name))
    write_done(view.namespace, name, "resumed")


@command(app, "scale training worker=8")
def scale(
    cluster: Cluster,
    name: Name,
    tasks: Annotated[list[str], typer.Argument(help="New numbers of Tasks, like worker=4.", metavar="ROLE=NUMBER...")],
) -> None:
    """Change numbers of Tasks, also while they run."""
    from frameworkclient.cli.commands import writing

    numbers = writing.numbers_of(tasks)
    view = cluster.run(lambda client: writing.scale(client, name, numbers))
    write_done(view.namespace, name, "scaled")


@command(app, "retry training worker-0")
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


@command(app, "delete -l team=vision")
def delete(
    cluster: Cluster,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of Frameworks.", metavar="[NAME...]", autocompletion=complete_name),
    ] = None,
    filename: FilesOrNone = None,
    selector: Annotated[str, typer.Option("--selector", "-l", help="All with these labels, like team=vision.")] = "",
    wait: Annotated[bool, typer.Option(help="Stay until they are gone with all their Pods.")] = True,
    timeout: Timeout = "",
) -> ExitCode:
    """Delete Frameworks with all their Pods."""
    from frameworkclient.cli.commands import writing

    if sum(map(bool, (names, filename, selector))) != 1:
        raise ArgumentError("delete: name Frameworks, or a file of them by -f, or their labels by -l")
    found = writing.manifests_in(filename, None) if filename else []
    writing.check_namespaces(found, cluster.namespace)
    seconds = seconds_of(timeout, "--timeout") if timeout else None
    return cluster.run(lambda client: writing.delete(client, names or [], found, selector, wait=wait, timeout=seconds))


@command(app, "prune training")
def prune(cluster: Cluster, name: Name) -> None:
    """Delete the Pods that stay after the end of their Tasks (`retainPods`), with their logs."""
    pods = cluster.run(lambda client: client.remove_retained(name))
    for pod in pods:
        write(f"pod/{pod.metadata.name} deleted in namespace {pod.metadata.namespace}\n")
    if not pods:
        say(f"Framework {name} keeps no Pods that have ended")
