"""What can go wrong with a local cluster, by meaning: one base, so that a caller catches one type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LocalClusterError(Exception):
    """Base of everything that this package raises on purpose; its text is one sentence for a person."""


class StartError(LocalClusterError):
    """A process did not become ready: it exited, or its time ran out.

    Attributes:
        component: The name under which it was started.
        log: The file with everything it wrote.
    """

    def __init__(self, component: str, reason: str, log: Path, tail: str) -> None:
        self.component = component
        self.log = log
        super().__init__(f"{component} {reason}; the end of {log}:\n{tail}" if tail else f"{component} {reason}")


class BinaryError(LocalClusterError):
    """A program of Kubernetes could neither be found nor downloaded nor built."""


class SetupError(LocalClusterError):
    """This machine, or what was asked for, does not allow it; the text says what to change."""
