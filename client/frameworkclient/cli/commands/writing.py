"""The commands that change something: `submit`, `delete`, `wait`, `stop`, `start`, `scale`, `retry`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frameworkclient.cli.commands.reading import write_logs
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.output import resource_name, write
from frameworkclient.cli.terminal import program, say
from frameworkclient.cluster import actions
from frameworkclient.errors import ArgumentError, ManifestError
from frameworkclient.logs.selection import LogSelection
from frameworkclient.model.set_field import set_field
from frameworkclient.model.yaml_text import documents
from frameworkclient.views.text import sanitize
from frameworkcontroller.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkclient.aio import AsyncClient
    from frameworkclient.cluster.goals import Goal
    from frameworkclient.views.framework import FrameworkView


def manifests_in(
    files: Sequence[str], settings: Sequence[str] | None, *, others: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """Return the Frameworks of files, each with where it stands, with the fields that `--set` changes; `-` is stdin.

    Raises:
        ManifestError: A file is not valid YAML, has no Framework, or, unless `others` may be there, something else.
        ArgumentError: A field cannot be changed.
    """
    found = []
    for where, document in documents_in(files):
        for one in document.get("items") or () if _kind(document) == "List" else (document,):
            if _kind(one) != names.KIND and others:
                continue
            if _kind(one) != names.KIND:
                raise ManifestError(
                    f"{where}: its kind is {_kind(one) or 'missing'}, and this takes only Frameworks; "
                    "use kubectl apply -f for the others"
                )
            found.append((where, one))
    if not found:
        sources = ", ".join("stdin" if file == "-" else file for file in files)
        raise ManifestError(f"{sources}: there is no Framework in it")
    for _, manifest in found:
        for assignment in settings or ():
            set_field(manifest, assignment)
    return found


def documents_in(files: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the documents of files, each with where it stands; `-` is stdin.

    Raises:
        ManifestError: A file is not valid YAML.
    """
    for file in files:
        source = "stdin" if file == "-" else file
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ManifestError(f"{source}: is not text in UTF-8") from error
        for number, document in enumerate(documents(text, source), 1):
            yield f"{source}, document {number}", document


def _kind(document: Any) -> str:
    return str(document.get("kind") or "") if isinstance(document, dict) else ""


async def submit(
    client: AsyncClient, manifests: Sequence[dict[str, Any]], *, dry_run: bool, wait: bool, logs: bool
) -> ExitCode:
    """Create Frameworks; with `wait` or `logs`, stay until they are Completed.

    Raises:
        ClientError: One is refused; those before it were created.
    """
    created = []
    for manifest in manifests:
        view = await client.create(manifest, dry_run=dry_run)
        created.append(view)
        write(f"{resource_name(view.name)} created{' (dry run)' if dry_run else ''}\n")
        sys.stdout.flush()
    code = ExitCode.DONE
    if dry_run or not (wait or logs):
        return code
    for view in created:
        client.namespace = view.namespace
        if logs:
            await write_logs(client, view.name, LogSelection(), follow=True, timestamps=False, folder=None)
        code = max(code, report(await client.wait(view.name)))
    return code


def report(view: FrameworkView | None) -> ExitCode:
    """Say how a Framework has ended, and return the exit code of that; DONE if it has not ended."""
    result = view.result if view else None
    if view is None or result is None:
        return ExitCode.DONE
    by = f" by {result.task}" if result.task and not result.succeeded else ""
    end = "succeeded" if result.succeeded else f"failed{by}: {result.phrase} ({result.code})"
    say(sanitize(f"Framework {view.name} {end}"))
    if not result.succeeded:
        say(f"{sanitize(result.diagnostics)[:500]}")
    return ExitCode.DONE if result.succeeded else ExitCode.FAILED


async def wait_for(client: AsyncClient, name: str, goal: Goal, seconds: float | None) -> ExitCode:
    """Wait for a Framework and return the exit code.

    A Framework that has ended can become nothing else: it has failed, or the goal was not reached.
    """
    view = await client.wait(name, for_=goal, timeout=seconds)
    code = report(view)
    if view is None:
        say(f"Framework {name} is deleted")
    elif not view.finished:
        say(f"Framework {name} is {goal}")
    return code


async def retry(client: AsyncClient, name: str, task: str) -> None:
    """Begin another attempt."""

    def tell(file: Path) -> None:
        say(f"if this is interrupted, create Framework {name} again with: {program()} submit -f {file}")

    match await client.retry(name, task, on_kept=tell):
        case actions.DeletePod(pod):
            say(f"Pod {pod} is deleted; {task} gets another attempt")
        case actions.DeleteConfigMap():
            say(f"the attempt of Framework {name} ends; another one follows")
        case actions.SubmitAgain():
            write(f"{resource_name(name)} submitted again\n")


def numbers_of(assignments: Sequence[str]) -> dict[str, int]:
    """Return the numbers of Tasks by role of `worker=4 ps=2`.

    Raises:
        ArgumentError: One is not of this form.
    """
    found = {}
    for assignment in assignments:
        role, equals, number = assignment.partition("=")
        if not equals or not role or not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise ArgumentError(f"{assignment}: must be ROLE=NUMBER, like worker=4")
        found[role] = int(number)
    return found
