"""Large Frameworks that begin, or only tell what they have seen: of a namespace, few are worked on at a time.

Each takes up to 27 MiB until it has a status. Those that are Completed, or not to start, take nothing after it, unless
somebody edits them for ever.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.spec import SPEC_DECODER, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.core.machines.framework import is_held, only_tells
from frameworkcontroller.core.policies.role import wanted_by
from frameworkcontroller.core.policies.shares import LOOKS_A_SECOND, IdleTasks
from frameworkcontroller.engine.actions import LARGE_STATUS_TASKS, Work
from frameworkcontroller.engine.cache.caches import FrameworkKey
from frameworkcontroller.engine.cache.outline import stored_state

PLACES: Final = 6
"""Of a namespace."""
LOOK_SECONDS: Final = 0.2
LONGEST_LOOK_SECONDS: Final = 30.0


class LargeFrameworks:
    """The large Frameworks that are worked on, and those that wait for a place.

    Args:
        idle_of: the Tasks of a namespace that have no Pod.
    """

    def __init__(self, idle_of: Callable[[str], IdleTasks]) -> None:
        self._idle_of = idle_of
        # All large ones of a namespace. A work that is gone is there for as long as an effect of it waits for its turn:
        # so long it takes memory.
        self._works: defaultdict[str, WeakSet[Work]] = defaultdict(WeakSet)
        self._waiting: defaultdict[str, set[FrameworkKey]] = defaultdict(set)

    def wait_seconds(self, key: FrameworkKey, found: Framework, config_map: Partial | None) -> float:
        """Return in how many seconds the Framework should look for a place again, 0 if it may begin.

        Where the namespace is full, those wait that would bring Tasks along.
        """
        works, waiting = self._works[key[0]], self._waiting[key[0]]
        idle = self._idle_of(key[0])
        brought = _brought(found, config_map) if idle.is_full else 0
        if brought and brought > idle.room("", brought):
            waiting.add(key)
            # That others get Pods takes long, and each look may be a request.
            return max(LONGEST_LOOK_SECONDS, len(waiting) / LOOKS_A_SECOND)
        begin = sum(not work.settled for work in works)
        tell = sum(work.settled and work.reconciler.only_tells for work in works)
        may_begin = begin + tell < PLACES
        if not may_begin and (begin < PLACES or key not in waiting):
            # Of those that wait no spec is kept.
            spec = SPEC_DECODER.decode(found.raw_spec)
            # Those that cannot rest, for want of a permission for example, keep nobody from starting.
            starts = begin < PLACES and not only_tells(stored_state(found), spec)
            may_begin = starts or (key not in waiting and not _is_large(spec))
        if may_begin:
            self.forget(key)
            return 0.0
        waiting.add(key)
        # All of them together look for a place thirty times a second, unless there are a thousand.
        return min(LOOK_SECONDS * max(1.0, len(waiting) / PLACES), LONGEST_LOOK_SECONDS)

    def add(self, work: Work) -> None:
        """Note that a Framework is worked on, which may have grown."""
        if _is_large(work.reconciler.spec.spec or work.reconciler.spec.seen.spec):
            self._works[work.key[0]].add(work)

    def forget(self, key: FrameworkKey) -> None:
        """Note that a Framework waits for no place any more."""
        namespace = key[0]
        self._waiting[namespace].discard(key)
        for found in (self._waiting, self._works):
            if not found[namespace]:
                del found[namespace]


def _brought(found: Framework, config_map: Partial | None) -> int:
    """Return how many Tasks come along in its status that have no Pods yet: none if it will be at rest at once."""
    if stored_state(found) != State.CREATION_PENDING:
        return 0
    spec = SPEC_DECODER.decode(found.raw_spec)
    rests = spec.execution_type == "Stop" or (spec.is_to_wait and found.metadata.deletion_timestamp is None)
    return 0 if rests and not is_held(config_map, found.metadata.uid) else wanted_by(spec)


def _is_large(spec: FrameworkSpec) -> bool:
    return max(spec.tasks, len(spec.task_roles or ())) > LARGE_STATUS_TASKS
