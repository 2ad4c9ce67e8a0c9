"""What its queue means for a Framework at this moment."""

from typing import Final

from msgspec import Struct

WAITING: Final = "WaitingForAdmission"
UNKNOWN: Final = "QueueUnknown"
"""Kueue's definitions, or permissions on them, are missing, or its objects are not read yet."""
NO_QUEUE: Final = "NoQueue"
REFUSED: Final = "WorkloadRefused"
CONFLICT: Final = "AdmissionConflict"
DISABLED: Final = "QueueingDisabled"
REASONS: Final = frozenset({WAITING, UNKNOWN, NO_QUEUE, REFUSED, CONFLICT, DISABLED})


class Verdict(Struct, frozen=True):
    """Whether an attempt may begin, must end, and what its Pods get."""

    hold: tuple[str, str] | None = None
    """Why no attempt may begin, as reason and text, None if one may."""
    eviction: str = ""
    """Why the attempt must end, "" if it may go on."""
    additions: dict[str, bytes] = {}
    """What is added to the Pods of each role."""
    holds_pods: bool = False
    """What is to be added to Pods is not known yet."""
    trouble: str = ""
    """Why it is not, if somebody has to do something about it."""


FREE: Final = Verdict()
"""No queue is concerned."""
