"""What the terminal can do, and text with colours for it."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


@dataclass(frozen=True)
class Colours:
    """Writes colours if they are enabled, or leaves text as it is."""

    enabled: bool = False

    def __call__(self, text: str, colour: str) -> str:
        """Return the text in a colour, or in several of these, like `bold red`; "" is none."""
        codes = ";".join(_CODES[one] for one in colour.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if self.enabled and codes and text else text


def is_interactive(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Report whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def colours_for(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Colours:
    """Return colours for a terminal, unless `NO_COLOR` is set, and none for anything else."""
    return Colours(is_interactive(stream, environ) and not environ.get("NO_COLOR"))


def program(argv: str | None = None) -> str:
    """Return how the user calls this program: `frameworkctl` or `kubectl framework`."""
    name = os.path.basename(argv if argv is not None else sys.argv[0])  # noqa: PTH119 -- pathlib is not imported for it
    return "kubectl framework" if name.startswith("kubectl-") else "frameworkctl"


def say(text: str) -> None:
    """Write a line for the user beside the output."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
