"""The wait itself: a deadline, a line for a person when something changes, and the gate.

The network is read by a thread, so that neither a silent server nor a slow resolver can hold the deadline or SIGTERM,
which only the main thread receives.
"""

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .errors import BarrierError, GaveUpError
from .follow import Trouble
from .gang import Me, Open, Waiting, decide
from .log import Log
from .views import Look

PROGRESS_SEC = 10.0
"""Least time between two progress lines."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The gate is open: the decision and the look that it was made from."""

    open: Open
    look: Look


class Inbox:
    """What the reading thread tells: looks, troubles, and at last why it ended."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Look | Trouble | BaseException] = queue.SimpleQueue()
        self._wanted = threading.Event()
        self._handed_over = False

    def start(self, source: Iterable[Look | Trouble]) -> None:
        """Begin to read."""
        threading.Thread(target=self._pump, args=(source,), name="source", daemon=True).start()

    def _pump(self, source: Iterable[Look | Trouble]) -> None:
        try:
            for item in source:
                self._items.put(item)
                # No request is made ahead of its need: a gate found open must not cost a watch.
                self._wanted.wait()
                self._wanted.clear()
        except BaseException as end:  # noqa: BLE001  # it is raised again where it can be answered
            self._items.put(end)

    def get(self, timeout_sec: float) -> Look | Trouble | None:
        """The next item, None after `timeout_sec`; raises what ended the source."""
        if self._handed_over:
            self._handed_over = False
            self._wanted.set()
        try:
            item = self._items.get(timeout=max(timeout_sec, 0.0))
        except queue.Empty:
            return None
        self._handed_over = True
        if isinstance(item, BaseException):
            raise item
        return item


class Progress:
    """What to tell a person while waiting, and when: a line when the count changes, at most every 10 s."""

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._told: tuple[object, ...] | None = None
        self._quiet_until = self._started = clock()
        self.waiting: Waiting | None = None
        self.trouble = ""

    def waited(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    def due_in(self) -> float | None:
        """Seconds until the next line may be written, None if there is nothing to say."""
        if self._state() == self._told:
            return None
        at_first = self._told is None and not self.waiting and not self.trouble
        due = self._started + PROGRESS_SEC if at_first else self._quiet_until
        return max(due - self._clock(), 0.0)

    def note(self, text: str) -> None:
        """Write a line of its own."""
        self._log.note(text)

    def tell(self) -> None:
        """Write the line if it is due."""
        if self.due_in() == 0.0:
            self._told = self._state()
            self._quiet_until = self._clock() + PROGRESS_SEC
            self._log.note(f"waiting{self.describe()}")

    def describe(self) -> str:
        """Who is missing and why, and what is wrong with the way to know it; goes on after a word like `waiting`."""
        if self.waiting:
            return f" {self.waiting}" + (f"; {self.trouble}" if self.trouble else "")
        return f": {self.trouble}" if self.trouble else " for the first answer of the API server"

    def describe_with_time(self) -> str:
        """The same with how long; goes on after words like `ended by SIGTERM`."""
        return f" after {self.waited():.1f} s of waiting{self.describe()}"

    def _state(self) -> tuple[object, ...]:
        waiting = self.waiting
        return (waiting and (waiting.ready, waiting.total), self.trouble)


def wait(
    inbox: Inbox,
    me: Me,
    timeout_sec: float,
    progress: Progress,
    *,
    while_waiting: Callable[[], None] = lambda: None,
) -> Opened:
    """Wait until the gate opens.

    Args:
        inbox: a started source.
        me: who this Pod is.
        timeout_sec: seconds after which to give up, since the start of `progress`.
        progress: tells about it.
        while_waiting: called once, after the first look that found the gate closed.

    Raises:
        GaveUpError: not open within the timeout.
        BarrierError: whatever ended the source.
    """
    prepared = False
    while (left := timeout_sec - progress.waited()) > 0:
        due = progress.due_in()
        try:
            item = inbox.get(left if due is None else min(left, due))
        except BarrierError as end:
            raise type(end)(f"{end} (waited {progress.waited():.1f} s)") from end
        if isinstance(item, Look):
            verdict = decide(item.gang, me)
            if isinstance(verdict, Open):
                return Opened(verdict, item)
            progress.waiting, progress.trouble = verdict, ""
        elif isinstance(item, Trouble) and item.lasting:
            progress.note(item.text)
        elif isinstance(item, Trouble):
            progress.trouble = item.text
        progress.tell()
        if item is not None and not prepared:
            prepared = True
            while_waiting()
    raise GaveUpError(f"gave up after {timeout_sec:g} s of waiting{progress.describe()}")
