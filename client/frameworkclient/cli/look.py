"""The commands that look, with their flags: `list`, `get`, `describe`, `watch`, `events`, `logs`, `ui`."""

from typing import Annotated, Final, TypeAlias

import typer

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import (
    AllNamespaces,
    Format,
    ListFlags,
    LogFlags,
    Name,
    Output,
    Report,
    Rows,
    command,
)
from frameworkclient.cli.run import Cluster, ClusterAndArchive
from frameworkclient.errors import ArgumentError

app = typer.Typer()
_SystemNamespace: TypeAlias = Annotated[str, typer.Option(help="Namespace of the controller.")]
_Release: TypeAlias = Annotated[str, typer.Option(help="Its release of the chart.")]
SYSTEM: Final = "frameworkcontroller-system"


@command(app, "list -A --watch")
def list_frameworks(cluster: ClusterAndArchive, flags: ListFlags) -> None:
    """List Frameworks, and what they wait for."""
    from frameworkclient.cli.commands import reading

    if flags.watch and (flags.all_times or flags.since):
        raise ArgumentError("--watch: not with --all or --since")
    cluster.run(lambda client: reading.list_frameworks(client, flags))


@command(app, "get training -o yaml")
def get(cluster: ClusterAndArchive, name: Name, output: Output = Format.TABLE) -> None:
    """Show one Framework, also as YAML or JSON."""
    from frameworkclient.cli.commands import reading

    found = cluster.run(lambda client: reading.look_up(client, name))
    reading.write_frameworks([found.view], output, single=True)


@command(app, "describe training")
def describe(cluster: ClusterAndArchive, name: Name) -> None:
    """Show its Tasks as a tree: what has failed, what follows."""
    from frameworkclient.cli.commands import reading

    cluster.run(lambda client: reading.describe(client, name))


@command(app, "watch training")
def watch(cluster: Cluster, name: Name) -> ExitCode | None:
    """Show a Framework live, until it is Completed.

    Without a terminal there is a line for each change and for each line of the log.
    """
    from frameworkclient.cli.commands import live

    return cluster.stay([(None, name)], lambda client: live.show(client, name))


@command(app, "why training")
def why(cluster: ClusterAndArchive, name: Name, output: Report = Format.TABLE) -> None:
    """Say why a Framework does not run, and what to do; or a gang of another controller: jobset/NAME."""
    from frameworkclient.cli.commands import gangs
    from frameworkclient.cli.commands import why as diagnosis

    kind, _, of_others = name.partition("/")
    if of_others:
        cluster.run(lambda client: gangs.why(client, kind, of_others, output))
    else:
        cluster.run(lambda client: diagnosis.why(client, name, output))


@command(app, "gangs -A")
def list_gangs(
    cluster: Cluster,
    all_namespaces: AllNamespaces = False,
    output: Report = Format.TABLE,
) -> None:
    """List gangs of other controllers (JobSet, Job, ...), and what they wait for."""
    from frameworkclient.cli.commands import gangs

    cluster.run(lambda client: gangs.list_gangs(client, all_namespaces=all_namespaces, output=output))


@command(app, "events training")
def events(cluster: ClusterAndArchive, name: Name, output: Rows = Format.TABLE) -> None:
    """List the Events of a Framework and its Pods."""
    from frameworkclient.cli.commands import reading

    cluster.run(lambda client: reading.events_of(client, name, output))


@command(app, "logs training -f --role worker --grep 'loss=[0-9]'")
def logs(cluster: ClusterAndArchive, name: Name, flags: LogFlags) -> ExitCode | None:
    """Show the logs of all Tasks, each line with its Task."""
    from frameworkclient.cli.commands import reading

    if flags.attempt is not None and (flags.follow or flags.previous):
        raise ArgumentError("--attempt: not with --follow or --previous")
    return cluster.stay([(None, name)], lambda client: reading.write_logs(client, name, flags))


@command(app, "doctor")
def doctor(
    cluster: Cluster,
    system_namespace: _SystemNamespace = SYSTEM,
    release: _Release = "frameworkcontroller",
    output: Report = Format.TABLE,
) -> ExitCode:
    """Say whether the cluster can run Frameworks for you."""
    from frameworkclient.cli.commands import doctor as checks

    return cluster.run(lambda client: checks.doctor(client, system_namespace, release, output))


@command(app, "ui")
def ui(
    cluster: Cluster, system_namespace: _SystemNamespace = SYSTEM, release: _Release = "frameworkcontroller"
) -> None:
    """Open the page of the archive, by kubectl port-forward, until Ctrl-C."""
    from frameworkclient.cli.commands import page

    page.show(cluster, system_namespace, release)
