"""Whether a gang hangs, by what its Pods answer, and who keeps the others waiting. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

STACK_LINES = 2
"""Of a stack that are shown."""
SPREAD_SEC = 2.0
"""The clocks of sidecars look once a second: less tells nobody apart."""
COMMUNICATES = re.compile(
    r"/torch/(?:distributed/|autograd/|nn/parallel/)|/(?:jax|horovod|mpi4py|deepspeed/comm)/"
    r"|in (?:barrier|all_?reduce|all_?gather|broadcast|sync\w*)$"
)
"""In a line of a stack: the thread waits for its peers. A backward pass of DDP is communication."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How far one Pod is: as far as its slowest process. Times are in seconds."""

    step: int | None
    fastest: int | None
    silent: float
    """Since the process that moved last has moved."""
    limit: float
    """Which silence is too long for it now."""
    lived: float
    """Since the last sign of life of the slowest process, whose are the others, too."""
    section: str = ""
    stack: tuple[str, ...] = ()
    """Where its thread is, the innermost line first; () if nobody knows."""
    checkpoint: int | None = None
    saved_ago: float | None = None
    """Seconds since then."""
    processes: int = 1
    saved: bool = False
    """It counts its steps from its start, and has saved a checkpoint since."""

    @property
    def waits(self) -> bool | None:
        """Whether it waits for its peers, None if nobody knows."""
        if self.stack:
            return any(map(COMMUNICATES.search, self.stack))
        return None if not self.section else "reduce" in self.section or "gather" in self.section


@dataclass(frozen=True, slots=True)
class Hang:
    """The gang makes no progress."""

    step: int | None
    """Of the slowest Pod."""
    silent: float
    limit: float
    culprits: tuple[str, ...]
    """The Tasks that keep the others waiting; () if they are not known."""
    why: str
    """They are the culprits."""
    saved: bool = False
    """It has come further than it was, as a checkpoint shows, whatever its steps are counted from."""


def judge(answers: Mapping[str, Answer], lost: Sequence[str], others: int = 0, least: float = 0.0) -> Hang | None:
    """Decide about a gang by the answers of its Tasks.

    The sidecars of those that are `lost` have stopped answering, and of so many `others` nothing is known. It hangs
    once the Pod that moved last has been silent for longer than the longest limit, and for `least` seconds.
    """
    if not answers:
        return None
    silent = min(one.silent for one in answers.values())
    limit = max(least, *(one.limit for one in answers.values()))
    if silent <= limit:
        return None
    steps = [one.step for one in answers.values() if one.step is not None]
    culprits, why = _culprits(answers, lost, others)
    saved = any(one.saved for one in answers.values())
    return Hang(min(steps, default=None), silent, limit, tuple(culprits), why, saved)


def _culprits(answers: Mapping[str, Answer], lost: Sequence[str], others: int) -> tuple[Sequence[str], str]:
    """Name those that differ from the others, only where they are few, by the surest difference."""
    total = len(answers) + len(lost)
    if total == 1 and not others:
        return [*answers], "is alone"
    if len(answers) == 1 < len(lost) + others:
        return (), "not known"  # a lead that hears nobody may be who is cut off
    most = max(total / 2, 2)
    rules: tuple[tuple[str, Callable[[], Sequence[str]]], ...] = (
        ("its sidecar does not answer", lambda: lost),
        ("is behind the others", lambda: _behind(answers)),
        ("the others wait for it", lambda: _elsewhere(answers)),
        ("was the first to be silent", lambda: _first_silent(answers)),
    )
    for why, find in rules:
        found = find()
        if 0 < len(found) < most:
            return found, why
    return (), "not known"


def _behind(answers: Mapping[str, Answer]) -> list[str]:
    """Name those behind others of their TaskRole: another one, such as that of an evaluator, counts something else."""
    steps = {task: one.step for task, one in answers.items() if one.step is not None}
    furthest: dict[str, int] = {}
    for task, step in steps.items():
        role = task.rpartition("-")[0]
        furthest[role] = max(step, furthest.get(role, 0))
    return [task for task, step in steps.items() if step < furthest[task.rpartition("-")[0]]]


def _elsewhere(answers: Mapping[str, Answer]) -> list[str]:
    """Name those that do not wait for their peers while the others do: who shows no stack may be stopped."""
    return [task for task, one in answers.items() if not one.waits] if any(a.waits for a in answers.values()) else []


def _first_silent(answers: Mapping[str, Answer]) -> list[str]:
    ages = sorted(((one.lived, task) for task, one in answers.items()), reverse=True)
    if len(ages) < 3:
        return []
    (oldest, task), (second, _), *_ = ages
    return [task] if oldest - second > max(second - ages[-1][0], SPREAD_SEC) else []
