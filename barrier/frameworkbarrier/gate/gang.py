"""The gang as a value, whichever source it was read from: its roles, their Tasks, and who is missing. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from frameworkbarrier.shape import rows, table
from frameworkbarrier.text import is_dns_name, is_ip

GPU_SUFFIX = "/gpu"
"""Ends the name of each resource that is a GPU: nvidia.com/gpu, amd.com/gpu."""
GPU_DIGITS = 6
MISSING_SHOWN = 10
"""How many missing Tasks a gang names."""


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
    starts: int = 0
    """Of the Pod's barrier, in a gang that restarts in place: with the UID they tell instances apart."""


@dataclass(frozen=True, slots=True)
class Role:
    """One TaskRole with its Tasks by index."""

    name: str
    tasks: tuple[Task, ...]
    gpus: int = 0
    """GPUs that each Pod of the role asks for, as far as the source knows."""
    order: tuple[int, ...] = ()
    """The indices of the Tasks in the order of their ranks, where the source says another one than by index."""
    speaks: bool = False
    """Its applications say how far they are."""
    ended: frozenset[int] = frozenset()
    """The indices of the Tasks that have ended for good, where the source says so."""

    @property
    def by_rank(self) -> Sequence[int]:
        """The indices of all Tasks in the order of their ranks."""
        return self.order or range(len(self.tasks))


@dataclass(frozen=True, slots=True)
class Missing:
    """A Task that is not ready, named `{role}-{index}`, and why, as far as the source knows."""

    task: str
    why: str


@dataclass(frozen=True, slots=True)
class Gang:
    """All Tasks that must be ready. `roles` is empty unless `complete`."""

    namespace: str
    """All that is known of Pods without a Framework; the rest of their names is empty."""
    framework: str = ""
    uid: str = ""
    attempt_id: int = 0
    attempt_instance_uid: str = ""
    generation: int = 0
    """Grows whenever membership changes; 0 where the source has none."""
    ready: int = 0
    total: int = 0
    complete: bool = False
    waiting_for: tuple[Missing, ...] = ()
    roles: tuple[Role, ...] = ()
    readiness: str = "ip"
    """What made a Task ready: `ip` or `arrived`."""
    epoch: int | None = None
    """Of a gang that restarts in place."""
    why: str = ""
    """Why the epoch before has ended."""
    first: str = ""
    """The Task with rank 0, where the source says so."""
    may_end: bool = False
    """All Tasks that end together want to end."""
    behind: tuple[tuple[str, int, str, int], ...] = ()
    """Instances of an earlier epoch that still have to restart: role, index, `uid8`, starts."""


@lru_cache(maxsize=4096)  # a gang has thousands of Tasks on some hundred nodes
def is_place(node: str, host_ip: str) -> bool:
    """Report whether these are the name and the address of a node, as far as they are known: "" is not known yet."""
    return (not node or is_dns_name(node)) and (not host_ip or is_ip(host_ip))


def is_ready(*, uid: str, ip: str, leaving: bool, arrived: bool = False, wait_for: str = "ip") -> bool:
    """Report whether a Task is ready: its recorded Pod stays, has an IP address, and if asked for has arrived.

    The controller applies the same rule before it writes a roster. Source: docs/reference/barrier.md, section 1.
    """
    return bool(uid) and not leaving and is_ip(ip) and (arrived or wait_for != "arrived")


def answers(readiness: str, wait_for: str) -> bool:
    """Report whether a source that counts a Task as ready by `readiness` can answer a Pod that waits for `wait_for`."""
    return wait_for in {"ip", readiness}


def gpus_of(pod: Mapping[str, Any], where: str) -> int:
    """Return the GPUs that the containers of a Pod, or of a Pod template, ask for; `where` is its path.

    Raises:
        ShapeError: it is not a Pod; names the field.
    """
    where = f"{where}spec.containers"
    found = 0
    for container in rows(table(pod.get("spec"), "spec").get("containers"), where):
        limits = table(table(container.get("resources"), f"{where}.resources").get("limits"), f"{where}.limits")
        for name, number in limits.items():
            text = str(number)
            if name.endswith(GPU_SUFFIX) and text.isascii() and text.isdecimal() and len(text) <= GPU_DIGITS:
                found += int(text)
    return found


def assemble(
    gang: Gang,
    numbers: Iterable[tuple[str, int]],
    find: Callable[[str, int], Task | str],
    gpus: Mapping[str, int],
) -> Gang:
    """Fill a gang, of which only the names are known, Task by Task: for the sources that have no roster.

    `numbers` has the Tasks of each role, in the order of the spec; `find` returns the Task of a role and an index if it
    is ready, otherwise why it is not.
    """
    roles: list[Role] = []
    missing: list[Missing] = []
    total = 0
    for role, number in numbers:
        total += number
        tasks: list[Task] = []
        for index in range(number):
            found = find(role, index)
            if isinstance(found, Task):
                tasks.append(found)
            else:
                missing.append(Missing(f"{role}-{index}", found))
        roles.append(Role(role, tuple(tasks), gpus.get(role, 0)))
    complete = not missing and total > 0
    return replace(
        gang,
        ready=total - len(missing),
        total=total,
        complete=complete,
        waiting_for=tuple(missing[:MISSING_SHOWN]),
        roles=tuple(roles) if complete else (),
    )
