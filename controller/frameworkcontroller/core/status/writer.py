"""When the status is written and what it contains, and what of it is persisted.

The reconciler asks `due` and `compose` at the end of each pass, and hands every successful write to `apply_outcome`.
One write is in flight at a time. `conflict` says why one conflicted.
"""

from dataclasses import replace as replace_fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import order_of
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.stored_roles import is_same, roles_digest
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Done, Failed, Refused, RolesSummary, WriteStatus
from frameworkcontroller.core.policies.completion import decides_soon
from frameworkcontroller.core.policies.dependencies import begins_soon, waiting_roles
from frameworkcontroller.core.restart import hang
from frameworkcontroller.core.status import gang_ready, ledger
from frameworkcontroller.core.status.conditions import GANG_SCHEDULED, conditions
from frameworkcontroller.core.status.state import FrameworkState, Urgency
from frameworkcontroller.core.status.summary import is_complete, summarize

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkStatus

# The least time between two writes of a status, and an addition for each Task: URGENT if something waits for the write,
# PROGRESS if the write only reports. So many small Frameworks cost the API server no more than one large one.
URGENT_FLOOR: Final = timedelta(milliseconds=20)
URGENT_EACH: Final = timedelta(microseconds=100)
PROGRESS_FLOOR: Final = timedelta(milliseconds=500)
PROGRESS_EACH: Final = timedelta(microseconds=500)
# So long after the first Task has ended the others are waited for, which often end together.
ENDING_FLOOR: Final = timedelta(seconds=1)
# While there are many writes, those that can be put off leave their turn to the others, but no longer than this.
LONGEST_WAIT: Final = timedelta(seconds=15)
NO_WAIT: Final = timedelta()
# A Framework whose Tasks end and are retried all the time has so many writes at once, and then one in each interval: a
# longer one if it is large, since its writes cost the API server more.
BURST: Final = 30
INTERVAL: Final = timedelta(milliseconds=300)
INTERVAL_EACH: Final = timedelta(microseconds=1500)
LONGEST_INTERVAL: Final = timedelta(seconds=1)
# Refusals of what a status says: it is too large, or a policy or the definition does not take it.
OF_CONTENT: Final = frozenset({413, 422})


class StatusWriter:
    """The status that the API server has, if any, with what was counted of its roles; and the next one."""

    def __init__(self, seen: Framework) -> None:
        self.persisted: FrameworkStatus | None = seen.stored_status()
        self.persisted_summary: RolesSummary | None = None
        self._resource_version = seen.metadata.resource_version
        self._sent_at: datetime | None = None
        self.paid_until: datetime | None = None
        """Until when the writes of this Framework have used up what it may write, None if it has written none."""
        self._ending_since: datetime | None = None
        self._unanswered: WriteStatus | None = None
        self._roles_digest = None if self.persisted is None else roles_digest(self.persisted)

    @property
    def generation(self) -> int:
        """The generation of the spec that the persisted status speaks of, 0 if it is unknown."""
        known = self.persisted.observed_generation if self.persisted is not None else None
        return known if isinstance(known, int) else 0

    def is_stale(self, seen: Framework) -> bool:
        """Report whether another writer has changed the status since; valid only while no write is in flight."""
        version = seen.metadata.resource_version
        if (order_of(version, self._resource_version) or 0) <= 0:
            return False
        status = seen.stored_status()
        if not is_same(status, self.persisted, self._roles_digest):
            # Asked second: it may unpack all roles, and the persisted status is known by its digest.
            if self._unanswered is None or not is_same(status, self._unanswered.status):
                return True
            self.persisted, self._unanswered = self._unanswered.status, None
        self._resource_version = version
        self._roles_digest = None if status is None else roles_digest(status)
        return False

    def is_up_to_date(self, seen: Framework) -> bool:
        """Report whether this is the Framework as the last write has left it."""
        return seen.metadata.resource_version == self._resource_version

    def go_on_from(self, before: str, version: str) -> None:
        """Build on this version: this program has changed the rest of the object."""
        if before == self._resource_version:
            self._resource_version = version or before

    def due(
        self, state: FrameworkState, spec: FrameworkSpec, now: datetime, *, backpressure: timedelta = NO_WAIT
    ) -> datetime | None:
        """Return when the next write is allowed, None if at once: with time between them, each write contains more."""
        due = self._due(state, spec, now, backpressure=backpressure)
        earliest = None if self.paid_until is None else self.paid_until - BURST * _interval(state.size)
        return due if earliest is None or earliest <= now else max(due or now, earliest)

    def _due(
        self, state: FrameworkState, spec: FrameworkSpec, now: datetime, *, backpressure: timedelta
    ) -> datetime | None:
        """Return when something follows from the next write, or it says enough.

        A gang that has become complete is written at once: its Pods wait until that is persisted. What only reports,
        and ends of Tasks from which nothing follows, are put off while there are many writes (backpressure).
        """
        was_complete = self.persisted_summary is not None and self.persisted_summary.complete
        if self._sent_at is None or (is_complete(state, spec) and not was_complete):
            return None
        if state.urgency is Urgency.URGENT or (state.urgency is Urgency.ENDING and _something_follows(state, spec)):
            return self._sent_at + URGENT_FLOOR + URGENT_EACH * state.size
        if state.urgency is Urgency.ENDING:
            self._ending_since = self._ending_since or now
            least = max(ENDING_FLOOR, URGENT_EACH * state.size)
            return self._ending_since + max(least, min(backpressure, LONGEST_WAIT))
        least = PROGRESS_FLOOR + PROGRESS_EACH * state.size
        return self._sent_at + max(least, min(backpressure, LONGEST_WAIT))

    def compose(
        self, state: FrameworkState, spec: FrameworkSpec, generation: int, now: Now, rest_bytes: int = 0
    ) -> WriteStatus:
        """Return a write of everything that is decided up to now, or once more one whose answer was lost.

        The Framework without its status has so many bytes (`rest_bytes`).
        """
        self._sent_at, self._ending_since = now.steady, None
        if self._unanswered is not None:
            # Of two that may have taken effect, and differ, one would be taken for that of another writer.
            return replace_fields(
                self._unanswered,
                resource_version=self._resource_version,
                previous_roles=self._roles_digest,
                rest_bytes=rest_bytes,
            )
        summary = summarize(state, spec)
        state.urgency = Urgency.REPORT
        attempt = state.status.attempt_status
        body = replace(
            state.status,
            attempt_status=replace(attempt, task_role_statuses=() if state.too_large else summary.roles),
            ready="/".join(str(number) for number in summary.tasks),
            attempts=attempt.id + 1,
            observed_generation=generation,
            ledger=ledger.stored(state.ledger, complete=summary.complete),
        )
        before = (self.persisted.conditions if self.persisted is not None else ()) or ()
        gang = gang_ready.condition(state.gang_report, summary)
        groups, progress = state.group_report, hang.progressing(state.status)
        found = conditions(
            before,
            body,
            spec,
            generation,
            now.stamp,
            complete=summary.complete and not summary.waiting,
            waiting=list(waiting_roles(spec, state.roles)),
            more=(gang, groups and (GANG_SCHEDULED, *groups), progress and ("GangProgressing", *progress)),
            too_large=state.too_large,
            held_back=state.held_back or state.queueing.hold,
            crash_loop=state.crash_loops.describe(),
        )
        return WriteStatus(
            replace(body, conditions=found),
            summary,
            state.revisions.now,
            self._resource_version,
            self.persisted,
            previous_roles=self._roles_digest,
            rest_bytes=rest_bytes,
            text_bytes=state.text_bytes,
        )

    def apply_outcome(self, effect: WriteStatus, outcome: Done, state: FrameworkState) -> None:
        """Take in a successful write: its revisions are persisted."""
        self._unanswered = None
        if self._sent_at is not None:
            cost = (1 + outcome.conflicts) * _interval(state.size)
            self.paid_until = max(self.paid_until or self._sent_at, self._sent_at) + cost
        self._resource_version, self._roles_digest = outcome.resource_version, outcome.roles
        self.persisted_summary, self.persisted = effect.summary, effect.status
        state.mark_persisted(effect.revision)

    def apply_failure(self, effect: WriteStatus, outcome: Failed | Refused) -> None:
        """Take in a write that has failed: it may have taken effect, unless the outcome says that it did not.

        One whose content is refused is not repeated, though an earlier try of it may have taken effect.
        """
        if isinstance(outcome, Failed) and not outcome.nothing_happened:
            self._unanswered = effect
        elif isinstance(outcome, Refused) and outcome.code in OF_CONTENT:
            self._unanswered = None


def _interval(size: int) -> timedelta:
    """Return how long a write of a status of so many Tasks counts."""
    return min(max(INTERVAL, INTERVAL_EACH * size), LONGEST_INTERVAL)


def _something_follows(state: FrameworkState, spec: FrameworkSpec) -> bool:
    """Report whether the Tasks that have ended complete the attempt, or let a role begin, or no other can end."""
    return not state.brings_more or decides_soon(spec, state.roles) or begins_soon(spec, state.roles)
