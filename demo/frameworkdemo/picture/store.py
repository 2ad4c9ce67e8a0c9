"""The store of a run: its one current state, which events change and a display shows.

The demo's threads (steps, watches, followed logs) post events to it; the main thread waits until the state fulfills a
condition.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from frameworkdemo.picture.state import RunState
from frameworkdemo.picture.transitions import advance

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkdemo.picture.display import Display
    from frameworkdemo.picture.events import Event


class RunStore:
    """The current state of a run, behind a lock.

    Args:
        display: Shows each change.
        clock: Returns the time, in seconds since the epoch.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.time) -> None:
        self._display = display
        self._clock = clock
        self._changed = threading.Condition()
        self._state = RunState()
        self._closed = False

    @property
    def state(self) -> RunState:
        """The current state."""
        return self._state

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock()

    def post(self, event: Event) -> None:
        """Apply an event to the state and show the change; any thread may call this."""
        with self._changed:
            if self._closed:
                return
            before, self._state = self._state, advance(self._state, event)
            self._display.changed(before, self._state, self._clock())
            self._changed.notify_all()

    def close(self) -> None:
        """Ignore all further events.

        A thread that writes while the interpreter shuts down would crash it, because it would never release the lock of
        the output.
        """
        with self._changed:
            self._closed = True

    def wait(self, until: Callable[[RunState], bool], seconds: float) -> bool:
        """Wait until the state fulfills a condition, at most `seconds`, and return whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: until(self._state), timeout=seconds)
