"""A gang that makes no progress, as the sidecar that leads it has found, and what follows. Pure.

The verdict is the last line of that sidecar, which ends with a code of its own; whoever hears of it again, from the
same Pod or another, knows by its epoch that it is counted. Source: docs/reference/progress.md, section 4.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.status import (
    MAX_HUNG_NODES,
    MAX_STACK,
    Culprit,
    FrameworkCompletion,
    FrameworkStatus,
    Hang,
    Hangs,
    HungNode,
)
from frameworkcontroller.core.policies.completion import predefined

EXIT_CODE: Final = 89
"""Of a sidecar whose gang hangs; as `frameworkbarrier.errors.HungError` has it."""
NODE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
T = TypeVar("T")
REPEATED: Final = "{hang}; it was the {number}. time without a step beyond {step}"


class Verdict(msgspec.Struct, frozen=True):
    """What the lead says. The bounds are those of what it writes, for what somebody else may."""

    epoch: Annotated[int, Meta(ge=0, lt=2**31)]
    silent: Annotated[int, Meta(ge=0, lt=2**31)]
    limit: Annotated[int, Meta(ge=0, lt=2**31)]
    why: Annotated[str, Meta(max_length=64)]
    culprits: Annotated[tuple[Culprit, ...], Meta(max_length=MAX_STACK)]
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    saved: bool = False
    """It has saved a checkpoint in this epoch: its steps are counted from its start."""


def verdict_of(pod: Pod, uid: str | None) -> Verdict | None:
    """Return the verdict that the sidecar of the Pod of this UID has left, None if there is none that can be read."""
    barrier = pod.status.barrier
    end = None if barrier is None or pod.metadata.uid != uid else barrier.ended_by((EXIT_CODE,))
    return None if end is None else decoded(end.message, Verdict)


def decoded(text: str | bytes, kind: type[T]) -> T | None:
    """Return what a stranger has written, None if it is something else."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def as_hang(verdict: Verdict, attempt: int, now: datetime) -> Hang:
    """Return the verdict as the status has it: of which attempt, and when it was heard."""
    return Hang(
        time=now,
        attempt=attempt,
        epoch=verdict.epoch,
        step=verdict.step,
        silent=verdict.silent,
        limit=verdict.limit,
        why=clean(verdict.why),
        culprits=tuple(
            Culprit(
                task=clean(one.task),
                node=one.node if NODE.fullmatch(one.node) else "",
                section=clean(one.section),
                stack=tuple(map(clean, one.stack)),
            )
            for one in verdict.culprits
        ),
    )


def clean(text: str) -> str:
    """Return the text of a stranger without what is not to be printed."""
    return "".join(one if one.isprintable() else " " for one in text)


def counted(
    before: Hangs | UnsetType, verdict: Verdict, attempt: int, now: datetime, used: Iterable[str] = ()
) -> Hangs | None:
    """Return what is known of the Framework's hangs with this one, None if that epoch, or a later one, is counted.

    Only nodes that are `used` by the gang are counted: whoever lies may name any. One of them at least is not avoided.
    """
    if before and (before.last.attempt, before.last.epoch) >= (attempt, verdict.epoch):
        return None
    found, in_use = as_hang(verdict, attempt, now), {*used}
    best, step = (before.best_step if before else -1), -1 if verdict.step is None else verdict.step
    in_a_row = 1 if step > best or verdict.saved or not before else before.in_a_row + 1
    nodes = {one.name: one.times for one in (before.nodes if before else ())}
    for node in sorted({one.node for one in found.culprits} & in_use - {""}):
        nodes[node] = nodes.pop(node, 0) + 1
    kept = tuple(HungNode(name, times) for name, times in nodes.items())[-MAX_HUNG_NODES:]
    avoided = list(before.avoided if before else ())
    for node in (one.name for one in kept if one.times > 1 and one.name not in avoided):
        if len(avoided) < MAX_STACK and not in_use <= {*avoided, node}:
            avoided.append(node)
    return Hangs(in_a_row=in_a_row, best_step=max(best, step), last=found, nodes=kept, avoided=tuple(avoided))


def of_epoch(status: FrameworkStatus, epoch: int) -> Hang | None:
    """Return the hang of this epoch of the current attempt, None if there was none."""
    last = status.hangs.last if status.hangs else None
    is_it = last is not None and (last.attempt, last.epoch) == (status.attempt_status.id, epoch)
    return last if is_it else None


def end_of(status: FrameworkStatus, limit: int) -> FrameworkCompletion | None:
    """Return the end of the attempt that follows, None if the gang may start again in its Pods, or does not hang.

    A gang that does not restart in place cannot go on without the culprit. One that hangs so often that another time
    would help as little ends for good; a `limit` of 0 is none.
    """
    hangs, attempt = status.hangs, status.attempt_status
    if not hangs or hangs.last.attempt != attempt.id:
        return None
    if 0 < limit <= hangs.in_a_row:
        text = REPEATED.format(hang=hangs.last.text, number=hangs.in_a_row, step=hangs.best_step)
        return predefined(Code.GANG_HUNG_REPEATEDLY, text)
    return predefined(Code.GANG_HUNG, hangs.last.text) if attempt.gang_epoch is UNSET else None


def hang_now(status: FrameworkStatus) -> Hang | None:
    """Return the hang that goes on, as the lead of the gang has said of this epoch."""
    attempt = status.attempt_status
    found = attempt.progress.hang if attempt.progress else None
    return found if found is not None and found.epoch == (attempt.gang_epoch or 0) else None


def progressing(status: FrameworkStatus) -> tuple[bool, str, str] | None:
    """Return value, reason and message of the condition GangProgressing, None where nothing is known of progress."""
    attempt, last = status.attempt_status, status.hangs.last if status.hangs else None
    if last is not None and last.attempt == attempt.id:
        # In its Pods it starts again with the next epoch, once its gate is open.
        is_closed = attempt.gang_epoch is not UNSET and not attempt.gang_released
        if last.epoch >= (attempt.gang_epoch or 0) - is_closed:
            return False, "GangHung", last.text
    if (hang := hang_now(status)) is not None:
        return False, "GangHung", hang.text
    return (True, "StepsGrow", "no hang is known") if attempt.progress or last is not None else None
