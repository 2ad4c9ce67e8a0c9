"""What a source reports, and the one decision about it: is the gate open for this Pod? Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from frameworkbarrier.gate.gang import Gang, Missing, Role, Task
from frameworkbarrier.settings import OwnTask


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
    lasting: bool = False
    """It will stay so: worth a line of its own."""


@dataclass(frozen=True, slots=True)
class Released(Observation):
    """The gate is open, for this gang. `role` and `task` are this Pod's own; None if its environment names no Task."""

    role: Role | None = None
    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The gate is closed: how many of how many are ready, and who is missing."""

    ready: int
    total: int
    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        """`7/10: worker-3 Pending: Unschedulable, worker-5, 1 more`: that is, one more than the source named."""
        named = [f"{each.task} {each.why}".strip() for each in self.missing]
        unnamed = self.total - self.ready - len(self.missing)
        if unnamed > 0:
            named.append(f"{unnamed} more" if named else f"{unnamed} Task{'s' if unnamed > 1 else ''}")
        return f"{self.ready}/{self.total}: {', '.join(named) or 'the gang to be complete'}"


class Gatekeeper:
    """Opens the gate only for a complete gang that lists this very Pod instance.

    A complete gang that does not list this Pod's own UID is older than this Pod. To wait for a newer one is what
    guarantees that no application container runs before the controller has persisted its Pod.
    Source: docs/reference/barrier.md, section 1.
    """

    def __init__(self, own_task: OwnTask) -> None:
        self._own_task = own_task
        self.listeners: list[Callable[[Gang, Released | Waiting], None]] = []
        """They hear of each gang that was seen, and what was decided about it."""

    def due_in(self) -> float | None:
        """Return the seconds until it decides otherwise about what it has seen last, None if it does not."""
        return None

    def decide(self, observation: Observation) -> Released | Waiting:
        """Decide about what the source has just seen, and let the listeners hear of it."""
        decision = self._judge(observation)
        for hear in self.listeners:
            hear(observation.gang, decision)
        return decision

    def _judge(self, observation: Observation) -> Released | Waiting:
        gang, own = observation.gang, self._own_task
        if not gang.complete:
            return Waiting(gang.ready, gang.total, gang.waiting_for)
        if own.role is None and own.uid is None:
            return Released(gang, observation.roster_text, observation.framework)
        for role in gang.roles:
            if own.role is not None and role.name != own.role:
                continue
            for task in role.tasks:
                if own.index is not None and task.index != own.index:
                    continue
                if own.role is None and own.pod is not None and task.pod != own.pod:
                    continue
                if own.uid is None or task.uid8 == own.uid[:8]:
                    return Released(gang, observation.roster_text, observation.framework, role, task)
        return self._wait_for_itself(gang, "is not recorded yet")

    def _wait_for_itself(self, gang: Gang, why: str) -> Waiting:
        """Say that a complete gang lacks this Pod."""
        name = "this Pod" if self._own_task.role is None else f"{self._own_task.role}-{self._own_task.index}"
        ready = min(gang.ready, gang.total - 1) if gang.total else 0
        return Waiting(ready, gang.total, (Missing(name, f"(this Pod) {why}"),))
