"""The wait: a deadline, a line for a person when something changes, and the gate.

`__main__` starts a `SourceReader` on the chosen source and calls `wait`, which returns when the gate is open and raises
why it will not open. A thread reads the network, so that neither a silent server nor a slow resolver can delay the
deadline or SIGTERM, which only the main thread receives. This module knows no network itself.
"""

import contextlib
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from frameworkbarrier.errors import BarrierError, WaitTimeoutError
from frameworkbarrier.gate.gate import Fault, Gatekeeper, Observation, Released, Waiting
from frameworkbarrier.log import Log

PROGRESS_SEC = 10.0
"""Least time between two progress lines."""
REASON_SEC = 60.0
"""The same, where the count has not changed."""


class SourceReader:
    """Reads a source in a thread: Observations, Faults, and at last the exception that ended the source.

    The main thread waits in a `select` on a pipe and not for a lock: a signal that arrives just before a thread blocks
    on a lock is not handled until the lock is released. `__main__` lets the interpreter write a byte for each signal to
    `wakeup_fd` (`signal.set_wakeup_fd`), which ends the `select`.
    """

    def __init__(self) -> None:
        self._items: deque[Observation | Fault | BaseException] = deque()
        self._wanted = threading.Event()
        self._handed_over = False
        self._readable, self.wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def start(self, source: Iterable[Observation | Fault]) -> None:
        """Begin to read."""
        threading.Thread(target=self._pump, args=(source,), name="source", daemon=True).start()

    def _pump(self, source: Iterable[Observation | Fault]) -> None:
        try:
            for item in source:
                self._put(item)
                # No request is made before it is needed: a gate that is open must not cost a watch.
                self._wanted.wait()
                self._wanted.clear()
        except BaseException as end:  # noqa: BLE001 -- `get` raises it again in the main thread
            self._put(end)

    def end(self, why: BaseException) -> None:
        """Let `get` raise this in the main thread, whatever the source has to say."""
        self._put(why)

    def _put(self, item: Observation | Fault | BaseException) -> None:
        self._items.append(item)
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes up the main thread too
            os.write(self.wakeup_fd, b"\0")

    def get(self, timeout_sec: float) -> Observation | Fault | None:
        """Return the next item, None after `timeout_sec`; raise what ended the source."""
        if self._handed_over:
            self._handed_over = False
            self._wanted.set()
        deadline = time.monotonic() + timeout_sec
        while not self._items:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._readable], [], [], left)[0]:
                return None
            os.read(self._readable, 4096)
        item = self._items.popleft()
        self._handed_over = True
        if isinstance(item, BaseException):
            raise item
        return item


class Progress:
    """What to report to a person while waiting, and when.

    A line when the count changes, at most every 10 s, and when only the names or the reasons do, at most every 60 s:
    these may alternate for hours (ErrImagePull and ImagePullBackOff).
    """

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self.log = log
        self._clock = clock
        self._reported: tuple[object, ...] | None = None
        self._reported_text = ""
        self._started = clock()
        self._reported_at = -math.inf
        self.waiting: Waiting | None = None
        self.fault = ""

    def waited(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._started

    def due_in(self) -> float | None:
        """Return the seconds until the next line may be written, None if there is nothing to report."""
        at_first = self._reported is None and not self.waiting and not self.fault
        if at_first:
            due = self._started + PROGRESS_SEC
        elif self._state() != self._reported:
            due = self._reported_at + PROGRESS_SEC
        elif self.describe() != self._reported_text:
            due = self._reported_at + REASON_SEC
        else:
            return None
        return max(due - self._clock(), 0.0)

    def report(self) -> None:
        """Write the line if it is due."""
        if self.due_in() == 0.0:
            self._reported, self._reported_text = self._state(), self.describe()
            self._reported_at = self._clock()
            self.log.info(f"waiting{self._reported_text}")

    def describe(self) -> str:
        """Say who is missing and why, and what keeps the source from observing; continues a word like `waiting`."""
        if self.waiting:
            return f" {self.waiting}" + (f"; {self.fault}" if self.fault else "")
        return f": {self.fault}" if self.fault else " for the first answer of the API server"

    def describe_with_time(self) -> str:
        """Say the same with the time waited; continues words like `ended by SIGTERM`."""
        return f" after {self.waited():.1f} s of waiting{self.describe()}"

    def _state(self) -> tuple[object, ...]:
        waiting = self.waiting
        return (waiting and (waiting.ready, waiting.total), self.fault)


def wait(
    reader: SourceReader,
    gatekeeper: Gatekeeper,
    timeout_sec: int,
    progress: Progress,
    *,
    while_waiting: Callable[[], None] = lambda: None,
) -> Released:
    """Wait until the gate opens, for `timeout_sec` since the start of `progress` at most.

    `while_waiting` is called once, after the first item that does not open the gate.

    Raises:
        WaitTimeoutError: not open within the timeout.
        BarrierError: what ended the source, or why the gatekeeper will never open the gate.
    """
    prepared = False
    seen: Observation | None = None
    while (left := timeout_sec - progress.waited()) > 0:
        try:
            dues = (left, progress.due_in(), gatekeeper.due_in())
            item = reader.get(min(due for due in dues if due is not None))
        except BarrierError as end:
            raise type(end)(f"{end} (waited {progress.waited():.1f} s)") from end
        if item is None and gatekeeper.due_in() == 0.0:
            item = seen
        if isinstance(item, Observation):
            seen, decision = item, gatekeeper.decide(item)
            if isinstance(decision, Released):
                return decision
            progress.waiting, progress.fault = decision, ""
        elif isinstance(item, Fault) and item.lasting:
            progress.log.info(item.text)
        elif isinstance(item, Fault):
            progress.fault = item.text
        progress.report()
        if item is not None and not prepared:
            prepared = True
            while_waiting()
    raise WaitTimeoutError(f"gave up after {timeout_sec} s of waiting{progress.describe()}")
