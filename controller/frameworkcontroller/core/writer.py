"""When the status is written, and what is in it; and what the API server has of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .book import plain
from .conditions import conditions
from .effects import Done, Shown, WriteStatus

if TYPE_CHECKING:
    from frameworkcontroller.api.types import Framework, FrameworkSpec, FrameworkStatus

    from .book import Book

# The least time between two writes of a status, and more of it for each Task: where something waits for the write, and
# where it only tells what goes on. Many small Frameworks cost the API server as much as one large one.
PRESSING_FLOOR: Final = timedelta(milliseconds=20)
PRESSING_EACH: Final = timedelta(microseconds=100)
PROGRESS_FLOOR: Final = timedelta(milliseconds=500)
PROGRESS_EACH: Final = timedelta(microseconds=500)


class StatusWriter:
    """The status as the API server has it, and the next one.

    Attributes:
        stored: what was last written, None if nobody has written one.
        shown: its roles, with what was counted in them.
    """

    def __init__(self, seen: Framework) -> None:
        self.stored: FrameworkStatus | None = seen.stored_status()
        self.shown: Shown | None = None
        self._resource_version = seen.metadata.resource_version
        self._sent_at: datetime | None = None

    @property
    def generation(self) -> int:
        """Of the spec that the stored status speaks of, 0 if it does not say."""
        known = self.stored.observed_generation if self.stored is not None else None
        return known if isinstance(known, int) else 0

    def is_overtaken(self, seen: Framework) -> bool:
        """Whether what is seen has a status that somebody else has written since; ask only if no write is under way."""
        version = seen.metadata.resource_version
        # They grow as decimal numbers do (source: Kubernetes, KEP-5504).
        if not (version.isdecimal() and self._resource_version.isdecimal()):
            return False
        if int(version) <= int(self._resource_version):
            return False
        status = seen.stored_status()
        if (status and plain(status)) != (self.stored and plain(self.stored)):
            return True
        self._resource_version = version
        return False

    def due(self, book: Book, spec: FrameworkSpec, now: datetime, *, crowded: bool) -> datetime | None:
        """When the next write may be, None if at once: they keep a distance, so that more goes into each.

        A gang that has become complete waits for nothing: its Pods are held back until it is shown. What only tells
        what goes on gives way where writes queue for the API server.
        """
        ready, total = book.readiness(spec)
        if self._sent_at is None or (ready == total and not (self.shown and self.shown.complete)):
            return None
        if book.pressing:
            return self._sent_at + PRESSING_FLOOR + PRESSING_EACH * book.size
        due = self._sent_at + PROGRESS_FLOOR + PROGRESS_EACH * book.size
        return max(due, now + PROGRESS_FLOOR) if crowded else due

    def compose(self, book: Book, spec: FrameworkSpec, generation: int, now: datetime, stamp: datetime) -> WriteStatus:
        """Everything that is decided up to now, as one write.

        Args:
            book: what is decided.
            spec: what is wanted.
            generation: of that spec.
            now: the time.
            stamp: the same in whole seconds.
        """
        shown = book.show(spec)
        book.pressing, self._sent_at = False, now
        body = replace(
            book.known,
            attempt_status=replace(book.known.attempt_status, task_role_statuses=shown.roles),
            ready=f"{shown.ready}/{shown.total}",
            attempts=book.known.attempt_status.id + 1,
            observed_generation=generation,
        )
        before = (self.stored.conditions if self.stored is not None else ()) or ()
        body = replace(body, conditions=conditions(before, body, spec, generation, stamp))
        return WriteStatus(body, shown, book.revision, self._resource_version, self.stored)

    def settle(self, effect: WriteStatus, outcome: Done, book: Book) -> None:
        """It is written: whatever waited for it may go on."""
        self._resource_version = outcome.resource_version
        self.shown, self.stored = effect.shown, effect.status
        book.acknowledge(effect.revision)
