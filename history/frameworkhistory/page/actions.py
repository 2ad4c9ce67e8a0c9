"""Stop, retry, scale, suspend and resume: a page asks first, then the program does it for a person who may.

What is to be done is decided once, from the Framework as it is. The person's rights are asked for just that, and that
alone is done, on the instance that the person saw.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from frameworkclient.aio import AsyncClient
from frameworkclient.cluster import actions
from frameworkclient.cluster.again import perform
from frameworkclient.errors import ArgumentError, ClientError, RefusedError, translated
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.text import shorten
from frameworkcontroller.api import names
from frameworkhistory.page.people import PERSON, PageError, People
from frameworkhistory.page.security import Render, redirect
from frameworkkube.http.client import MERGE_PATCH
from frameworkkube.log import Logger
from frameworkkube.paths import resource_path

VERBS: Final = ("stop", "retry", "scale", "suspend", "resume")
WAIT_SECONDS: Final = 5.0
"""For which an answer waits for what is done; a Framework that is submitted again waits for its Pods to go."""
STOP_SECONDS: Final = 20.0
AT_ONCE: Final = 64
JSON_PATCH: Final = "application/json-patch+json"
_PATH: Final = f"/frameworks/{{namespace:[a-z0-9-]{{1,63}}}}/{{framework:[a-z0-9]{{1,63}}}}/{{verb:{'|'.join(VERBS)}}}"
_SPECS: Final = {"stop": {"executionType": "Stop"}, "suspend": {"suspend": True}, "resume": {"suspend": False}}
_SENTENCES: Final = {
    "stop": "It ends for good: its Pods are deleted, its status stays.",
    "suspend": "Its attempt ends, and none begins until it is resumed; no retry is counted for it.",
    "resume": "It goes on, with its next attempt.",
    "scale": "The roles get these numbers of Tasks, also while it runs.",
}
_log = Logger(__name__)


@dataclass(frozen=True)
class Change:
    """What is to be done to a Framework, or to a Task of it; a person needs rights such as `delete pods` for it."""

    view: FrameworkView
    verb: str
    action: actions.Retry | dict[str, Any] | list[dict[str, Any]]
    rights: Sequence[str]
    sentence: str
    task: str = ""


def change_of(view: FrameworkView, verb: str, fields: Mapping[str, Any]) -> Change:
    """Return what a verb means for a Framework; `task` and `tasks-ROLE` are fields of the form.

    Raises:
        ArgumentError: It means nothing for this one now; the message says why.
    """
    patch = [f"patch {names.PLURAL}"]
    if view.deleting:
        raise ArgumentError(f"Framework {view.name}: it is being deleted")
    if verb == "retry":
        return _retry(view, str(fields.get("task", "")))
    if view.finished:
        raise ArgumentError(f"Framework {view.name}: it is Completed; it can only be retried")
    if verb == "scale":
        numbers = {key.removeprefix("tasks-"): str(value) for key, value in fields.items() if key.startswith("tasks-")}
        if wrong := [one for one in numbers.values() if not (one.isascii() and one.isdigit() and len(one) < 10)]:
            raise ArgumentError(f"scale: {shorten(wrong[0], 20)} is not a number of Tasks")
        test = {"op": "test", "path": "/metadata/uid", "value": view.uid}
        scaled = actions.scale_patch(view, {role: int(one) for role, one in numbers.items()}) if numbers else []
        return Change(view, verb, [test, *scaled], patch, _SENTENCES[verb])
    if view.spec.execution_type == "Stop":
        raise ArgumentError(f"Framework {view.name}: it was stopped, which is final")
    if verb != "stop" and bool(view.spec.suspend) == (verb == "suspend"):
        raise ArgumentError(f"Framework {view.name}: it is {'' if verb == 'suspend' else 'not '}suspended")
    return Change(view, verb, {"metadata": {"uid": view.uid}, "spec": _SPECS[verb]}, patch, _SENTENCES[verb])


def _retry(view: FrameworkView, task: str) -> Change:
    action = actions.retry_of(view, task)
    match action:
        case actions.DeletePod(pod):
            rights, sentence = ["delete pods"], f"Pod {pod} is deleted, and the controller begins another attempt."
        case actions.DeleteConfigMap():
            rights, sentence = ["delete configmaps"], "Its attempt ends: the Pods are deleted. The next one begins."
        case actions.SubmitAgain():
            rights = [f"delete {names.PLURAL}", f"create {names.PLURAL}"]
            rights += ["patch configmaps"] if actions.code_of(view) else []
            sentence = "It is deleted and created again from its spec. What it was stays in the archive."
    return Change(view, "retry", action, rights, sentence, task)


def possible(view: FrameworkView, task: str = "") -> list[str]:
    """Return the verbs that mean something for a Framework now, or for a Task of it, for the buttons of its page."""
    found = list[str]()
    for verb in ("retry",) if task else VERBS:
        with contextlib.suppress(ArgumentError):
            found.append(change_of(view, verb, {"task": task}).verb)
    return found


def setup(app: web.Application, people: People, client: AsyncClient, render: Render) -> None:
    """Add the pages of the verbs to an application; `client` acts with the rights of this program."""
    pages = _Pages(people, client, render)
    app.router.add_get(_PATH, pages.ask)
    app.router.add_post(_PATH, pages.do)
    app.on_shutdown.append(pages.finish)


class _Pages:
    def __init__(self, people: People, client: AsyncClient, render: Render) -> None:
        self._people, self._client, self._render = people, client, render
        self._running: set[asyncio.Task[PageError | None]] = set()

    async def ask(self, request: web.Request) -> web.Response:
        """Show what would happen, with the form that does it."""
        change = await self._decide(request, request.query)
        roles = change.view.spec.task_roles or () if change.verb == "scale" else ()
        return self._render(request, "confirm.html", view=change.view, change=change, roles=roles)

    async def do(self, request: web.Request) -> web.Response:
        """Do it, and show the Framework."""
        fields = await request.post()
        if not fields.get("uid"):
            raise PageError(400, "The form says of no Framework which one it is.")
        try:
            change = await self._decide(request, fields)
        except PageError as error:
            _audit(request, fields, error)
            raise
        if len(self._running) >= AT_ONCE:
            raise PageError(503, "Too many Frameworks are being changed; try again in a minute.")
        # What has begun is done, whether the person waits for it or not.
        task = asyncio.create_task(self._perform(request, change))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task}, timeout=WAIT_SECONDS)
        if done and (refused := task.result()) is not None:
            raise refused
        same = "" if isinstance(change.action, actions.SubmitAgain) else f"&uid={change.view.uid}"
        return redirect(f"/frameworks/{change.view.namespace}/{change.view.name}?done={change.verb}{same}")

    async def finish(self, _app: web.Application) -> None:
        """Wait for what is being done."""
        if self._running:
            await asyncio.wait(self._running, timeout=STOP_SECONDS)

    async def _decide(self, request: web.Request, fields: Mapping[str, Any]) -> Change:
        """Return what is to be done to a Framework, if it is the one that the person saw, and they may do it."""
        namespace, name, verb = (request.match_info[key] for key in ("namespace", "framework", "verb"))
        await self._people.require(request[PERSON], "get", namespace)
        try:
            view = await self._client.get(name, namespace=namespace)
            if fields.get("uid", "") not in {"", view.uid}:
                raise PageError(409, f"Framework {name} was created again since: this is not the one you saw.")
            change = change_of(view, verb, fields)
        except ClientError as error:
            raise _told(error) from error
        for right in change.rights:
            may, what = right.split()
            await self._people.require(request[PERSON], may, namespace, what)
        return change

    async def _perform(self, request: web.Request, change: Change) -> PageError | None:
        """Do it, log it, and return why it was not done."""
        kept, refused, view = list[Path](), None, change.view
        try:
            if isinstance(change.action, dict | list):
                path = resource_path(names.API_VERSION, names.PLURAL, namespace=view.namespace, name=view.name)
                kind = JSON_PATCH if isinstance(change.action, list) else MERGE_PATCH
                with translated(f"{change.verb} Framework {view.namespace}/{view.name}"):
                    body = msgspec.json.encode(change.action)
                    await self._client.kube.patch(path, body, content_type=kind)
            else:
                await perform(self._client, view, change.action, change.task, kept.append)
        except ClientError as error:
            _log.warning("a change failed", error=str(error))
            refused = _told(error)
            if kept and kept[0].exists():
                told = "It is deleted, or being deleted, and could not be created again; its spec is in the archive."
                refused = PageError(503, told)
        _audit(request, {"uid": view.uid, "task": change.task}, refused)
        return refused


def _told(error: ClientError) -> PageError:
    """Return for a person what the API server, or the client, has said."""
    text = f"{shorten(str(error)[:1].upper() + str(error)[1:], 600)}."
    if isinstance(error, ArgumentError):
        return PageError(422, text)
    if isinstance(error, RefusedError):
        return PageError(error.code if error.code in {403, 404, 409, 422} else 503, text)
    # Its text has addresses.
    return PageError(503, "The API server does not answer; look at the Framework to see whether it has happened.")


def _audit(request: web.Request, fields: Mapping[str, Any], refused: PageError | None) -> None:
    """Log who has done what, or wanted to."""
    outcome = "done" if refused is None else f"{refused.status} {refused.sentence}"
    line = request.match_info | {key: shorten(str(fields.get(key, "")), 80) for key in ("uid", "task")}
    _log.info("a person changes a Framework", person=request[PERSON].user, **line, outcome=outcome)
