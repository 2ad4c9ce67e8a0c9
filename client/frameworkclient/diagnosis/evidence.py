"""What is known of a Framework, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from frameworkclient.views.text import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from frameworkclient.views.events import EventView
    from frameworkclient.views.framework import FrameworkView
    from frameworkclient.views.pods import TaskPod
    from frameworkcontroller.api.workload import Workload

MESSAGE: Final = 400
"""Characters that are shown of a message of others."""


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of a Framework."""

    view: FrameworkView
    pods: Mapping[str, TaskPod]
    """By Task."""
    events: Sequence[EventView]
    """Of the Framework and its Pods, the oldest first."""
    now: datetime
    barrier_logs: Mapping[str, str] = field(default_factory=dict)
    """The last line of each barrier that waits and was asked, by Task."""
    workload: Workload | str = ""
    """What Kueue says of a Framework that waits in a queue, or why that cannot be read."""
    queue_number: int | None = None
    """Its number in its LocalQueue, from 1, if that is known."""
    program: str = "frameworkctl"
    """How the user calls this program, for the next steps."""
    is_gone: bool = False
    """Whether it does not exist any more, so that nothing is known of its Pods."""


@dataclass(frozen=True)
class Finding:
    """One reason."""

    what: str
    todo: str = ""
    """The next step, "" if there is nothing to do but wait."""
    tasks: tuple[str, ...] = ()
    """The Tasks that it holds up; empty for the whole Framework."""

    def __str__(self) -> str:
        subject = f"{listed(self.tasks)}: " if self.tasks else ""
        return f"{subject}{self.what}" + (f"\n  -> {self.todo}" if self.todo else "")
