"""What all pages share: what they are made of, what a person may see, threads for the archive, and the frame."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from frameworkclient.logs.lines import LogBatch
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.reader import Reader
from frameworkhistory.logs.storage import Storage
from frameworkhistory.page.feed import Feed
from frameworkhistory.page.people import PERSON, READER, SESSION, PageError, People
from frameworkhistory.page.render import ENVIRONMENT
from frameworkhistory.page.security import csrf_token
from frameworkkube.log import Logger
from frameworkkube.slots import Slots

READS: Final = 8  # threads that read the archive at a time
READS_OF_ONE: Final = 4  # of one person
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # that databases have
_NUMBER: Final = msgspec.json.Decoder(Number)
_log = Logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Site:
    """Everything that a page is made of.

    Attributes:
        seen: Returns a Framework of a namespace and a name as it was seen last, None if it does not exist.
        pods: Returns its Pods by Task.
        log: Yields what the containers of Pods have written, as `frameworkclient.logs.collector.read_logs` does.
        log_link: Where else logs are: a URL with any of `{namespace}`, `{name}` and `{pod}`; "" for nowhere.
        clock: Seconds since 1970.
        has_actions: Whether the pages of `actions` are there.
    """

    reader: Reader
    people: People
    seen: Callable[[str, str], Framework | None]
    pods: Callable[[str, str], Mapping[str, TaskPod]]
    log: Callable[[str, list[TaskPod], LogSelection], AsyncGenerator[LogBatch, None]]
    storage: Storage
    feed: Feed
    log_link: str = ""
    clock: Callable[[], float] = time.time
    has_actions: bool = True
    _turns: Slots = field(default_factory=lambda: Slots(READS_OF_ONE, READS))

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what waits for a database, or takes the time of a processor, in a thread.

        Whoever asks for many pages at once waits behind themselves: they take no more than half of the turns.
        """
        async with self._turns.of(READER.get()):
            try:
                return await asyncio.to_thread(function, *args, **kwargs)
            except (DBAPIError, PoolTimeoutError) as error:
                _log.warning("the archive cannot be read", error=type(error).__name__)
                raise PageError(503, "The archive cannot be read now; try again in a minute.") from error

    async def visible(self, request: web.Request, namespace: str) -> frozenset[str] | None:
        """Return where a person may list Frameworks, None for everywhere; a `PageError` if not in one that is named."""
        if not namespace:
            return await self.people.namespaces(request[PERSON], await self.read(self.reader.namespaces))
        await self.people.require(request[PERSON], "list", namespace)
        return frozenset({namespace})

    async def framework(self, request: web.Request, *more: str) -> Row:
        """Return the Framework of a path; a `PageError` if there is none, or the person may not get it or `more`."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        for what in (names.PLURAL, *more):
            await self.people.require(request[PERSON], "get", namespace, what)
        row = await self.read(self.reader.framework, namespace, name, request.query.get("uid", ""))
        if row is None:
            raise PageError(404, "The archive knows no such Framework.")
        return row

    def current(self, row: Row) -> FrameworkView | None:
        """Return what the API server has of a Framework, None if it is gone."""
        found = self.seen(row["namespace"], row["name"])
        return FrameworkView(found) if found is not None and found.metadata.uid == row["uid"] else None

    def elsewhere(self, row: Row, pod: str) -> str:
        """Return where else the logs of a Pod are, "" for nowhere."""
        link = self.log_link
        for key, value in {"namespace": row["namespace"], "name": row["name"], "pod": pod}.items():
            link = link.replace(f"{{{key}}}", quote(value, safe=""))
        return link

    def render(self, request: web.Request, template: str, /, *, status: int = 200, **values: Any) -> web.Response:
        """Return the page of a template."""
        person = request.get(PERSON)
        common: Row = {"now": self.clock(), "path": request.path, "person": person, "url": url}
        common["has_session"] = SESSION in request
        common |= {"csrf": csrf_token(request) if person else "", "q": lambda key: request.query.get(key, "")}
        text = ENVIRONMENT.get_template(template).render(common | values)
        return web.Response(text=text, content_type="text/html", status=status)


def url(row: Mapping[str, Any], *parts: object, **query: object) -> str:
    """Return the path of a page about a Framework, this very instance of it."""
    path = "/".join(quote(str(part), safe="") for part in (row["namespace"], row["name"], *parts))
    wanted = {key: value for key, value in {"uid": row["uid"], **query}.items() if value not in {"", None}}
    return f"/frameworks/{path}?{urlencode(wanted)}"


def asked(request: web.Request, key: str, read: Callable[[str], T], what: str) -> T | None:
    """Return what a query says under a key, None for nothing; a `PageError` if it is not `what` it must be."""
    text = request.query.get(key)
    try:
        return read(text) if text else None
    except (ValueError, OverflowError, OSError) as error:
        raise PageError(400, f"{key}: must be {what}.") from error


def number_of(request: web.Request, key: str) -> int | None:
    """Return a number of a query; see `asked`."""
    return asked(request, key, _NUMBER.decode, "a number")


def time_of(request: web.Request, key: str) -> float | None:
    """Return a time of a query in seconds from 1970 to the year 9999; see `asked`."""
    return asked(request, key, _time, "a date such as 2026-01-31, or seconds since 1970")


def _time(text: str) -> float:
    """Return a time that is said in seconds or by ISO 8601, there in UTC by default."""
    found = datetime.fromtimestamp(float(text), UTC) if text.isdigit() else datetime.fromisoformat(text)
    seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if seconds < 0:
        raise ValueError(text)
    return seconds
