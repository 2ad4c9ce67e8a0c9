"""One thing that is wrong, and where."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from frameworkclient.errors import nearest


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """The Framework would be refused, or could not run."""
    WARNING = "warning"
    """It may not do what it was written for."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a field, such as `spec.taskRoles[worker].taskNumber`, and what to do next."""

    severity: Severity
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path}: {self.text}"


def error(path: str, text: str) -> Problem:
    """Return an error."""
    return Problem(Severity.ERROR, path, text)


def warning(path: str, text: str) -> Problem:
    """Return a warning."""
    return Problem(Severity.WARNING, path, text)


def unknown(path: str, key: str, known: Iterable[str]) -> Problem:
    """Return the error of a field that does not exist, with the one that was probably meant."""
    names = sorted(known)
    following = nearest(key, names, f"there are {', '.join(names[:12])}")
    return error(f"{path}.{key}" if path else key, f"there is no such field; {following}")
