"""The commands that look: `list`, `get`, `describe`, `events`, `logs`."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from frameworkclient.aio import AsyncClient
from frameworkclient.archive import LOGS, NONE, Archive, Archived
from frameworkclient.cli.commands.log_output import LogPrinter, LogSaver
from frameworkclient.cli.describe import description
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Format, ListFlags, LogFlags
from frameworkclient.cli.output import as_list, resource_name, write, write_document
from frameworkclient.cli.tables import events_table, frameworks_table
from frameworkclient.cli.terminal import colours_for, program, say
from frameworkclient.cluster.actions import check_task
from frameworkclient.errors import AccessError, ArgumentError, ClientError, ForbiddenError, NotFoundError
from frameworkclient.logs.absent import absent
from frameworkclient.logs.lines import LogBatch
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.events import EventView
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.html import FrameworkViews
from frameworkclient.views.pods import TaskPod
from frameworkclient.views.text import counted, listed, seconds_of
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.states import State
from frameworkkube.paths import resource_path

LISTED: Final = 1000
"""Frameworks of the archive in a list."""
ASKED_PODS: Final = 5
"""Pods whose Events are asked for by a request each; for each, the API server looks at all Events of the namespace."""


@dataclass(frozen=True)
class Seen:
    """A Framework as it is now, or as it was at a time, by the archive, where it does not exist any more."""

    view: FrameworkView
    time: datetime
    archive: Archive | None = None


async def look_up(client: AsyncClient, name: str) -> Seen:
    """Return a Framework, from the archive if it is gone, which a line says.

    Raises:
        NotFoundError: Neither knows it, or there is no archive.
    """
    try:
        return Seen(await client.get(name), datetime.now(UTC))
    except NotFoundError as error:
        try:
            archive = await client.archive()
            past = None if archive is None else await archive.get(client.namespace, name)
        except ClientError as problem:
            raise NotFoundError(f"{error}; and {problem}", error.code) from problem
        if past is None:
            raise
    say(str(past))
    return Seen(past.view, past.time, archive)


async def list_frameworks(client: AsyncClient, flags: ListFlags) -> None:
    """Write Frameworks, and with `watch` each that changes, until it is interrupted."""
    output, all_namespaces, selector = flags.output, flags.all_namespaces, flags.selector
    begin = datetime.now(UTC) - timedelta(seconds=seconds_of(flags.since, "--since")) if flags.since else None
    found = await client.list(all_namespaces=all_namespaces, label_selector=selector)
    views = FrameworkViews(view for view in found if begin is None or view.created >= begin)
    archived = None
    if flags.all_times:
        of_all = await client.history(all_namespaces=all_namespaces, label=selector, since=begin, limit=LISTED + 1)
        if len(of_all) > LISTED:
            say(f"The archive has more; these are the newest {LISTED}. See --since, -n and -l.")
        known = {view.uid for view in found}
        archived = [one for one in of_all[:LISTED] if one.uid not in known]
    if not views and not archived and output in {Format.TABLE, Format.WIDE}:
        say("No Frameworks" + ("." if all_namespaces else f" in namespace {client.namespace}."))
    if archived and output in {Format.JSON, Format.YAML, Format.NAME}:
        say(f"{counted(len(archived), 'Framework')} of the list, the last of it, from the archive")
        if output is not Format.NAME:
            views = FrameworkViews([*views, *await _whole(client, archived)])
    write_frameworks(views, output, with_namespace=all_namespaces, archived=archived)
    if flags.watch:
        await _follow_list(client, views, flags)


async def _whole(client: AsyncClient, archived: Sequence[Archived]) -> list[FrameworkView]:
    archive = await client.archive()
    assert archive is not None
    found = await asyncio.gather(*(archive.get(one.namespace, one.name, one.uid) for one in archived))
    return [one.view for one in found]


async def _follow_list(client: AsyncClient, known: FrameworkViews, flags: ListFlags) -> None:
    from frameworkclient.cluster.following import collected

    wake, frameworks = asyncio.Event(), dict[tuple[str, str], Framework]()
    namespace = None if flags.all_namespaces else client.namespace
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=namespace)
    shown = {(view.namespace, view.name): view for view in known}
    async with collected(
        client.kube, path, FRAMEWORK_DECODER, frameworks, wake, label_selector=flags.selector
    ) as check:
        while True:
            wake.clear()
            check()
            fresh = []
            for key, stored in frameworks.items():
                view = FrameworkView(stored)
                if key not in shown or not view.is_same_as(shown[key]):
                    shown[key] = view
                    fresh.append(view)
            if fresh:
                if flags.output is Format.YAML:
                    write("---\n")
                write_frameworks(fresh, flags.output, with_namespace=flags.all_namespaces, head=not known)
                known = known or FrameworkViews(fresh)
            sys.stdout.flush()  # the list before, too
            await wake.wait()


def write_frameworks(
    views: Sequence[FrameworkView],
    output: Format,
    *,
    with_namespace: bool = False,
    single: bool = False,
    head: bool = True,
    archived: Sequence[Archived] | None = None,
) -> None:
    """Write Frameworks in a format; a `single` one as an object, not as a list.

    Those of the archive have no more than a line.
    """
    if output is Format.NAME:
        found_names = [one.name for one in views] + [one.name for one in archived or ()]
        write("".join(f"{resource_name(name)}\n" for name in found_names))
    elif output in {Format.JSON, Format.YAML}:
        found = views[0].to_dict() if single else as_list([view.to_dict() for view in views])
        write_document(found, output)
    elif views or archived:
        now, colours, wide = datetime.now(UTC), colours_for(sys.stdout), output is Format.WIDE
        text = frameworks_table(views, now, colours, wide=wide, with_namespace=with_namespace, archived=archived)
        write(text if head else text.partition("\n")[2])


async def describe(client: AsyncClient, name: str) -> None:
    """Write everything about a Framework; what the user may not read is left out with a line that says so."""
    seen = await look_up(client, name)
    by_task, shown = await pods_and_events(client, seen)
    write(description(seen.view, by_task, shown, seen.time, colours_for(sys.stdout)))


async def pods_and_events(client: AsyncClient, seen: Seen) -> tuple[dict[str, TaskPod], Sequence[EventView]]:
    """Return the Pods of a Framework by Task, and its Events; what the user may not read is left out with a line.

    The Events of Pods are those of some Tasks, of Tasks that do not run before others.

    Raises:
        ClientError: One of them cannot be read for another reason.
    """
    view = seen.view
    if seen.archive is not None:
        return {}, await seen.archive.events(view)
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
    seen = await look_up(client, name)
    if seen.archive is None:
        pods = [task.pod for task in seen.view.tasks]
        events = await client.events(name, pods=pods if 0 < len(pods) <= ASKED_PODS else None)
    else:
        events = await seen.archive.events(seen.view)
    if output in {Format.JSON, Format.YAML}:
        found: list[dict[str, Any]] = [msgspec.to_builtins(event) for event in events]
        write_document(as_list(found), output)
    elif output is Format.NAME:
        write("".join(f"event/{event.metadata.name}\n" for event in events))
    elif not events:
        why = "Kubernetes forgets them after an hour" if seen.archive is None else "the archive has none"
        say(f"No Events of Framework {name}; {why}.")
    else:
        write(events_table(events, datetime.now(UTC), colours_for(sys.stdout)))


async def write_logs(client: AsyncClient, name: str, flags: LogFlags) -> ExitCode:
    """Write the logs of a Framework to stdout or into a folder, and say of which Tasks there are none, and why.

    Those of Pods that are gone come from the archive, and those of an `attempt` (from 1), all of it.

    Returns:
        ERROR if there are no logs at all where some were wanted.

    Raises:
        ArgumentError: A flag is not valid, or names what the Framework does not have.
    """
    from frameworkclient.logs.collector import follow_logs, read_logs

    selection, attempt = _selection_of(flags), flags.attempt
    seen = await look_up(client, name)
    view, is_gone = seen.view, seen.archive is not None
    is_past = is_gone or attempt not in {None, view.attempts}
    _check_selection(view, selection, attempt, is_past=is_past)
    follow = flags.follow and not is_gone
    # What may still come is not missing.
    is_all = view.finished or not follow
    pods = await client.pods(name) if is_all and not is_past else ()
    by_task = {pod.task: pod for pod in pods}
    logs, tasks = await _archived(client, seen, by_task, selection, attempt) if is_all else ([], set[str]())
    if is_past:
        gone = [] if tasks else [f"the archive has no logs of {view.name} that were asked for"]
    else:
        gone = absent(view, by_task, selection, program(), tasks) if is_all else []
    found = [read_logs(client.kube, view.namespace, () if follow else pods, selection, logs)]
    if follow:
        found.append(follow_logs(client.kube, view, selection))
    stamps, is_terminal = flags.timestamps, sys.stdout.isatty()
    saver = None if flags.save is None else LogSaver(flags.save, timestamps=stamps)
    writer = saver or LogPrinter(sys.stdout, colours_for(sys.stdout), on_terminal=is_terminal, timestamps=stamps)
    lines = 0
    try:
        for part in found:
            async with aclosing(part) as batches:
                async for batch in batches:
                    writer.write(batch)
                    lines += len(batch.lines)
    finally:
        if saver is not None:
            say(f"{counted(saver.lines, 'line')} in {counted(len(saver.files), 'file')} of {flags.save}")
    for sentence in gone or ([] if lines else ["no line is in the logs that was asked for"]):
        say(sentence)
    return ExitCode.ERROR if gone and not lines else ExitCode.DONE


def _selection_of(flags: LogFlags) -> LogSelection:
    since_seconds = max(1, seconds_of(flags.since, "--since")) if flags.since else None
    tail = flags.tail if flags.tail >= 0 else None
    try:
        return LogSelection(
            flags.role, flags.task, flags.barrier, since_seconds, tail, flags.previous, flags.grep, flags.grep_text
        )
    except ArgumentError as error:
        raise ArgumentError(f"--{error}") from error


async def _archived(
    client: AsyncClient, seen: Seen, pods: Mapping[str, TaskPod], selection: LogSelection, attempt: int | None
) -> tuple[list[AsyncGenerator[LogBatch, None]], set[str]]:
    """Return the logs of the archive that Pods do not have any more, and their Tasks.

    Raises:
        ClientError: The archive does not give what it alone can have.
    """
    view, archive = seen.view, seen.archive
    tasks = [task for task in view.tasks if selection.takes(task.role, task.name)]
    if not view.attempts or (archive is None and attempt is None and all(task.name in pods for task in tasks)):
        return [], set()
    from frameworkclient.logs.archived import chosen, read_archived

    role, _, index = selection.task.rpartition("-")
    try:
        archive = archive or await client.archive()
        if archive is None:
            raise AccessError(NONE)
        rows = await archive.logs(view, (attempt or view.attempts) - 1, role or selection.role, index)
    except ClientError as error:
        if seen.archive is not None or attempt not in {None, view.attempts}:
            raise
        if str(error) != NONE:
            say(str(error))
        return [], set()
    if len(rows) >= LOGS:
        say(f"The archive names {LOGS} logs at a time; --role or --task chooses others.")
    wanted = chosen(view, rows, selection, all_runs=attempt is not None)
    # A Pod that is there has the last run of its Task, and its own log.
    there = set(pods) if attempt is None else {pod.metadata.uid for pod in pods.values()}
    found = [one for one in wanted if (one[0].task if attempt is None else one[0].uid) not in there]
    from_there = list(dict.fromkeys(source.task for source, _ in found))
    if from_there and seen.archive is None:
        say(f"the logs of {listed(from_there)} are from the archive")
    return [read_archived(archive, view, source, log, selection) for source, log in found], set(from_there)


def _check_selection(view: FrameworkView, selection: LogSelection, attempt: int | None, *, is_past: bool) -> None:
    if attempt is not None and attempt > view.attempts:
        raise ArgumentError(f"--attempt {attempt}: Framework {view.name} has had {counted(view.attempts, 'attempt')}")
    roles, role, task = [one.name for one in view.roles], selection.role, selection.task
    if role and role not in roles:
        raise ArgumentError(f"--role {role}: Framework {view.name} has no such role; there are {', '.join(roles)}")
    if task:
        role = check_task(task, roles)
        number = sum(one.role == role for one in view.tasks)
        if view.status is not None and view.task(task) is None and not is_past:
            raise ArgumentError(f"--task {task}: role {role} of Framework {view.name} has {counted(number, 'Task')}")
