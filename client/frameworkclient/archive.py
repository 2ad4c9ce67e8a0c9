"""What the archive of the cluster (`frameworkhistory`) knows of Frameworks that do not exist any more."""

import ipaddress
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from frameworkclient.errors import (
    AccessError,
    ArgumentError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    UnreachableError,
)
from frameworkclient.version import __version__
from frameworkclient.views.events import EventView
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.text import sanitize
from frameworkcontroller.api.states import LedgerState
from frameworkkube.errors import ApiStatusError, CredentialsError, KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.paths import resource_path

ADDRESS: Final = "FRAMEWORKCTL_HISTORY"
TOKEN_FILE: Final = "FRAMEWORKCTL_HISTORY_TOKEN"  # noqa: S105 -- the name of a variable
CONFIG_MAP: Final = ("kube-public", "frameworkhistory")
NONE: Final = (
    "this cluster names no archive: name it with --history, or ask an administrator for history.url of the chart"
)
PAGE: Final = 1000
LOGS: Final = 5000
"""That the archive names at a time."""
TIMEOUT_SECONDS: Final = 60.0
_LABEL: Final = re.compile(r"[^=,!() ]+(=[^=,!() ]*)?")


# Files are named by it.
Label = Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,63}$")]


class Archived(msgspec.Struct, frozen=True):
    """A Framework in the list of the archive; times are aware datetimes in UTC.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: What identifies it, also from another one of the same name.
        created: When it was created.
        seen: When the archive has seen it last.
        deleted: When it was deleted, None if that was not seen.
        state: Its last state.
        ready: The Tasks that were ready, of all: `3/4`.
        attempts: Its attempts.
        result: `Succeeded` or `Failed`, "" before its end.
        phrase: How it has ended as a word, such as `ContainerPermanentFailed`.
        goodput: The share of its life that it has run, None if that is not known.
    """

    namespace: str
    name: str
    uid: str
    created: datetime
    seen: datetime
    deleted: datetime | None = None
    state: str = ""
    ready: str = ""
    attempts: int = 0
    result: str = ""
    phrase: str = ""
    goodput: float | None = None


class ArchivedLog(msgspec.Struct, frozen=True):
    """The log of one run of a container; without a `key` it is empty, or not kept, for which `gap` is the reason."""

    pod_uid: str
    container: Label
    restart: int
    attempt: int
    role: Label
    index: int
    run: int
    key: str = ""
    is_whole: bool = True
    gap: str = ""


@dataclass(frozen=True)
class Past:
    """A Framework as it was at a time, after which it was deleted or not seen any more; `gap` is what is not known."""

    view: FrameworkView
    time: datetime
    deleted: bool
    gap: str

    def __str__(self) -> str:
        why = "it was deleted then" if self.deleted else "it was not seen after that"
        gap = f"; not known: {sanitize(self.gap)}" if self.gap else ""
        return f"from the archive, as of {self.time:%Y-%m-%d %H:%M} UTC: {why}{gap}"


async def find(
    kube: KubeClient, user: Endpoint, url: str, token_file: str, environ: Mapping[str, str] = os.environ
) -> "Archive | None":
    """Return the archive at a URL, else at that of the environment, else at that of the cluster; None if there is none.

    `user` is who asks at the API server; the archive knows them by their token, or by that in `token_file`.

    Raises:
        ClientError: The URL cannot be used, or not with the token.
    """
    where = "--history" if url else ADDRESS
    if not (url := url or environ.get(ADDRESS, "")):
        where = f"ConfigMap {'/'.join(CONFIG_MAP)}"
        path = resource_path("v1", "configmaps", namespace=CONFIG_MAP[0], name=CONFIG_MAP[1])
        try:
            url = str(msgspec.json.decode(await kube.get(path))["data"]["url"])
        except (KubeError, msgspec.MsgspecError, LookupError, TypeError):
            return None
    return Archive(_endpoint(url, where, token_file or environ.get(TOKEN_FILE, ""), user))


def _endpoint(url: str, where: str, token_file: str, user: Endpoint) -> Endpoint:
    try:
        if token_file:
            found = Endpoint(url, token_file=Path(token_file))
        elif user.headers:
            raise AccessError("the archive knows you, not whom you act as: name their token with --history-token-file")
        else:
            bearer = user.authorization if (user.authorization or "").startswith("Bearer ") else None
            again = user.reload
            reload = None if again is None else lambda: _endpoint(url, where, "", again())
            found = Endpoint(url, token_file=user.token_file, authorization=bearer, reload=reload)
    except CredentialsError as error:
        raise ArgumentError(f"{where} {url}: must be an address such as https://history.example") from error
    if (found.token_file or found.authorization) and not _is_safe(url):
        raise AccessError(f"{where} {url}: your token would travel in clear text; use https, or kubectl port-forward")
    return found


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    try:
        return parts.scheme == "https" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"


class Archive:
    """The archive at one address, as one user."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = endpoint.server
        self._has_token = bool(endpoint.token_file or endpoint.authorization)
        self._http = KubeClient(endpoint, user_agent=f"frameworkctl/{__version__}", max_connections=32)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def list(self, namespace: str, label: str, since: datetime | None, limit: int) -> tuple[Archived, ...]:
        """Return Frameworks of a namespace ("": all that may be seen), the newest first."""
        if label and not _LABEL.fullmatch(label):
            raise ArgumentError(f"label {label}: the archive looks for one label, like team=vision or team")
        query = {"namespace": namespace, "label": label, "since": "" if since is None else since.isoformat()}
        found: list[Archived] = []
        with self._asking("list Frameworks"):
            while len(found) < limit:
                query["limit"] = str(min(PAGE, limit - len(found)))
                page = await self._get(query, dict[str, Any])
                found += map(_archived, page["frameworks"])
                if not page["frameworks"] or not (cursor := page.get("next")):
                    break
                query["before"] = str(cursor)
        return tuple(found)

    async def get(self, namespace: str, name: str, uid: str = "") -> Past:
        """Return a Framework as it was last; of several of one name the newest, unless a UID chooses."""
        with self._asking(f"get Framework {namespace}/{name}"):
            found = await self._get({"uid": uid}, dict[str, msgspec.Raw], namespace, name)
            about = msgspec.json.decode(found["archive"])
            time = datetime.fromtimestamp(about["deleted"] or about["seen"], UTC)
            return Past(FrameworkView.decode(bytes(found["framework"])), time, bool(about["deleted"]), about["gap"])

    async def events(self, view: FrameworkView) -> tuple[EventView, ...]:
        """Return the Events of a Framework that were seen, the oldest first."""
        with self._asking("list Events"):
            found = await self._get({"uid": view.uid}, dict[str, Any], view.namespace, view.name, "events")
            return tuple(event_of(row) for row in sorted(found["events"], key=lambda row: float(row["last"])))

    async def logs(self, view: FrameworkView, attempt: int, role: str, index: str) -> tuple[ArchivedLog, ...]:
        """Return which logs there are of an attempt, from 0; only of a role, or of a Task of it, unless it is ""."""
        query = {"uid": view.uid, "attempt": str(attempt), "role": role, "index": index}
        with self._asking("list logs"):
            found = await self._get(query, dict[str, list[ArchivedLog]], view.namespace, view.name, "logs")
        return tuple(found.get("logs", ()))

    async def log(self, view: FrameworkView, log: ArchivedLog) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a log: lines with their times."""
        path = _path(view.namespace, view.name, "logs", log.pod_uid, log.container, str(log.restart))
        with self._asking(f"read the log of {log.role}-{log.index}"):
            query, limit = {"uid": view.uid}, TIMEOUT_SECONDS
            chunks = self._http.chunks(path, query, accept="*/*", connect_timeout_seconds=limit)
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    async def _get(self, query: Mapping[str, str], kind: Any, *path: str) -> Any:
        given = {key: value for key, value in query.items() if value}
        body = await self._http.request("GET", _path(*path), query=given, timeout_seconds=TIMEOUT_SECONDS)
        return msgspec.json.decode(body, type=kind, strict=False)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Raise what goes wrong as an error that names the archive and what was to be done there."""
        try:
            yield
        except CredentialsError as error:
            raise AccessError(f"cannot {what}: {error}") from error
        except ApiStatusError as error:
            raise self._refused(what, error) from error
        except KubeError as error:
            raise UnreachableError(f"cannot {what}: the archive {self.url} cannot be reached: {error}") from error
        except (msgspec.MsgspecError, LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
            raise UnreachableError(f"cannot {what}: {self.url} does not answer as an archive does: {error}") from error

    def _refused(self, what: str, error: ApiStatusError) -> RefusedError:
        kind, text = RefusedError, sanitize(_sentence(error.message))
        match error.code:
            case 401 if not self._has_token:
                text = "it knows people by tokens, and your kubeconfig has none: give one by "
                text += "`kubectl create token NAME | frameworkctl ... --history-token-file /dev/stdin`"
            case 401:
                text = "it does not accept your token; log in again, or name another one with --history-token-file"
            case 403:
                kind = ForbiddenError
            case 404:
                kind = NotFoundError
            case code if code < 400:
                text = "it sends you elsewhere to sign in; name an address that takes the tokens of the cluster"
        return kind(f"cannot {what}: the archive {self.url}: {text}", error.code)


def _path(*parts: str) -> str:
    return "/".join(("/api/v1/frameworks", *(quote(part, safe="") for part in parts)))


def _sentence(body: str) -> str:
    """Return the sentence in a refusal."""
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return body


def event_of(row: Mapping[str, Any]) -> EventView:
    """Return the Event of a row of the archive."""
    kind, _, name = row["object"].partition(" ")
    told = {key: row[key] for key in ("type", "reason", "message", "count")}
    known = {"metadata": {"name": row["uid"]}, "involvedObject": {"kind": kind, "name": name}}
    times = {"firstTimestamp": row["first"], "lastTimestamp": row["last"]}
    return msgspec.convert(told | known | times, EventView, strict=False)


def goodput(row: Mapping[str, Any]) -> float | None:
    """Return the share of the time that a Framework, an attempt or many of them have run; None if it is not known."""
    life = sum(row.get(state) or 0.0 for state in (*LedgerState, "lost"))
    return row[LedgerState.RUNNING] / life if row.get("lost") is not None and life > 0 else None


def _archived(row: Mapping[str, Any]) -> Archived:
    given = {key: value for key, value in row.items() if value is not None}
    return msgspec.convert(given | {"goodput": goodput(row)}, Archived, strict=False)
