"""What the API server itself has said of objects that the caches do not show as expected.

A cache may be older than the status, and it does not show an object without the label by which it finds those of a
Framework. So an object that is missed is asked for (`FindPod`, `FindConfigMap`) before its Task or attempt ends for
that; and where a creation meets an object of the same name, that one is looked at: it is deleted if it is ours and
hidden, and waited for otherwise.
"""

from dataclasses import dataclass, field
from datetime import datetime

from frameworkcontroller.api.meta import Meta
from frameworkcontroller.core.effects import EffectKey
from frameworkcontroller.core.policies.role import TaskKey


@dataclass
class Sightings:
    """What is known of the objects of one Framework attempt."""

    gone: set[str] = field(default_factory=set)
    """The UIDs of Pods and ConfigMaps that do not exist any more."""
    not_retained: set[str] = field(default_factory=set)
    """The UIDs of Pods that were to stay and cannot."""
    in_use: dict[EffectKey, Meta | None] = field(default_factory=dict)
    """The names of what is to be created that are in use, by its key, with the object if it was seen."""
    kept: set[str] = field(default_factory=set)
    """The UIDs of Pods whose logs the archive keeps."""
    awaited: dict[str, tuple[TaskKey, datetime]] = field(default_factory=dict)
    """The Pods whose deletion waits for that: of which Task, and until when by the steady clock."""
    lost_at: datetime | None = None
    """When a Pod was last deleted that had waited for that in vain, by the steady clock."""

    def forget(self, uid: str | None) -> None:
        """Forget a Pod of an attempt that is over."""
        self.gone -= {uid}
        self.not_retained -= {uid}
        self.kept -= {uid}
