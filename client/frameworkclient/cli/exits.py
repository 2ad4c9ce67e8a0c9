"""Exit codes: what a script can tell apart (docs/cli.md, "Exit codes")."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command has ended."""

    DONE = 0
    """Also: what was waited for has happened, and the Framework has not failed."""
    ERROR = 1
    """The command could not do its work: no permission, no such Framework, no connection."""
    USAGE = 2
    """A flag, an argument or a file is not valid; nothing was done."""
    FAILED = 3
    """The Framework that was waited for has failed."""
    TIMEOUT = 4
    """What was waited for has not happened in the time allowed."""
    DELETED = 5
    """The Framework was deleted while it was waited for."""
    INTERRUPTED = 130
    """Ctrl-C. The Framework goes on."""
