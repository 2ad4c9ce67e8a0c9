"""Steps of the demo and their parts, posted as events to the store while they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from frameworkdemo.picture import events

if TYPE_CHECKING:
    from collections.abc import Iterator

PostEvent = Callable[[events.Event], None]
"""A function that takes an event from any thread, `RunStore.post` in the demo."""

ReportDetail = Callable[[str], None]
"""A function that takes a few words about what a part is doing."""


@contextlib.contextmanager
def step(post: PostEvent, name: str) -> Iterator[None]:
    """Report a block of code as a step."""
    post(events.StepStarted(time.time(), name))
    try:
        yield
    except BaseException:
        post(events.StepEnded(time.time(), name, ok=False))
        raise
    post(events.StepEnded(time.time(), name))


@contextlib.contextmanager
def part(post: PostEvent, name: str) -> Iterator[ReportDetail]:
    """Report a block of code as a part of the running step; the block gets a function to report details with."""
    parts = PartEvents(post)
    parts.started(name)
    try:
        yield lambda detail: parts.ticked(name, 0.0, detail)
    except BaseException:
        parts.failed(name, 0.0)
        raise
    parts.finished(name, 0.0)


class PartEvents:
    """Posts the progress of the local cluster (a `localcluster.progress.Progress`) as parts of the running step."""

    def __init__(self, post: PostEvent) -> None:
        self._post = post

    def started(self, task: str) -> None:
        """Post that a part has begun."""
        self._post(events.PartStarted(time.time(), task))

    def ticked(self, task: str, seconds: float, detail: str) -> None:  # noqa: ARG002 -- the protocol has the argument
        """Post that a part still runs."""
        self._post(events.PartProgressed(time.time(), task, detail))

    def finished(self, task: str, seconds: float) -> None:  # noqa: ARG002 -- the protocol has the argument
        """Post that a part is done."""
        self._post(events.PartEnded(time.time(), task))

    def failed(self, task: str, seconds: float) -> None:  # noqa: ARG002 -- the protocol has the argument
        """Post that a part has failed."""
        self._post(events.PartEnded(time.time(), task, ok=False))
