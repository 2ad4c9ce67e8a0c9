"""What a state of a Framework adds to what is known of it: pure.

Attempts, runs and epochs are numbered, so that those which nobody saw are known by their numbers: each has a row that
says so, as its `gap`.
"""

import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
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
    FrameworkCompletion,
    FrameworkStatus,
    Ledger,
    TaskCompletion,
    TaskRoleStatus,
    TaskStatus,
    UnreadableStatusError,
    cut,
    roles_of,
)
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.known import Known
from frameworkhistory.archive.tables import SPENT

TEXT: Final = 4096
"""Characters of a text of others that a row keeps: the newest state has all of it."""
MOST: Final = 2**31 - 1
"""Of a number that a user writes: a column has 32 bits."""
SMALL_BYTES: Final = 64 * 1024
ROSTER_BYTES: Final = 16 << 20
WHOLE_SECONDS: Final = 60.0
"""Between two copies of a large state with all its Tasks, unless an attempt ends."""
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


@dataclass(frozen=True)
class Look:
    """What was seen of a Framework last, as far as it tells what is new."""

    known: Known
    tasks: Mapping[tuple[str, int], TaskStatus]
    """Of the attempt, by role and index."""
    whole: float = 0.0
    """When its state was last kept with all Tasks, in seconds."""
    is_over: bool = False
    """It is Completed, or gone."""


def has_ended(framework: Framework) -> bool:
    """Report whether nothing of the Framework runs, or that cannot be read: no later state says more."""
    try:
        status = framework.stored_status()
    except (msgspec.MsgspecError, RecursionError):
        return True
    return status is None or status.state in ENDED | {State.CREATION_PENDING}


def changes(
    framework: Framework, before: Look, now: float, *, person_label: str, is_gone: bool = False
) -> tuple[Changes, Look]:
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
    found = Changes(meta.uid, meta.namespace, labels=labels)
    tasks = {(role.name, task.index): task for role in roles for task in role.task_statuses}
    if problem:
        # What was known before is not to be taken for unseen once it can be read again.
        tasks = {**before.tasks}
    gpus = min(sum(_gpus(role.task.pod) * role.task_number for role in spec.task_roles or ()), MOST)
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
        "tasks": spec.tasks,
        "gpus": gpus,
        "ready": (status.ready or "") if status else "",
        **_end(status.completion if status and status.state is State.COMPLETED else None),
        **_spent(status.ledger if status else None, "total"),
        "gap": problem,
        "document": document(framework, with_tasks=False),
    }
    known = before.known
    if known.generation < meta.generation:
        spec_row = {"generation": meta.generation, "seen": now, "document": bytes(framework.raw_spec)}
        found.specs = [spec_row]
    if status is not None:
        is_next = status.attempt_status.id != known.attempt
        found.attempts = [*_attempts(status, meta.namespace, meta.generation, spec.tasks, gpus, known)]
        found.epochs = [*_epochs(status, -1 if is_next else known.epoch)]
        found.runs = [*_runs(status, meta.namespace, tasks, before, is_gone=is_gone)]
        if is_gone and status.attempt_status.completion_time is None:
            found.attempts[-1]["gap"] = NO_END
        found.spans, span = _spans(status, known, is_gone=is_gone, now=now)
        known = Known(
            attempt=status.attempt_status.id,
            is_open=status.attempt_status.completion_time is None,
            epoch=max((row["epoch"] for row in found.epochs), default=-1 if is_next else known.epoch),
            generation=max(meta.generation, known.generation),
            # What was read from the archive is needed once: from now on the Tasks themselves are known.
            span=span,
        )
    elif found.specs:
        known = replace(known, generation=meta.generation)
    whole, is_end = before.whole, is_gone or meta.deletion_timestamp is not None
    is_end |= status is not None and status.state in ENDED
    if is_end or framework.size < SMALL_BYTES or now - whole >= WHOLE_SECONDS:
        found.whole, whole = document(framework), now
    is_over = is_gone or (status is not None and status.state is State.COMPLETED)
    return found, Look(known, tasks, whole, is_over)


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


def roster(data: Mapping[str, str], binary_data: Mapping[str, str]) -> bytes:
    """Return the roster that a ConfigMap has, as JSON, or what of it fits into memory.

    Raises:
        ValueError, zlib.error: It is none.
    """
    if names.ROSTER_GZIP_KEY not in binary_data:
        return data.get(names.ROSTER_KEY, "").encode()
    packed = b64decode(binary_data[names.ROSTER_GZIP_KEY], validate=True)
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(packed, ROSTER_BYTES)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


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


def _spent(ledger: Ledger | msgspec.UnsetType | None, part: str) -> Row:
    spent = getattr(ledger, part) if ledger else None
    return {} if spent is None else {name: getattr(spent, name) for name in SPENT}


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


def _attempts(
    status: FrameworkStatus, namespace: str, generation: int, tasks: int, gpus: int, known: Known
) -> Iterator[Row]:
    attempt = status.attempt_status
    if known.is_open and known.attempt < attempt.id:
        yield {"attempt": known.attempt, "namespace": namespace, "gap": NO_END}
    for number in _unseen(range(known.attempt + 1, attempt.id)):
        yield {"attempt": number, "namespace": namespace, "gap": UNSEEN}
    end = status.completion
    by = end.trigger if end is not None else None
    yield {
        "attempt": attempt.id,
        "namespace": namespace,
        "started": _seconds(attempt.start_time),
        "ran": _seconds(attempt.run_time),
        "ended": _seconds(attempt.completion_time),
        "trigger": f"{by.task_role_name}-{by.task_index}" if by is not None and by.task_role_name else "",
        "tasks": tasks,
        "gpus": gpus,
        "restarts": attempt.gang_restarts or 0,
        **({"generation": generation} if attempt.id != known.attempt else {}),
        **_end(end),
        **_spent(status.ledger, "attempt"),
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


def _runs(
    status: FrameworkStatus,
    namespace: str,
    tasks: Mapping[tuple[str, int], TaskStatus],
    before: Look,
    *,
    is_gone: bool,
) -> Iterator[Row]:
    """Yield a row for each Task that has changed, and for what of it nobody saw."""
    number, known = status.attempt_status.id, before.known
    if number != known.attempt:
        # The attempt is over, and with it all of its Tasks, also those whose end nobody saw.
        yield from (
            _row(known.attempt, namespace, key, run, {"gap": NO_END}) for key, run, is_open in _last(before) if is_open
        )
        before = Look(Known(), {})
    last = {key: (run, is_open) for key, run, is_open in _last(before)}
    for key, task in tasks.items():
        has_no_end = is_gone and task.state not in ENDED
        if before.tasks.get(key) == task and not has_no_end:
            continue
        run, is_open = last.get(key, (-1, False))
        if is_open and run < task.attempt_status.id:
            yield _row(number, namespace, key, run, {"gap": NO_END})
        for missed in _unseen(range(run + 1, task.attempt_status.id)):
            yield _row(number, namespace, key, missed, {"gap": UNSEEN})
        end = {"gap": NO_END} if has_no_end else {}
        yield _row(number, namespace, key, task.attempt_status.id, _run(task) | end)


def _last(before: Look) -> Iterator[tuple[tuple[str, int], int, bool]]:
    """Yield the last run that is known of each Task, and whether its end is not."""
    for key, task in before.tasks.items():
        yield key, task.attempt_status.id, task.state not in ENDED
    for key, (run, has_ended) in before.known.runs.items():
        if key not in before.tasks:
            yield key, run, not has_ended


def _row(attempt: int, namespace: str, key: tuple[str, int], run: int, columns: Row) -> Row:
    role, index = key
    return {"attempt": attempt, "role": role, "index": index, "run": run, "namespace": namespace, **columns}


def _run(task: TaskStatus) -> Row:
    attempt, end = task.attempt_status, task.completion
    containers = end.pod.containers if end is not None and end.pod is not None else ()
    return {
        "state": task.state,
        "pod": attempt.pod_name,
        "pod_uid": attempt.pod_uid or "",
        "node": attempt.pod_node_name or "",
        "ip": attempt.pod_ip or "",
        "started": _seconds(attempt.start_time),
        "ran": _seconds(attempt.run_time),
        "ended": _seconds(attempt.completion_time),
        **_end(end),
        "containers": cut(msgspec.json.encode(containers).decode(), TEXT) if containers else "",
    }


def _spans(
    status: FrameworkStatus, known: Known, *, is_gone: bool, now: float
) -> tuple[list[Row], tuple[str, float] | None]:
    """Return what has ended and begun of what the time goes to, and what it goes to now."""
    if not (ledger := status.ledger):
        return [], known.span
    rows: dict[float, Row] = {}

    def note(span: tuple[str, float], attempt: int, ended: float | None) -> None:
        state, began = span
        rows[began] = {"began": began, "attempt": attempt, "state": state, "ended": ended}

    span, since, attempt = known.span, ledger.since.timestamp(), status.attempt_status.id
    if span is None or span[0] != ledger.state:
        if span is not None:
            # What came between was not seen if the archive was not at work.
            note(span, known.attempt, max(span[1], min(since, known.seen or since)))
        span = (ledger.state, since) if ledger.state else None
        if span is not None:
            note(span, attempt, None)
    if is_gone and span is not None:
        note(span, attempt, max(span[1], now))
        span = None
    return [*rows.values()], span
