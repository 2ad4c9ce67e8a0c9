"""The gang as a value, and the one decision about it: is the gate open for this Pod?

Every source (roster, Framework, Pods) is translated into a `Gang`; nothing here knows where it came from.
"""

from dataclasses import dataclass


@dataclass(slots=True)  # not frozen: that takes five times as long to make, and a gang has thousands
class Task:
    """One ready Task: its place in the role and its current Pod."""

    index: int
    ip: str
    uid8: str
    """First eight characters of the Pod's UID; more is not needed to tell instances of one Task apart."""
    attempt_id: int
    node: str
    host_ip: str
    pod: str
    """Name of the Pod."""


@dataclass(frozen=True, slots=True)
class Role:
    """One TaskRole with its Tasks by index."""

    name: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """A Task that is waited for, named `{role}-{index}`, and why, as far as anyone knows."""

    task: str
    why: str


@dataclass(frozen=True, slots=True)
class Gang:
    """What one look at a source told. `roles` is empty unless `complete`."""

    namespace: str
    framework: str
    uid: str
    attempt_id: int
    attempt_instance_uid: str
    generation: int
    """Grows whenever membership changes; 0 where the source has none."""
    ready: int
    total: int
    complete: bool
    waiting_for: tuple[Missing, ...]
    roles: tuple[Role, ...]
    readiness: str = "ip"
    """What made a Task ready: `ip` or `arrived`."""


@dataclass(frozen=True, slots=True)
class Me:
    """Who this Pod is, as far as its environment says; an unknown part is None."""

    role: str | None
    index: int | None
    uid: str | None


@dataclass(frozen=True, slots=True)
class Open:
    """The gate is open. `role` and `task` are this Pod's own; None only if the Pod was never told who it is."""

    gang: Gang
    role: Role | None
    task: Task | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The gate is closed: how many of how many are ready, and who is missing."""

    ready: int
    total: int
    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        """`7/10: worker-3 Pending: Unschedulable, worker-5, worker-6`."""
        return f"{self.ready}/{self.total}: {name_missing(self)}"


def name_missing(waiting: Waiting) -> str:
    """Name who is missing, and how many more there are than the source named."""
    named = [f"{each.task} {each.why}".strip() for each in waiting.missing]
    unnamed = waiting.total - waiting.ready - len(waiting.missing)
    if unnamed > 0:
        named.append(f"{unnamed} more" if named else f"{unnamed} Task{'s' if unnamed > 1 else ''}")
    return ", ".join(named) or "the gang to be complete"


def decide(gang: Gang, me: Me) -> Open | Waiting:
    """Open only if the gang is complete and lists this very Pod instance.

    A complete gang that does not list this Pod's own UID is older than this Pod. Waiting for a younger one is
    what guarantees that no application container runs before the controller has persisted its Pod.
    """
    if not gang.complete:
        return Waiting(gang.ready, gang.total, gang.waiting_for)
    if me.role is None and me.uid is None:
        return Open(gang, None, None)
    for role in gang.roles:
        if me.role is not None and role.name != me.role:
            continue
        for task in role.tasks:
            if me.index is not None and task.index != me.index:
                continue
            if me.uid is None or task.uid8 == me.uid[:8]:
                return Open(gang, role, task)
    name = "this Pod" if me.role is None else f"{me.role}-{me.index}"
    ready = min(gang.ready, gang.total - 1) if gang.total else 0
    return Waiting(ready, gang.total, (Missing(name, "(this Pod) is not recorded yet"),))
