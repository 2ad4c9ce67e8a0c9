"""What its queue, and its groups at the scheduler, mean for a Framework at this moment."""

from typing import Final

from msgspec import Struct

WAITING: Final = "WaitingForAdmission"
UNKNOWN: Final = "QueueUnknown"
"""Kueue's definitions, or permissions on them, are missing, or its objects are not read yet."""
NO_QUEUE: Final = "NoQueue"
REFUSED: Final = "WorkloadRefused"
CONFLICT: Final = "AdmissionConflict"
DISABLED: Final = "QueueingDisabled"
GROUPS_UNKNOWN: Final = "GroupsUnknown"
"""The scheduler's groups of Pods are not served, or this controller does not know them."""
MAX_MESSAGE: Final = 1024
"""Characters of what others say that are kept, written or told."""
REASONS: Final = frozenset({WAITING, UNKNOWN, NO_QUEUE, REFUSED, CONFLICT, DISABLED, GROUPS_UNKNOWN})


class Verdict(Struct, frozen=True):
    """Whether an attempt may begin, must end, and what its Pods get."""

    hold: tuple[str, str] | None = None
    """Why no attempt may begin, as reason and text, None if one may."""
    eviction: str = ""
    """Why the attempt must end, as its diagnostics say it, "" if it may go on."""
    additions: dict[str, bytes] = {}
    """What is added to the Pods of each role."""
    holds_pods: bool = False
    """What is to be added to Pods is not known, or not there, yet."""
    trouble: str = ""
    """Why it is not, if somebody has to do something about it."""


FREE: Final = Verdict()
"""Nobody else is concerned."""
