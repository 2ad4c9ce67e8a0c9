"""The state machine of a Framework attempt (about its ConfigMap) and of a Task attempt (about its Pod)."""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """FrameworkState and TaskState, by their wire names."""

    CREATION_PENDING = "AttemptCreationPending"
    CREATION_REQUESTED = "AttemptCreationRequested"
    PREPARING = "AttemptPreparing"
    RUNNING = "AttemptRunning"
    DELETION_PENDING = "AttemptDeletionPending"
    DELETION_REQUESTED = "AttemptDeletionRequested"
    DELETING = "AttemptDeleting"
    ATTEMPT_COMPLETED = "AttemptCompleted"
    COMPLETED = "Completed"


# The deletion of the object was requested, by whomever: nothing follows but its end.
GOING: Final = frozenset({State.DELETION_REQUESTED, State.DELETING})
# The end of the attempt is decided, and its object is not gone yet.
COMPLETING: Final = GOING | {State.DELETION_PENDING}
# The object was created and is not seen to be gone: the status holds its UID.
ASSOCIATED: Final = COMPLETING | {State.CREATION_REQUESTED, State.PREPARING, State.RUNNING}
# The object is gone for good.
ENDED: Final = frozenset({State.ATTEMPT_COMPLETED, State.COMPLETED})


class LedgerState(StrEnum):
    """What the time of a Framework is spent on; it is in one of these at a time (docs/ledger.md)."""

    QUEUED = "queued"
    """Suspended, held back, waiting for admission, or `executionType: Create`."""
    WAITING = "waiting"
    """Its TaskRoles wait for others, and nothing else goes on."""
    SCHEDULING = "scheduling"
    """A Pod is not created, or has no node."""
    STARTING = "starting"
    """All have nodes; one pulls its image, or runs its init containers."""
    GATE = "gate"
    """The Pods of all are there, and the gate is closed."""
    RUNNING = "running"
    HUNG = "hung"
    """It runs and makes no progress: from the last one until that epoch, or the attempt, ends."""
    RESTARTING = "restarting"
    """A gang that restarts in place: from the end of an epoch until its gate is open."""
    ENDING = "ending"
    """From the end of an attempt until its last Pod is gone."""
    BACKOFF = "backoff"
    """An attempt or a Task waits for its retry."""


NEXT: Final[dict[State, frozenset[State]]] = {
    State.CREATION_PENDING: frozenset({State.CREATION_REQUESTED, State.ATTEMPT_COMPLETED}),
    State.CREATION_REQUESTED: frozenset({State.PREPARING, State.DELETING, State.ATTEMPT_COMPLETED}),
    State.PREPARING: frozenset({State.RUNNING, State.DELETION_PENDING, State.DELETING, State.ATTEMPT_COMPLETED}),
    State.RUNNING: frozenset({State.DELETION_PENDING, State.DELETING, State.ATTEMPT_COMPLETED}),
    State.DELETION_PENDING: frozenset({State.DELETION_REQUESTED, State.DELETING, State.ATTEMPT_COMPLETED}),
    State.DELETION_REQUESTED: frozenset({State.DELETING, State.ATTEMPT_COMPLETED}),
    State.DELETING: frozenset({State.ATTEMPT_COMPLETED}),
    State.ATTEMPT_COMPLETED: frozenset({State.CREATION_PENDING, State.COMPLETED}),
    State.COMPLETED: frozenset(),
}
"""Every legal change of state; any other is a defect of this program."""
