"""Orphans: Pods and ConfigMaps of this controller that no status names.

Either their creator died between the creation and the write of the status, or it is about to write. A live controller
writes within a moment, so an orphan is left alone for a grace period and then deleted to free its name. Without that,
two controllers that both believe to lead (no election can exclude that for ever) would delete each other's newest Pods
again and again.
"""

from datetime import datetime, timedelta
from typing import Final

from frameworkcontroller.api.meta import Meta
from frameworkcontroller.core.clock import after

# Far more than a creation and a status write take; less than a new leader needs to replace one that has died.
GRACE: Final = timedelta(seconds=5)


def is_unlabelled(meta: Meta) -> bool:
    """Report whether somebody has removed the label by which the caches find the objects of a Framework."""
    return meta.labels.framework is None


def is_hidden_pod(meta: Meta) -> bool:
    """Report whether the caches do not show a Pod, because of its labels."""
    return is_unlabelled(meta) or meta.labels.retained is not None


def grace_deadline(meta: Meta, now: datetime) -> datetime | None:
    """Return the end of the orphan's grace period, None if it is over.

    The two times are of two clocks: if they are further apart than the grace period, the orphan counts as old.
    """
    created = meta.creation_timestamp
    return after(created, GRACE) if created is not None and abs(now - created) < GRACE else None


def may_yet_be_named(meta: Meta, written: datetime, now: datetime) -> bool:
    """Report whether a status that names the orphan may still arrive, so that a write of our own must come first.

    A leader that was replaced may have sent its write before it knew. The write is refused once the status has changed
    since the orphan was created; before that, it would name what we delete, and the attempt would have lost it. The
    latest change of the status that is known (`written`) and `now` are in our time. If `now` is behind the creation, no
    write of ours can be later than that.
    """
    created = meta.creation_timestamp
    if created is None or grace_deadline(meta, now) is not None:
        return False
    return written <= created <= now
