"""The command line with all its commands, in the order of `--help`.

Typer reads the annotations of parameters, so modules with commands evaluate them.
"""

from typing import Annotated

import typer

from frameworkclient.cli import change, look, make
from frameworkclient.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (make, look, change):
    app.add_typer(group.app)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Frameworks on Kubernetes: submit them, follow them, change them."""
