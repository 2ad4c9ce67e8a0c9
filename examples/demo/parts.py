"""What takes time is announced: steps, and the parts that they have."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from demo import events

if TYPE_CHECKING:
    from collections.abc import Iterator

Post = Callable[[events.Event], None]
"""Whoever takes events, from any thread."""

Tell = Callable[[str], None]
"""Whoever takes a word on what is being done now."""


@contextlib.contextmanager
def step(post: Post, name: str) -> Iterator[None]:
    """Announce a block of code as a step."""
    post(events.StepBegan(time.time(), name))
    try:
        yield
    except BaseException:
        post(events.StepEnded(time.time(), name, ok=False))
        raise
    post(events.StepEnded(time.time(), name))


@contextlib.contextmanager
def part(post: Post, name: str) -> Iterator[Tell]:
    """Announce a block of code as a part of the step that is under way; it gets a function to say what it is doing."""
    parts = Parts(post)
    parts.started(name)
    try:
        yield lambda detail: parts.ticked(name, 0.0, detail)
    except BaseException:
        parts.failed(name, 0.0)
        raise
    parts.finished(name, 0.0)


class Parts:
    """The local cluster's progress (its protocol `Progress`) as events."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def started(self, task: str) -> None:
        """A part begins."""
        self._post(events.WorkBegan(time.time(), task))

    def ticked(self, task: str, seconds: float, detail: str) -> None:  # noqa: ARG002 -- the protocol's
        """It goes on."""
        self._post(events.WorkTold(time.time(), task, detail))

    def finished(self, task: str, seconds: float) -> None:  # noqa: ARG002 -- the protocol's
        """It is done."""
        self._post(events.WorkEnded(time.time(), task))

    def failed(self, task: str, seconds: float) -> None:  # noqa: ARG002 -- the protocol's
        """It failed."""
        self._post(events.WorkEnded(time.time(), task, ok=False))
