"""Flags and arguments that commands share or hand on, and how a command is declared with them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from frameworkclient.cli.run import Cluster, guarded
from frameworkclient.cli.terminal import program
from frameworkclient.errors import ClientError


class Format(StrEnum):
    """How a list or an object is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of Frameworks that begin so, for the shell; none if they cannot be listed."""
    flags = ctx.params
    place = Cluster(flags.get("namespace"), flags.get("context"), flags.get("kubeconfig"))
    try:
        return [view.name for view in place.run(lambda client: client.list()) if view.name.startswith(incomplete)]
    except ClientError:
        return []


def complete_preset(incomplete: str) -> list[str]:
    """Return the presets of this version that begin so."""
    from frameworkclient.checks.gang import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def _one_of(*formats: Format, text: str = "How to write it.") -> Any:
    """Return the flag `-o` of commands that know only these formats; another one is wrong usage."""

    def checked(value: Format) -> Format:
        if value not in formats:
            known = ", ".join(f"'{one}'" for one in formats)
            raise typer.BadParameter(f"'{value}' is not one of {known}.")
        return value

    return typer.Option("--output", "-o", help=text, metavar=f"<{'|'.join(formats)}>", callback=checked)


Texts: TypeAlias = list[str] | None
Name: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the Framework: lower-case letters and digits.", autocompletion=complete_name)
]
AllNamespaces: TypeAlias = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]
Output: TypeAlias = Annotated[Format, typer.Option("--output", "-o", help="How to write it.")]
Rows: TypeAlias = Annotated[Format, _one_of(Format.TABLE, Format.JSON, Format.YAML, Format.NAME)]
Report: TypeAlias = Annotated[Format, _one_of(Format.TABLE, Format.JSON, Format.YAML)]
Document: TypeAlias = Annotated[Format, _one_of(Format.YAML, Format.JSON)]
DryDocument: TypeAlias = Annotated[Format, _one_of(Format.YAML, Format.JSON, text="How to write it, with --dry-run.")]
Timeout: TypeAlias = Annotated[str, typer.Option(help="How long to wait, like 45s, 10m or 1h30m; any time by default.")]

_FILE: Final = typer.Option(
    "--filename", "-f", help="File with Frameworks, folder of such files, URL, or - for stdin; repeatable."
)
Files: TypeAlias = Annotated[list[str], _FILE]
FilesOrNone: TypeAlias = Annotated[Texts, _FILE]
Settings: TypeAlias = Annotated[
    Texts, typer.Option("--set", help="Change a field: spec.taskRoles[worker].taskNumber=4; repeatable.")
]


@dataclass(frozen=True)
class RunFlags:
    """What `run` makes a Framework of; what is called as an argument of `pod_template` is that argument."""

    words: Annotated[Texts, typer.Argument(help="The command, after --.", metavar="-- COMMAND...")] = None
    image: Annotated[str, typer.Option(help="Image of the containers.")] = ""
    script: Annotated[
        str, typer.Option(help="Python file of this machine that runs in them; what follows -- are its arguments.")
    ] = ""
    workdir: Annotated[
        str,
        typer.Option(help="Folder of this machine that the command finds where it starts, without what git ignores."),
    ] = ""
    requirements: Annotated[
        str, typer.Option(help="File of this machine with packages that pip installs before the command starts.")
    ] = ""
    list_files: Annotated[bool, typer.Option("--list-files", help="Print the files that would travel.")] = False
    roles: Annotated[
        Texts, typer.Option("--role", help="Role with its Tasks, like worker=4; repeatable.", show_default="worker=1")
    ] = None
    preset: Annotated[
        str,
        typer.Option(
            help="Preset of the barrier, like pytorch: the Pods wait for one another.", autocompletion=complete_preset
        ),
    ] = ""
    restart: Annotated[
        str, typer.Option(help="in-place: an exit or a rescale starts the whole gang again in its Pods.")
    ] = ""
    cpu: Annotated[str, typer.Option(help="Cores of each Pod, like 2 or 500m.")] = ""
    memory: Annotated[str, typer.Option(help="Memory of each Pod, like 4Gi.")] = ""
    gpus: Annotated[int, typer.Option(help="GPUs of each Pod.")] = 0
    gpu_resource: Annotated[str, typer.Option(help="What the cluster calls a GPU.")] = "nvidia.com/gpu"
    env: Annotated[Texts, typer.Option("--env", "-e", help="Variable, NAME=VALUE; repeatable.")] = None
    volumes: Annotated[Texts, typer.Option("--volume", help="Claim and its place, CLAIM:/path[:ro]; repeatable.")] = (
        None
    )
    shm: Annotated[str, typer.Option(help="Size of /dev/shm, like 8Gi, which counts as memory.")] = ""
    node_selector: Annotated[Texts, typer.Option(help="Label of the nodes, NAME=VALUE; repeatable.")] = None
    tolerations: Annotated[
        Texts, typer.Option("--toleration", help="Taint to tolerate, KEY[=VALUE][:EFFECT]; repeatable.")
    ] = None
    labels: Annotated[Texts, typer.Option("--label", help="Label of the Pods, NAME=VALUE; repeatable.")] = None
    annotations: Annotated[
        Texts, typer.Option("--annotation", help="Annotation of the Pods, NAME=VALUE; repeatable.")
    ] = None
    service_account: Annotated[str, typer.Option(help="Service account of the Pods.")] = ""
    pull_secrets: Annotated[Texts, typer.Option("--pull-secret", help="Secret for the registry; repeatable.")] = None
    user: Annotated[int | None, typer.Option(help="Number of the user that runs the command.")] = None
    restricted: Annotated[bool, typer.Option("--restricted", help="Keep to the restricted Pod Security Standard.")] = (
        False
    )
    settings: Settings = None
    queue: Annotated[str, typer.Option(help="LocalQueue of Kueue by which it waits.")] = ""
    priority_class: Annotated[str, typer.Option(help="WorkloadPriorityClass of Kueue, with --queue.")] = ""
    retries: Annotated[
        int, typer.Option(help="Retries of the whole Framework; transient failures are always retried then.")
    ] = 0
    timeout: Annotated[str, typer.Option(help="How long it may run, retries included, like 2h.")] = ""
    retain_pods: Annotated[
        str, typer.Option(help="Pods that stay after their end, with their logs: Never, OnFailure or Always.")
    ] = "OnFailure"
    suspend: Annotated[bool, typer.Option("--suspend", help="Let it wait until it is resumed.")] = False


@dataclass(frozen=True)
class ListFlags:
    """Which Frameworks `list` shows, and how."""

    all_namespaces: AllNamespaces = False
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only with these labels, like team=vision.")] = ""
    output: Output = Format.TABLE
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, with a line for each change.")] = False
    all_times: Annotated[bool, typer.Option("--all", help="Also those that the archive alone still has.")] = False
    since: Annotated[str, typer.Option(help="Only those that were created so recently, like 12h or 7d.")] = ""


@dataclass(frozen=True)
class LogFlags:
    """Which lines `logs` shows, and how."""

    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on through retries and rescale until the Framework has ended.")
    ] = False
    role: Annotated[str, typer.Option(help="Only of this role.")] = ""
    task: Annotated[str, typer.Option(help="Only of this Task, like worker-0.")] = ""
    barrier: Annotated[bool, typer.Option("--barrier", help="Of the barrier instead of the application.")] = False
    since: Annotated[str, typer.Option(help="Only lines that are not older, like 45s, 10m or 1h30m.")] = ""
    tail: Annotated[int, typer.Option(help="Only so many last lines of each container; -1 for all.")] = -1
    grep: Annotated[str, typer.Option(help="Only lines in which this regular expression (RE2) is found.")] = ""
    grep_text: Annotated[str, typer.Option(help="Only lines that contain this text.")] = ""
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the run before the last restart of each container.")
    ] = False
    attempt: Annotated[
        int | None, typer.Option(min=1, help="All of this attempt of the Framework, from 1, also from the archive.")
    ] = None
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Write the time of each line.")] = False
    save: Annotated[Path | None, typer.Option(help="Write into this folder, a file for each attempt of a Task.")] = None


@cache
def _flags_of(group: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(group, eval_str=True).parameters


def command(app: typer.Typer, example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as the command of an example, which its help shows.

    A parameter whose type is a dataclass stands for flags, its fields; those of `cluster` come last.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function).parameters
        groups: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
        flags = [
            flag.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name in sorted(own, key=lambda name: name == "cluster")
            for flag in (_flags_of(groups[name]).values() if name in groups else (own[name],))
        ]

        def call(**arguments: Any) -> None:
            for name, group in groups.items():
                arguments[name] = group(**{key: arguments.pop(key) for key in _flags_of(group)})
            raise typer.Exit(guarded(lambda: function(**arguments)))

        call.__name__ = function.__name__
        call.__doc__ = function.__doc__
        call.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]  # what typer reads
        call.__annotations__ = {one.name: one.annotation for one in flags}
        epilog = f"Example: {program()} {example}\n\nAll commands: docs/cli.md of the project."
        app.command(example.split(maxsplit=1)[0], epilog=epilog)(call)
        return function

    return declare
