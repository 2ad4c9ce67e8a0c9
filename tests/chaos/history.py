"""The history of a run, from etcd: which Pods and statuses were stored in which order, and what must hold of it."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.states import ENDED
from frameworkcontroller.api.status import FrameworkStatus
from tests.chaos.etcd import EtcdWatch, StoredPod, stored_pod
from tests.chaos.journal import Journal
from tests.chaos.lives import Life
from tests.chaos.nodes import Nodes
from tests.controller.core import checks

TERMINAL = {"Succeeded", "Failed"}
COLLECTOR_RETURNS_SECONDS: Final = 30.0
"""The garbage collector watches again so long after it has lost the API server, with growing pauses. Until then it does
not know of new dependents, and lets an owner go that is deleted in the foreground."""


@dataclass(frozen=True)
class Over:
    """A stored status: which Tasks are over, as the names and UIDs of their last Pods, and why."""

    pods: tuple[tuple[str, str, str], ...]


class History:
    """Reads what is stored, in two threads: `follow_pods` and `follow_frameworks` are their steps.

    Frameworks that have no life are not looked at.

    Attributes:
        latest: The Frameworks that exist, as stored last.
        pods_of: The UIDs of all Pods that the status of a Task has named, by the instance UID of the Task.
        writes: How often a Framework was stored.
        pods: How many Pods of these Frameworks there were.
        problems: What must not have happened.
    """

    def __init__(self, etcd: str, namespace: str, lives: dict[str, Life], journal: Journal) -> None:
        self._lives, self._journal = lives, journal
        self._pod_watch = EtcdWatch(etcd, f"/registry/pods/{namespace}/")
        self._framework_watch = EtcdWatch(etcd, f"/registry/{names.GROUP}/frameworks/{namespace}/")
        self._changes: list[tuple[int, str, StoredPod | Over | None]] = []
        self._lock = threading.Lock()
        self.latest: dict[str, Framework] = {}
        self._status: dict[str, FrameworkStatus | None] = {}
        self.pods_of: dict[str, set[str]] = defaultdict(set)
        self.writes = self.pods = 0
        self.problems: list[str] = []

    def status(self, name: str) -> FrameworkStatus | None:
        return self._status.get(name)

    def follow_pods(self) -> None:
        """Read the changes of Pods for a while."""
        for change in self._pod_watch.changes():
            pod = None if change.value is None else stored_pod(change.value)
            with self._lock:
                self._changes.append((change.revision, change.name, pod))

    def follow_frameworks(self) -> None:
        """Read the changes of Frameworks for a while, and compare each status with the one before."""
        for change in self._framework_watch.changes():
            if change.name not in self._lives:
                continue
            before = self._status.pop(change.name, None)
            if change.value is None:
                self.latest.pop(change.name, None)
                if before is not None:
                    self._note(change.revision, change.name, before, deleted=True)
                continue
            self.writes += 1
            seen = FRAMEWORK_DECODER.decode(change.value)
            after = self._status[change.name] = seen.stored_status()
            self.latest[change.name] = seen
            if after is not None:
                try:
                    checks.history(before, after)
                except AssertionError as error:
                    when = f"revision {change.revision} at {self._journal.seconds:.1f}"
                    self.problems.append(f"{when}: Framework {change.name}: {error!r}")
                self._note(change.revision, change.name, after)

    def _note(self, revision: int, name: str, status: FrameworkStatus, *, deleted: bool = False) -> None:
        """Remember which Pods must not exist any more."""
        if deleted and self._journal.seconds_with_control_plane < COLLECTOR_RETURNS_SECONDS:
            return
        over = []
        for (role, index), task in checks.tasks_of(status).items():
            uid = task.attempt_status.pod_uid
            if uid is not None:
                self.pods_of[task.instance_uid].add(uid)
                if deleted or task.state in ENDED:
                    why = "its Framework is deleted" if deleted else f"its Task is {task.state}"
                    over.append((names.pod_name(name, role, index), uid, why))
        with self._lock:
            self._changes.append((revision, name, Over(tuple(over))))

    def check(self, nodes: Nodes) -> list[str]:
        """Return what contradicts the guarantees: a Pod that was removed while it ran, or that outlived its Task."""
        problems = [*self.problems]
        existing: dict[str, StoredPod] = {}
        seen = set[str]()
        with self._lock:
            changes = sorted(self._changes, key=lambda change: change[0])
        for revision, name, change in changes:
            match change:
                case Over():
                    for pod, uid, why in change.pods:
                        found = existing.get(pod)
                        if found is not None and found.uid == uid:
                            problems.append(f"revision {revision}: Pod {pod} ({uid}) exists although {why}")
                case StoredPod():
                    before = existing.get(name)
                    if before is not None and before.uid != change.uid:
                        problems.append(f"revision {revision}: Pod {name}: {change.uid} replaces {before.uid}")
                    existing[name] = change
                    seen.add(change.uid)
                case None:
                    gone = existing.pop(name, None)
                    if gone is not None and gone.node and gone.phase not in TERMINAL and gone.uid not in nodes.ended:
                        problems.append(f"revision {revision}: Pod {name} ({gone.uid}) was removed while it ran")
        self.pods = len(seen)
        return problems
