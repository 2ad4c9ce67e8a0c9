"""The errors of a local cluster, one class for each meaning, with one base that a caller can catch."""

from pathlib import Path


class LocalClusterError(Exception):
    """The base of all errors that this package raises on purpose; the text is for a person."""


class StartError(LocalClusterError):
    """A process exited before it was ready, or was not ready in time."""

    def __init__(self, component: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(f"{component} {reason}; the end of {log}:\n{tail}" if tail else f"{component} {reason}")


class BinaryError(LocalClusterError):
    """A program of Kubernetes could not be found, downloaded or built."""


class SetupError(LocalClusterError):
    """This machine does not allow the operation, or the request is invalid; the text says what to change."""
