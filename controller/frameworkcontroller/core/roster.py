"""The gang roster: who is in the gang and where, in one small object that every barrier watches.

It speaks only of what the API server already shows in the Framework's status, so that a Task which its peers can see
has been recorded. Progress is written now and then, a complete gang at once, a change of a running gang after a short
pause in which further changes join it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from frameworkcontroller.api import names

from .effects import Shown, WriteRoster
from .ledger import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frameworkcontroller.api.types import Meta, TaskRoleStatus

VERSION: Final = 1
PROGRESS_EVERY: Final = timedelta(seconds=5)
COALESCE: Final = timedelta(seconds=1)
MISSING_SHOWN: Final = 10


@dataclass(frozen=True)
class Identity:
    """Which attempt of which Framework a roster is about."""

    namespace: str
    name: str
    uid: str
    attempt_id: int
    attempt_instance_uid: str | None

    def document(self) -> dict[str, Any]:
        """As it stands in the roster."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "attemptID": self.attempt_id,
            "attemptInstanceUID": self.attempt_instance_uid,
        }


class Published(msgspec.Struct, frozen=True):
    """What the last roster said, in short: an annotation of the ConfigMap, for the next controller."""

    generation: int = 0
    complete: bool = False
    digest: str = ""


@dataclass(frozen=True)
class Absentee:
    """A Task that the gang waits for, and why."""

    task: str
    why: str


class RosterKeeper:
    """Decides when which roster is to be written for one Framework attempt."""

    def __init__(self, config_map: Meta) -> None:
        # Go on where the last controller stopped, or from the empty roster that the ConfigMap was created with.
        try:
            annotation = config_map.annotations.get(names.ROSTER_ANNOTATION, "{}")
            self._published = msgspec.json.decode(annotation, type=Published)
        except msgspec.MsgspecError:
            self._published = Published()
        self._member_revision: int | None = None
        self._progress: tuple[object, ...] | None = None
        self._written: datetime | None = config_map.creation_timestamp

    @property
    def was_complete(self) -> bool:
        """Whether the last roster known was one of a complete gang."""
        return self._published.complete

    def decide(
        self, identity: Identity, config_map_uid: str, shown: Shown, absentees: Iterable[Absentee], now: datetime
    ) -> tuple[WriteRoster | None, datetime | None]:
        """The roster to write now, or when to ask again.

        Args:
            identity: the attempt.
            config_map_uid: of the attempt's ConfigMap.
            shown: the newest status that the API server shows.
            absentees: Tasks that are not ready, read only when progress is written.
            now: the time.
        """
        if not shown.complete:
            return self._decide_progress(identity, config_map_uid, shown, absentees, now)
        if self._published.complete and shown.member_revision == self._member_revision:
            return None, None
        rows = members(shown)
        digest = hashlib.sha256(msgspec.json.encode(rows)).hexdigest()[:16]
        if self._published.complete and digest == self._published.digest:
            self._member_revision = shown.member_revision
            return None, None
        if self._published.complete and self._written is not None and now < self._written + COALESCE:
            return None, self._written + COALESCE
        generation = self._published.generation + (digest != self._published.digest)
        published = Published(generation, complete=True, digest=digest)
        self._member_revision = shown.member_revision
        return self._write(identity, config_map_uid, published, shown, (), rows, now), None

    def _decide_progress(
        self, identity: Identity, config_map_uid: str, shown: Shown, absentees: Iterable[Absentee], now: datetime
    ) -> tuple[WriteRoster | None, datetime | None]:
        if self._written is not None and now < self._written + PROGRESS_EVERY:
            return None, self._written + PROGRESS_EVERY
        missing = tuple(absentee for absentee, _ in zip(absentees, range(MISSING_SHOWN), strict=False))
        progress = (shown.ready, shown.total, missing)
        if progress == self._progress:
            self._written = now
            return None, now + PROGRESS_EVERY
        self._progress = progress
        published = Published(self._published.generation, complete=False, digest=self._published.digest)
        return self._write(identity, config_map_uid, published, shown, missing, None, now), now + PROGRESS_EVERY

    def _write(
        self,
        identity: Identity,
        config_map_uid: str,
        published: Published,
        shown: Shown,
        missing: tuple[Absentee, ...],
        rows: list[dict[str, Any]] | None,
        now: datetime,
    ) -> WriteRoster:
        self._published, self._written = published, now
        return WriteRoster(
            config_map_uid,
            document(
                identity, published.generation, shown.ready, shown.total, missing, rows, by_arrival=shown.by_arrival
            ),
            msgspec.json.encode(published).decode(),
            complete=published.complete,
        )

    def forget(self) -> None:
        """The last write failed, perhaps: write again whatever it said, of the same generation for the same members."""
        self._member_revision = self._progress = self._written = None
        self._published = Published(self._published.generation, digest=self._published.digest)


def document(
    identity: Identity,
    generation: int,
    ready: int,
    total: int,
    missing: tuple[Absentee, ...] = (),
    rows: list[dict[str, Any]] | None = None,
    *,
    by_arrival: bool = False,
) -> bytes:
    """The roster as JSON; with ``rows`` it is complete. It says so if it counts who has arrived."""
    roster: dict[str, Any] = {
        "version": VERSION,
        "generation": generation,
        "framework": identity.document(),
        "ready": ready,
        "total": total,
        "complete": rows is not None,
        "waitingFor": [{"task": absentee.task, "why": absentee.why} for absentee in missing],
    }
    if by_arrival:
        roster["readiness"] = names.ARRIVED
    if rows is not None:
        roster["taskRoles"] = rows
    return msgspec.json.encode(roster)


def members(shown: Shown) -> list[dict[str, Any]]:
    """The complete gang, roles in the order of the spec."""
    roles: dict[str, TaskRoleStatus] = {role.name: role for role in shown.roles}
    return [
        {
            "name": name,
            "tasks": [
                [
                    task.index,
                    task.attempt_status.pod_ip,
                    (task.attempt_status.pod_uid or "")[:8],
                    task.attempt_status.id,
                    task.attempt_status.pod_node_name,
                    task.attempt_status.pod_host_ip,
                ]
                for task in roles[name].task_statuses
                if is_ready(task)
            ],
        }
        for name in shown.order
        if name in roles
    ]
