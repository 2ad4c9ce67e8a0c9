"""Flags and arguments that several commands share, and how a command is declared with them."""

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
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


Name: TypeAlias = Annotated[
    str, typer.Argument(help="Name of the Framework: lower-case letters and digits.", autocompletion=complete_name)
]
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
FilesOrNone: TypeAlias = Annotated[list[str] | None, _FILE]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a field: spec.taskRoles[worker].taskNumber=4; repeatable."),
]


@cache
def _flags_of(kind: type[Cluster]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind, eval_str=True).parameters


def command(app: typer.Typer, example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as the command of an example, which its help shows.

    One whose first parameter is `cluster` gets the flags that choose one: those of its type.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        own = list(inspect.signature(function).parameters.values())
        kind = own[0].annotation if own and own[0].name == "cluster" else None
        of_cluster = _flags_of(kind) if kind else {}
        flags = [*own[1:], *of_cluster.values()] if kind else own
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in flags]

        def call(**arguments: Any) -> None:
            if kind:
                arguments["cluster"] = kind(**{key: arguments.pop(key) for key in of_cluster})
            raise typer.Exit(guarded(lambda: function(**arguments)))

        call.__name__ = function.__name__
        call.__doc__ = function.__doc__
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        epilog = f"Example: {program()} {example}\n\nAll commands: docs/cli.md of the project."
        app.command(example.split(maxsplit=1)[0], epilog=epilog)(call)
        return function

    return declare
