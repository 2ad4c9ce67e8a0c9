"""The commands that change something: `submit`, `delete`, `wait`, `retry`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import LogFlags
from frameworkclient.cli.output import write_done
from frameworkclient.cli.terminal import program, say
from frameworkclient.cluster import actions
from frameworkclient.errors import ArgumentError, ManifestError, NotFoundError
from frameworkclient.model.set_field import set_field
from frameworkclient.model.yaml_text import documents
from frameworkclient.views.outlook import cause
from frameworkclient.views.text import sanitize
from frameworkcontroller.api import names
from frameworkcontroller.api.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkclient.aio import AsyncClient
    from frameworkclient.cluster.actions import Goal
    from frameworkclient.model.code import Code
    from frameworkclient.views.framework import FrameworkView


FETCH_SECONDS: Final = 30
FETCH_BYTES: Final = 16 * 1024 * 1024


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
        entries = document.get("items") or [] if _kind(document) == "List" else [document]
        if not isinstance(entries, list):
            raise ManifestError(f"{where}: items: must be a list")
        for one in entries:
            if _kind(one) == names.KIND:
                found.append((where, one))
            elif not others:
                raise ManifestError(
                    f"{where}: its kind is {_kind(one) or 'missing'}, and this takes only Frameworks; "
                    "use kubectl apply -f for the others"
                )
    if not found:
        sources = ", ".join("stdin" if file == "-" else file for file in files)
        raise ManifestError(f"{sources}: there is no Framework in it")
    for _, manifest in found:
        for assignment in settings or ():
            set_field(manifest, assignment)
    return found


def documents_in(files: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the documents of files, of the files of folders and of URLs, each with where it stands; `-` is stdin.

    Raises:
        ManifestError: A file is not valid YAML, a folder has none, or there is nothing at an URL.
    """
    for file in files:
        for source, data in _sources(file):
            try:
                text = data.decode()
            except UnicodeDecodeError as error:
                raise ManifestError(f"{source}: is not text in UTF-8") from error
            for number, document in enumerate(documents(text, source), 1):
                yield f"{source}, document {number}", document


def _sources(file: str) -> Iterator[tuple[str, bytes]]:
    """Yield what is read for one `-f`: kubectl's rules for folders and URLs hold."""
    if file == "-":
        yield "stdin", sys.stdin.read().encode()
    elif file.startswith(("http://", "https://")):
        yield file, _fetched(file)
    elif (folder := Path(file)).is_dir():
        found = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml", ".json"})
        if not found:
            raise ManifestError(f"{file}: there is no file *.yaml, *.yml or *.json in this folder")
        for path in found:
            yield str(path), _read(str(path))
    else:
        yield file, _read(file)


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror}") from error


def _fetched(url: str) -> bytes:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=FETCH_SECONDS) as answer:  # noqa: S310 -- of these two schemes only
            data: bytes = answer.read(FETCH_BYTES + 1)
    except (OSError, HTTPException) as error:
        raise ManifestError(f"{url}: {getattr(error, 'reason', error)}") from error
    if len(data) > FETCH_BYTES:
        raise ManifestError(f"{url}: has more than {FETCH_BYTES} bytes")
    return data


def _kind(document: Any) -> str:
    return str(document.get("kind") or "") if isinstance(document, dict) else ""


def check_namespaces(manifests: Sequence[tuple[str, dict[str, Any]]], namespace: str | None) -> None:
    """Return if no manifest names another namespace than the flag `-n`, or there is no such flag.

    Raises:
        ArgumentError: One does.
        ManifestError: The metadata of one are no object.
    """
    for where, manifest in manifests:
        metadata = manifest.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise ManifestError(f"{where}: metadata: must be an object")
        own = metadata.get("namespace")
        if namespace and own and own != namespace:
            raise ArgumentError(f"-n {namespace}: {where} says {own} in metadata.namespace; remove one of them")


async def submit(
    client: AsyncClient,
    manifests: Sequence[dict[str, Any]],
    code: Sequence[Code],
    created: list[tuple[str, str]],
    *,
    dry_run: bool,
    wait: bool,
    logs: bool,
) -> ExitCode:
    """Create Frameworks, each with the code; with `wait` or `logs`, stay until they are Completed.

    The namespaces and names of those that there are then are added to `created`.

    Raises:
        ClientError: One is refused; those before it were created.
    """
    for manifest in manifests:
        view = await client.create(manifest, code=code, dry_run=dry_run)
        if not dry_run:
            created.append((view.namespace, view.name))
        write_done(view.namespace, view.name, "created (dry run)" if dry_run else "created")
    ending = ExitCode.DONE
    if dry_run or not (wait or logs):
        return ending
    from frameworkclient.cli.commands.reading import write_logs

    for namespace, name in created:
        client.namespace = namespace
        if logs:
            await write_logs(client, name, LogFlags(follow=True))
        ending = max(ending, report(await client.wait(name)))
    return ending


async def delete(
    client: AsyncClient,
    names: Sequence[str],
    manifests: Sequence[tuple[str, dict[str, Any]]],
    selector: str,
    *,
    wait: bool,
    timeout: float | None,  # noqa: ASYNC109 -- as of `Client`
) -> ExitCode:
    """Delete Frameworks by name, of manifests, or by labels; then, if `wait`, stay until all are gone.

    Those that are not there are named; ERROR if there are any.

    Raises:
        ClientError: One cannot be deleted; those before it were.
    """
    chosen: list[tuple[str | None, str]] = [(None, name) for name in names]
    for where, manifest in manifests:
        metadata = manifest.get("metadata") or {}
        if not metadata.get("name"):
            raise ManifestError(f"{where}: metadata.name is missing")
        chosen.append((metadata.get("namespace"), metadata["name"]))
    if selector:
        found = await client.list(label_selector=selector)
        chosen += [(view.namespace, view.name) for view in found]
        if not found:
            say(f"No Frameworks with {selector} in namespace {client.namespace}.")
    going, ending = [], ExitCode.DONE
    for namespace, name in chosen:
        try:
            view = await client.delete(name, namespace=namespace)
        except NotFoundError as error:
            say(f"{program()}: {error}")
            ending = ExitCode.ERROR
            continue
        write_done(view.namespace, name, "deleted")
        going.append(view)
    deadline = None if timeout is None else time.monotonic() + timeout
    if going and wait:
        say("waiting until all their Pods are gone; --no-wait does not")
    for view in going if wait else ():
        await client.gone(view, None if deadline is None else max(0.0, deadline - time.monotonic()))
    return ending


async def scale(client: AsyncClient, name: str, numbers: dict[str, int]) -> FrameworkView:
    """Change numbers of Tasks, and say what Pods that run do not learn of it."""
    view = await client.scale(name, numbers)
    roles = [role for role in view.to_dict()["spec"]["taskRoles"] if role["name"] in numbers]
    pods = [role["task"]["pod"].get("metadata") or {} for role in roles]
    if view.state in {State.PREPARING, State.RUNNING} and any(
        (one.get("labels") or {}).get(names.BARRIER_LABEL) == "enabled"
        and (one.get("annotations") or {}).get(names.RESTART_ANNOTATION) != names.IN_PLACE
        for one in pods
    ):
        say(
            "note: Pods that run keep what they know of the gang, such as WORLD_SIZE; "
            "a rescale restarts all of a gang that was run with --restart in-place"
        )
    return view


def report(view: FrameworkView | None) -> ExitCode:
    """Say how a Framework has ended, and return the exit code of that; DONE if it has not ended."""
    result = view.result if view else None
    if view is None or result is None:
        return ExitCode.DONE
    why = "" if result.succeeded else cause(view)
    say(sanitize(f"Framework {view.name} {'succeeded' if result.succeeded else f'failed{why}'}"))
    if why.endswith(f"{result.phrase} ({result.code})"):
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
            write_done(client.namespace, name, "submitted again")


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
