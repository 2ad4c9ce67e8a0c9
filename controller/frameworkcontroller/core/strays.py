"""Objects of ours that no status records: whose maker died between the creation and its record, or is about to record.

A maker that lives records what it made within a moment. So a stray is left alone for a while; after that nobody will
record it any more, and it is deleted to make room. Without this, two controllers that both believe to be alone (no
election can rule that out for ever) would go on deleting each other's newest Pods.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frameworkcontroller.api.types import Meta

# Far more than a creation and a write of the status take; less than it takes to follow a controller that has died.
GRACE: Final = timedelta(seconds=5)


def young_until(meta: Meta, now: datetime) -> datetime | None:
    """Until when its maker may be about to record the object; None if nobody will.

    The times are of two clocks: where they are further apart than the grace, the object counts as old.
    """
    born = meta.creation_timestamp
    return born + GRACE if born is not None and abs(now - born) < GRACE else None
