"""What a state of a Framework adds to what is known of it: pure.

Attempts, runs and epochs are numbered, so that those which nobody saw are known by their numbers: each has a row that
says so, as its `gap`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from heapq import nsmallest
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from frameworkclient.views.events import EventView
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import ENDED, State
from frameworkcontroller.api.status import (
    FrameworkAttemptStatus,
    FrameworkCompletion,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskCompletion,
    TaskRoleStatus,
    TaskStatus,
    cut,
)
from frameworkcontroller.api.stored_roles import UnreadableStatusError, roles_of
from frameworkhistory.archive.changes import Changes, Known, Row

TEXT: Final = 4096
"""Characters of a text of others that a row keeps: the newest state has all of it."""
MOST: Final = 2**31 - 1
"""Of a number that a user writes: a column has 32 bits."""
SMALL_BYTES: Final = 64 * 1024
WHOLE_SECONDS: Final = 60.0
"""Between two copies of a large state with all its Tasks, unless an attempt ends."""
LABELS: Final = 64
"""That are kept to search by, the first by their keys."""
MAX_GAPS: Final = 100
"""Rows for what nobody saw, of one kind, in one look."""
UNSEEN: Final = "nobody saw it: the archive was not at work, or it was overtaken"
NO_END: Final = "its end was not seen"
_Parts: TypeAlias = dict[str, Raw]
_ROLES: Final = ("taskRoleStatuses", "taskRoleStatusesCompressed")


class _Metadata(Wire, frozen=True):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Resources(Wire, frozen=True):
    limits: dict[str, Any] = msgspec.field(default_factory=dict)


class _Container(Wire, frozen=True):
    resources: _Resources = _Resources()


class _PodSpec(Wire, frozen=True):
    containers: Annotated[tuple[_Container, ...], msgspec.Meta(max_length=256)] = ()


class _Pod(Wire, frozen=True):
    spec: _PodSpec = _PodSpec()


def has_ended(framework: Framework) -> bool:
    """Report whether nothing of the Framework runs, or that cannot be read: no later state says more."""
    try:
        status = framework.stored_status()
    except (msgspec.MsgspecError, RecursionError):
        return True
    return status is None or status.state in ENDED | {State.CREATION_PENDING}


def changes(
    framework: Framework, before: Known, now: float, *, person_label: str, is_gone: bool = False
) -> tuple[Changes, Known]:
    """Return what this state adds, and what is known after it.

    Args:
        framework: As the API server has it, or had it last if it is gone.
        before: What was known.
        now: Seconds since 1970.
        person_label: The label that says whose Framework it is.
        is_gone: Whether it does not exist any more.
    """
    meta, problem = framework.metadata, ""
    spec, status = FrameworkSpec(), None
    roles: tuple[TaskRoleStatus, ...] = ()
    try:
        spec, status = framework.spec, framework.stored_status()
        roles = () if status is None else roles_of(status)
    except (msgspec.MsgspecError, UnreadableStatusError, RecursionError) as error:
        problem = f"it cannot be read: {cut(str(error), TEXT)}"
        status = None
    labels = msgspec.json.decode(framework.raw_metadata, type=_Metadata).labels
    found = Changes(meta.uid, meta.namespace, labels=dict(nsmallest(LABELS, labels.items())))
    # What was known before is not to be taken for unseen once it can be read again.
    tasks = before.tasks if problem else {(role.name, one.index): one for role in roles for one in role.task_statuses}
    size = {"tasks": spec.tasks}
    size["gpus"] = min(sum(_gpus(role.task.pod) * role.task_number for role in spec.task_roles or ()), MOST)
    is_completed = status is not None and status.state is State.COMPLETED
    found.framework = {
        "uid": meta.uid,
        "namespace": meta.namespace,
        "name": meta.name,
        "person": labels.get(person_label, ""),
        "created": _seconds(meta.creation_timestamp) or now,
        "completed": _seconds(status.completion_time) if status else None,
        "deleted": (_seconds(meta.deletion_timestamp) or now) if is_gone else None,
        "seen": now,
        "version": meta.resource_version,
        "generation": meta.generation,
        "state": status.state if status else "",
        "attempts": status.attempt_status.id + 1 if status else 0,
        "restarts": (status.attempt_status.gang_restarts or 0) if status else 0,
        **size,
        "ready": (status.ready or "") if status else "",
        **_end(status.completion if status and is_completed else None),
        **(msgspec.structs.asdict(status.ledger.total) if status and status.ledger else {}),
        "gap": problem,
        "document": document(framework, with_tasks=False),
    }
    if before.generation < meta.generation:
        found.specs = [{"generation": meta.generation, "seen": now, "document": bytes(framework.raw_spec)}]
    is_over, whole = is_gone or is_completed, before.whole
    is_end = is_over or meta.deletion_timestamp is not None or (status is not None and status.state in ENDED)
    if is_end or framework.size < SMALL_BYTES or now - whole >= WHOLE_SECONDS:
        found.whole, whole = document(framework), now
    generation = max(meta.generation, before.generation)
    after = replace(before, generation=generation, tasks=tasks, whole=whole, is_over=is_over)
    if status is None:
        return found, after
    attempt, is_next = status.attempt_status, status.attempt_status.id != before.attempt
    is_open, epoch = attempt.completion_time is None, -1 if is_next else before.epoch
    found.attempts = [*_attempts(status, before)]
    found.attempts[-1] |= size | ({"generation": meta.generation} if is_next else {})
    if is_gone and is_open:
        found.attempts[-1]["gap"] = NO_END
    found.epochs = [*_epochs(status, epoch)]
    found.runs = [*_runs(attempt.id, tasks, before, is_gone=is_gone)]
    found.spans, span = _spans(status, before, is_gone=is_gone, now=now)
    epoch = max((row["epoch"] for row in found.epochs), default=epoch)
    # What was read from the archive is needed once: from now on the Tasks themselves are known.
    return found, replace(after, attempt=attempt.id, is_open=is_open, epoch=epoch, runs={}, span=span, seen=0.0)


def document(framework: Framework, *, with_tasks: bool = True) -> bytes:
    """Return the object as JSON, without who manages which field of it."""
    metadata = msgspec.json.decode(framework.raw_metadata, type=_Parts)
    metadata.pop("managedFields", None)
    parts: _Parts = {"metadata": Raw(msgspec.json.encode(metadata)), "spec": framework.raw_spec}
    if framework.has_status:
        parts["status"] = framework.status if with_tasks else _without_tasks(framework.status)
    return msgspec.json.encode({"apiVersion": names.API_VERSION, "kind": names.KIND, **parts})


def _without_tasks(status: Raw) -> Raw:
    """Return a status without its Tasks, which are not decoded for that; as it is, if it is none."""
    with suppress(msgspec.MsgspecError, KeyError):
        found = msgspec.json.decode(status, type=_Parts)
        attempt = msgspec.json.decode(found["attemptStatus"], type=_Parts)
        kept = {key: part for key, part in attempt.items() if key not in _ROLES}
        return Raw(msgspec.json.encode(found | {"attemptStatus": kept}))
    return status


def event(seen: EventView) -> Row:
    """Return the row of an Event."""
    first = seen.first_timestamp or seen.event_time or seen.metadata.creation_timestamp or seen.time
    return {
        "uid": seen.metadata.uid,
        "first": first.timestamp(),
        "last": seen.time.timestamp(),
        "count": min(seen.times, MOST),
        "type": seen.type,
        "reason": seen.reason,
        "message": cut(seen.message, TEXT),
        "object": seen.subject,
    }


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _times(attempt: FrameworkAttemptStatus | TaskAttemptStatus) -> Row:
    return {
        "started": _seconds(attempt.start_time),
        "ran": _seconds(attempt.run_time),
        "ended": _seconds(attempt.completion_time),
        **_end(attempt.completion_status),
    }


def _end(completion: FrameworkCompletion | TaskCompletion | None) -> Row:
    if completion is None:
        return dict.fromkeys(("code", "phrase", "result", "attributes", "diagnostics"))
    return {
        "code": completion.code,
        "phrase": completion.phrase,
        "result": completion.type.name,
        "attributes": ",".join(completion.type.attributes or ()),
        "diagnostics": cut(completion.diagnostics, TEXT),
    }


def _gpus(pod: Raw) -> int:
    """Return the GPUs that a Pod of a template asks for, 0 if it cannot be read."""
    try:
        containers = msgspec.json.decode(pod, type=_Pod).spec.containers
        limits = (one.resources.limits.items() for one in containers)
        found = (int(number) for each in limits for name, number in each if name.endswith(names.GPU_SUFFIX))
        return max(0, sum(found))
    except (msgspec.MsgspecError, ValueError, TypeError):
        return 0


def _unseen(numbers: range) -> range:
    """Return the newest of the numbers: somebody may write a status with a number of ten digits."""
    return numbers[-MAX_GAPS:]


def _attempts(status: FrameworkStatus, known: Known) -> Iterator[Row]:
    attempt, end = status.attempt_status, status.completion
    if known.is_open and known.attempt < attempt.id:
        yield {"attempt": known.attempt, "gap": NO_END}
    for number in _unseen(range(known.attempt + 1, attempt.id)):
        yield {"attempt": number, "gap": UNSEEN}
    by = end.trigger if end is not None else None
    yield {
        "attempt": attempt.id,
        **_times(attempt),
        "trigger": f"{by.task_role_name}-{by.task_index}" if by is not None and by.task_role_name else "",
        "restarts": attempt.gang_restarts or 0,
        **(msgspec.structs.asdict(status.ledger.attempt) if status.ledger else {}),
    }


def _epochs(status: FrameworkStatus, last: int) -> Iterator[Row]:
    attempt = status.attempt_status
    seen = [one for one in attempt.last_gang_restarts or () if one.epoch > last]
    first = min((one.epoch for one in seen), default=0)
    for number in _unseen(range(max(last + 1, 1), first)):
        yield {"attempt": attempt.id, "epoch": number, "gap": UNSEEN}
    for one in seen:
        yield {
            "attempt": attempt.id,
            "epoch": one.epoch,
            "began": one.time.timestamp(),
            "reason": one.reason,
            "task": one.task,
            "code": one.code,
            "message": cut(one.message, TEXT),
        }


def _runs(attempt: int, tasks: Mapping[tuple[str, int], TaskStatus], before: Known, *, is_gone: bool) -> Iterator[Row]:
    """Yield a row for each Task that has changed, and for what of it nobody saw."""
    seen = {key: (task.attempt_status.id, task.state in ENDED) for key, task in before.tasks.items()}
    last = {**before.runs, **seen}
    if attempt != before.attempt:
        # The attempt is over, and with it all of its Tasks, also those whose end nobody saw.
        for key, (run, has_ended) in last.items():
            if not has_ended:
                yield _row(before.attempt, key, run, {"gap": NO_END})
        before, last = Known(), {}
    for key, task in tasks.items():
        has_no_end = is_gone and task.state not in ENDED
        if before.tasks.get(key) == task and not has_no_end:
            continue
        run, has_ended = last.get(key, (-1, True))
        if not has_ended and run < task.attempt_status.id:
            yield _row(attempt, key, run, {"gap": NO_END})
        for missed in _unseen(range(run + 1, task.attempt_status.id)):
            yield _row(attempt, key, missed, {"gap": UNSEEN})
        yield _row(attempt, key, task.attempt_status.id, _run(task) | ({"gap": NO_END} if has_no_end else {}))


def _row(attempt: int, key: tuple[str, int], run: int, columns: Row) -> Row:
    role, index = key
    return {"attempt": attempt, "role": role, "index": index, "run": run, **columns}


def _run(task: TaskStatus) -> Row:
    attempt, end = task.attempt_status, task.completion
    containers = end.pod.containers if end is not None and end.pod is not None else ()
    return {
        "state": task.state,
        "pod": attempt.pod_name,
        "pod_uid": attempt.pod_uid or "",
        "node": attempt.pod_node_name or "",
        "ip": attempt.pod_ip or "",
        **_times(attempt),
        "containers": cut(msgspec.json.encode(containers).decode(), TEXT) if containers else "",
    }


def _spans(
    status: FrameworkStatus, known: Known, *, is_gone: bool, now: float
) -> tuple[list[Row], tuple[str, float] | None]:
    """Return what has ended and begun of what the time goes to, and what it goes to now."""
    if not (ledger := status.ledger):
        return [], known.span
    rows: list[Row] = []

    def note(span: tuple[str, float], attempt: int, ended: float | None) -> None:
        rows.append({"began": span[1], "attempt": attempt, "state": span[0], "ended": ended})

    span, since = known.span, ledger.since.timestamp()
    if is_new := span is None or span[0] != ledger.state:
        if span is not None:
            # What came between was not seen if the archive was not at work.
            note(span, known.attempt, max(span[1], min(since, known.seen or since)))
        span = (ledger.state, since) if ledger.state else None
    if span is not None and (is_new or is_gone):
        note(span, status.attempt_status.id, max(span[1], now) if is_gone else None)
    return rows, None if is_gone else span
