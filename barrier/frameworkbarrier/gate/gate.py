"""What a source reports, and the one decision about it: is the gate open for this Pod? Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.gate.gang import Gang, Missing, Role, Task
from frameworkbarrier.settings import Identity


@dataclass(frozen=True, slots=True)
class Observation:
    """The gang as a source has just read it, and the documents that go to the application as they were read."""

    gang: Gang
    roster_text: str
    framework: Mapping[str, Any] | None = None
    """The Framework object, decompressed, where the source read it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What keeps a source from observing; the source tries again. The text is for a person."""

    text: str
    forbidden: bool = False
    """The API server answered 403."""
    lasting: bool = False
    """It will stay so: worth a line of its own."""


@dataclass(frozen=True, slots=True)
class Released:
    """The gate is open, for this gang. `role` and `task` are this Pod's own; None if its environment names no Task."""

    gang: Gang
    role: Role | None
    task: Task | None
    roster_text: str
    framework: Mapping[str, Any] | None = None
    """The Framework object, where the source read it."""


@dataclass(frozen=True, slots=True)
class Behind:
    """This Pod is of an epoch that has ended, so that the gate never opens for it: it has to start again."""

    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The gate is closed: how many of how many are ready, and who is missing."""

    ready: int
    total: int
    missing: tuple[Missing, ...]
    listed: int | None = None
    """The start with which a complete gang lists this Pod, if that is another one."""

    def __str__(self) -> str:
        """`7/10: worker-3 Pending: Unschedulable, worker-5, worker-6`."""
        return f"{self.ready}/{self.total}: {self._name_missing()}"

    def _name_missing(self) -> str:
        """Name who is missing, and how many more there are than the source named."""
        named = [f"{each.task} {each.why}".strip() for each in self.missing]
        unnamed = self.total - self.ready - len(self.missing)
        if unnamed > 0:
            named.append(f"{unnamed} more" if named else f"{unnamed} Task{'s' if unnamed > 1 else ''}")
        return ", ".join(named) or "the gang to be complete"


def decide(observation: Observation, identity: Identity, start: int | None = None) -> Released | Waiting | Behind:
    """Open the gate only for a complete gang that lists this very Pod instance.

    A complete gang that does not list this Pod's own UID is older than this Pod. To wait for a newer one is what
    guarantees that no application container runs before the controller has persisted its Pod. In a gang that restarts
    in place the same holds for each start of the barrier.
    Source: docs/reference/barrier.md, section 1; docs/reference/restart.md, section 4.

    Args:
        observation: the gang as it was read.
        identity: who this Pod is.
        start: of this barrier in its Pod, counted from 1; None if the gang does not restart in place.

    Raises:
        SettingsError: this Pod is to restart in place, and the gang is not.
    """
    gang = observation.gang
    if not gang.complete:
        own = (identity.role, identity.index, (identity.uid or "")[:8], start)
        if start is not None and gang.epoch is not None and own in gang.behind:
            return Behind(gang.epoch, gang.why)
        return Waiting(gang.ready, gang.total, gang.waiting_for)
    if identity.role is None and identity.uid is None:
        return Released(gang, None, None, observation.roster_text, observation.framework)
    for role in gang.roles:
        if identity.role is not None and role.name != identity.role:
            continue
        for task in role.tasks:
            if identity.index is not None and task.index != identity.index:
                continue
            if identity.uid is not None and task.uid8 != identity.uid[:8]:
                continue
            if start is not None and gang.epoch is None:
                raise SettingsError(
                    "FB_RESTART=in-place: the gang has no epoch, so nobody restarts it: use a controller of this "
                    "version, or remove the annotation restart, whose change takes effect with the next attempt"
                )
            if start is not None and task.starts != start:
                return _not_listed(gang, identity, f"is listed with start {task.starts}, this is {start}", task.starts)
            return Released(gang, role, task, observation.roster_text, observation.framework)
    return _not_listed(gang, identity, "is not recorded yet")


def _not_listed(gang: Gang, identity: Identity, why: str, listed: int | None = None) -> Waiting:
    name = "this Pod" if identity.role is None else f"{identity.role}-{identity.index}"
    ready = min(gang.ready, gang.total - 1) if gang.total else 0
    return Waiting(ready, gang.total, (Missing(name, f"(this Pod) {why}"),), listed)
