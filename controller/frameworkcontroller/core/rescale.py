"""Bring the Tasks in line with the spec's roles and numbers (source: the Framework API, section 8).

A Task that has to go is marked first and removed only when it is Completed and everybody has been able to see that, so
that no Pod is deleted, and no name used again, behind the back of a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import State

from . import classify
from .ledger import RoleLedger
from .task import SCALED_DOWN, complete, new_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from frameworkcontroller.api.types import FrameworkSpec


def rescale(
    framework: str,
    spec: FrameworkSpec,
    roles: dict[str, RoleLedger],
    *,
    now: datetime,
    new_uid: Callable[[], str],
    revision: int,
    persisted: int,
) -> Iterator[tuple[str, int]]:
    """Change ``roles`` in place where the spec differs.

    Args:
        framework: its name.
        spec: what is wanted.
        roles: what is, by name.
        now: the time of the change.
        new_uid: gives a fresh UUID.
        revision: to record with what changes here.
        persisted: the newest revision that the API server shows.

    Yields:
        (role, index) of every Task that was marked, replaced or added; (role, -1) for a removal.
    """
    wanted = {role.name: role.task_number for role in spec.task_roles or ()}
    for name in wanted:
        if name not in roles:
            timeout = next(
                role.task.pod_graceful_deletion_timeout_sec for role in spec.task_roles or () if role.name == name
            )
            roles[name] = RoleLedger(name, new_uid(), timeout)
            yield name, -1
    for name, ledger in list(roles.items()):
        number = wanted.get(name, 0)
        yield from _mark(ledger, number, revision)
        yield from _replace(framework, ledger, number, now, new_uid, revision, persisted)
        yield from _trim(ledger, number, persisted)
        while len(ledger.tasks) < number:
            index = len(ledger.tasks)
            ledger.append(new_task(index, new_uid(), names.pod_name(framework, name, index), now), revision)
            yield name, index
        if name not in wanted and not ledger.tasks:
            del roles[name]
            yield name, -1


def _mark(ledger: RoleLedger, number: int, revision: int) -> Iterator[tuple[str, int]]:
    for index in range(number, len(ledger.tasks)):
        task = ledger.tasks[index]
        if not task.deletion_pending:
            task = replace(task, deletion_pending=True)
            if task.state is not State.COMPLETED:
                task = complete(task, classify.predefined(Code.DELETE_TASK_REQUESTED, SCALED_DOWN))
            ledger.put(index, task, revision)
            yield ledger.name, index


def _replace(
    framework: str,
    ledger: RoleLedger,
    number: int,
    now: datetime,
    new_uid: Callable[[], str],
    revision: int,
    persisted: int,
) -> Iterator[tuple[str, int]]:
    """A Task that was going is wanted again: never revived, but replaced once it is Completed."""
    for index in sorted(ledger.going):
        if index < number and _is_over(ledger, index, persisted):
            name = names.pod_name(framework, ledger.name, index)
            ledger.put(index, new_task(index, new_uid(), name, now), revision)
            yield ledger.name, index


def _trim(ledger: RoleLedger, number: int, persisted: int) -> Iterator[tuple[str, int]]:
    while len(ledger.tasks) > number and _is_over(ledger, len(ledger.tasks) - 1, persisted):
        ledger.pop()
        yield ledger.name, -1


def _is_over(ledger: RoleLedger, index: int, persisted: int) -> bool:
    task = ledger.tasks[index]
    return task.deletion_pending and task.state is State.COMPLETED and ledger.revisions[index] <= persisted
