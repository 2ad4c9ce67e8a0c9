"""The commands that look: `list`, `get`, `describe`, `events`, `logs`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from frameworkclient.cli.commands.log_output import LogPrinter, LogSaver
from frameworkclient.cli.describe import description
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Format
from frameworkclient.cli.output import as_list, resource_name, write, write_document
from frameworkclient.cli.tables import events_table, frameworks_table
from frameworkclient.cli.terminal import colours_for, is_interactive, program, say
from frameworkclient.cluster.actions import check_task
from frameworkclient.errors import ArgumentError, ForbiddenError
from frameworkclient.logs.absent import absent
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.html import FrameworkViews
from frameworkclient.views.text import counted, seconds_of
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.states import State
from frameworkkube.paths import resource_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frameworkclient.aio import AsyncClient
    from frameworkclient.views.events import EventView
    from frameworkclient.views.pods import TaskPod

ASKED_PODS: Final = 5
"""Pods whose Events are asked for by a request each; for each, the API server looks at all Events of the namespace."""


async def list_frameworks(
    client: AsyncClient, *, all_namespaces: bool, selector: str, output: Format, watch: bool
) -> None:
    """Write Frameworks, and with `watch` each that changes, until it is interrupted."""
    views = await client.list(all_namespaces=all_namespaces, label_selector=selector)
    if not views and output in {Format.TABLE, Format.WIDE}:
        say("No Frameworks" + ("." if all_namespaces else f" in namespace {client.namespace}."))
    write_frameworks(views, output, with_namespace=all_namespaces)
    if watch:
        await _follow_list(client, views, output, all_namespaces=all_namespaces, selector=selector)


async def _follow_list(
    client: AsyncClient, known: FrameworkViews, output: Format, *, all_namespaces: bool, selector: str
) -> None:
    from frameworkclient.cluster.following import Collection

    wake = asyncio.Event()
    namespace = None if all_namespaces else client.namespace
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=namespace)
    shown = {(view.namespace, view.name): view for view in known}
    async with Collection(client.kube, path, FRAMEWORK_DECODER, wake, label_selector=selector) as frameworks:
        while True:
            wake.clear()
            frameworks.check()
            fresh = []
            for key, stored in frameworks.objects.items():
                view = FrameworkView(stored)
                if key not in shown or not view.is_same_as(shown[key]):
                    shown[key] = view
                    fresh.append(view)
            write_frameworks(fresh, output, with_namespace=all_namespaces, head=not known)
            known = known or FrameworkViews(fresh)
            sys.stdout.flush()
            await wake.wait()


def write_frameworks(
    views: Sequence[FrameworkView],
    output: Format,
    *,
    with_namespace: bool = False,
    single: bool = False,
    head: bool = True,
) -> None:
    """Write Frameworks in a format; a `single` one as an object, not as a list."""
    match output:
        case Format.NAME:
            write("".join(f"{resource_name(view.name)}\n" for view in views))
        case Format.JSON | Format.YAML:
            found = views[0].to_dict() if single else as_list([view.to_dict() for view in views])
            write_document(found, output)
        case _ if views:
            text = frameworks_table(
                views,
                datetime.now(UTC),
                colours_for(sys.stdout),
                wide=output is Format.WIDE,
                with_namespace=with_namespace,
            )
            write(text if head else text.partition("\n")[2])
        case _:
            pass


async def describe(client: AsyncClient, name: str) -> None:
    """Write everything about a Framework; what the user may not read is left out with a line that says so."""
    view = await client.get(name)
    by_task, shown = await pods_and_events(client, view)
    write(description(view, by_task, shown, datetime.now(UTC), colours_for(sys.stdout)))


async def pods_and_events(client: AsyncClient, view: FrameworkView) -> tuple[dict[str, TaskPod], Sequence[EventView]]:
    """Return the Pods of a Framework by Task, and its Events; what the user may not read is left out with a line.

    The Events of Pods are those of some Tasks, of Tasks that do not run before others.

    Raises:
        ClientError: One of them cannot be read for another reason.
    """
    asked = sorted(view.tasks, key=lambda task: task.state is State.RUNNING)[:ASKED_PODS]
    pods, events = await asyncio.gather(
        client.pods(view.name),
        client.events(view.name, pods=[task.pod for task in asked]),
        return_exceptions=True,
    )
    for found in (pods, events):
        if isinstance(found, ForbiddenError):
            say(str(found))
        elif isinstance(found, BaseException):
            raise found
    by_task = {} if isinstance(pods, BaseException) else {pod.task: pod for pod in pods}
    return by_task, () if isinstance(events, BaseException) else events


async def events_of(client: AsyncClient, name: str, output: Format) -> None:
    """Write the Events of a Framework."""
    pods = [task.pod for task in (await client.get(name)).tasks]
    events = await client.events(name, pods=pods if 0 < len(pods) <= ASKED_PODS else None)
    if output in {Format.JSON, Format.YAML}:
        found: list[dict[str, Any]] = [msgspec.to_builtins(event) for event in events]
        write_document(as_list(found), output)
    elif output is Format.NAME:
        write("".join(f"event/{event.metadata.name}\n" for event in events))
    elif not events:
        say(f"No Events of Framework {name}; Kubernetes forgets them after an hour.")
    else:
        write(events_table(events, datetime.now(UTC), colours_for(sys.stdout)))


def selection_of(*, since: str, tail: int, **others: Any) -> LogSelection:
    """Return what the flags of `logs` choose; the others are those of `LogSelection`.

    Raises:
        ArgumentError: A flag is not valid.
    """
    since_seconds = max(1, seconds_of(since, "--since")) if since else None
    try:
        return LogSelection(since_seconds=since_seconds, tail=tail if tail >= 0 else None, **others)
    except ArgumentError as error:
        raise ArgumentError(f"--{error}") from error


async def write_logs(
    client: AsyncClient, name: str, selection: LogSelection, *, follow: bool, timestamps: bool, folder: Path | None
) -> ExitCode:
    """Write the logs of a Framework to stdout or into a folder, and say of which Tasks there are none, and why.

    Returns:
        ERROR if there are no logs at all where some were wanted.

    Raises:
        ArgumentError: The selection names what the Framework does not have.
    """
    from frameworkclient.logs.collector import follow_logs, read_logs

    view = await client.get(name)
    _check_selection(view, selection)
    # What may still come is not missing.
    is_all = view.finished or not follow
    pods = await client.pods(name) if is_all else ()
    gone = absent(view, {pod.task: pod for pod in pods}, selection, program()) if is_all else []
    if follow:
        found = follow_logs(client.kube, view, selection)
    else:
        found = read_logs(client.kube, view.namespace, pods, selection)
    saver = None if folder is None else LogSaver(folder, timestamps=timestamps)
    is_terminal = is_interactive(sys.stdout)
    writer = saver or LogPrinter(sys.stdout, colours_for(sys.stdout), on_terminal=is_terminal, timestamps=timestamps)
    lines = 0
    try:
        async with aclosing(found) as batches:
            async for batch in batches:
                writer.write(batch)
                lines += len(batch.lines)
    finally:
        if saver is not None:
            say(f"{counted(saver.lines, 'line')} in {counted(len(saver.files), 'file')} of {folder}")
    for sentence in gone or ([] if lines else ["no line is in the logs that was asked for"]):
        say(sentence)
    return ExitCode.ERROR if gone and not lines else ExitCode.DONE


def _check_selection(view: FrameworkView, selection: LogSelection) -> None:
    roles, role, task = [one.name for one in view.roles], selection.role, selection.task
    if role and role not in roles:
        raise ArgumentError(f"--role {role}: Framework {view.name} has no such role; there are {', '.join(roles)}")
    if task:
        role = check_task(task, roles)
        number = sum(one.role == role for one in view.tasks)
        if view.status is not None and view.task(task) is None:
            raise ArgumentError(f"--task {task}: role {role} of Framework {view.name} has {counted(number, 'Task')}")
