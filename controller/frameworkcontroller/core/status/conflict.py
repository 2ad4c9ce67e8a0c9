"""Why a write of the status conflicted: pure, so that a table can test it.

`Performer` writes the status, reads the Framework after a conflict, and asks how to go on. Sending a write again is
safe, since its resourceVersion lets only one attempt take effect
(docs/decisions/status-writes.md#a-status-write-replaces-the-status-with-the-resourceversion-it-builds-on).
"""

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.stored_roles import is_same
from frameworkcontroller.core.effects import Done, Missing, Outcome, StaleStatus, WriteStatus


def resolve_conflict(effect: WriteStatus, uid: str, live: Framework) -> Outcome | str:
    """Return the outcome of a write that conflicted, or the resourceVersion upon which to send it again at once.

    It took effect earlier, another writer was faster, or only the rest of the object has changed. `live` is the
    Framework as it is now, and the instance of `uid` is meant.

    Raises:
        msgspec.DecodeError, UnreadableStatusError: `live` cannot be read.
    """
    if live.metadata.uid != uid:
        return Missing()
    status, version = live.stored_status(), live.metadata.resource_version
    if is_same(status, effect.previous, effect.previous_roles):
        return version
    if is_same(status, effect.status):
        return Done(resource_version=version)
    return StaleStatus()
