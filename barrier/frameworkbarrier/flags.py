"""The command line of the barrier: one flag for each setting. Imported only where there are arguments."""

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn

from frameworkbarrier import __version__
from frameworkbarrier.errors import SettingsError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"bad settings: {message}")


def read(argv: Sequence[str], flags: Iterable[tuple[str, str, str, str]]) -> dict[str, str]:
    """Return the texts of the flags that are there, by the names of their settings.

    `flags` has of each its setting, itself, its placeholder and its help text.

    Raises:
        SettingsError: there is no such flag, or one has no value.
    """
    parser = _Parser(
        prog="frameworkbarrier",
        description="Wait until every Task of the gang is ready, then write who the peers are and where.",
        epilog="Exit codes: 0 open, 88 its epoch has ended, 89 the gang hangs, 201 not open in time, "
        "210 can never open, 143 SIGTERM, 1 anything else.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    for name, flag, placeholder, help_text in flags:
        parser.add_argument(flag, dest=name, metavar=placeholder, help=help_text)
    return {name: text for name, text in vars(parser.parse_args(list(argv))).items() if text is not None}
