"""Who asks and what they may: persons and their rights are what the API server says, asked again after seconds.

The page knows a person by a bearer token, by what an authenticating proxy says, by a session that began with a token,
or, in local mode, by a key, as the user of its own kubeconfig. While the API server does not answer, nobody is anybody
and nothing is allowed.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextvars import ContextVar
from itertools import compress
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
from aiohttp import web

from frameworkcontroller.api import names
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.log import Logger

TOKEN_SECONDS: Final = 30.0
REFUSED_SECONDS: Final = 2.0
RIGHT_SECONDS: Final = 10.0
SESSION_SECONDS: Final = 8 * 3600.0
IDLE_SECONDS: Final = 3600.0
SESSIONS: Final = 4096
SESSIONS_OF_ONE: Final = 16
NAMESPACE: Final = 63  # characters of a name of a namespace
AT_ONCE: Final = 16  # rights of one person that are asked at the same time
_ASKED: Final = 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_LOOPBACK: Final = re.compile(r"(?i:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_log = Logger(__name__)
V = TypeVar("V")


class PageError(Exception):
    """A request is refused, with this HTTP status; the sentence says why, and nothing that the person may not know."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Person(msgspec.Struct, frozen=True):
    """A user, as the API server knows them; without a name it is nobody."""

    user: str = msgspec.field(default="", name="username")
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = {}

    def __hash__(self) -> int:
        # A user may have any number of tokens, of which `extra` alone says which one it is.
        return hash((self.user, self.groups, self.uid, frozenset(self.extra.items())))


PERSON: Final = web.RequestKey("person", Person)
"""Who has sent a request; each has it but those of `/signin` and `/static`."""
READER: Final = ContextVar("READER", default="")
"""The name of that person while it is answered."""
SESSION: Final = web.RequestKey("session", str)
"""The key of the session that a request belongs to, if it is one of a session."""


class Answers(Generic[V]):
    """Answers of the API server, each for some seconds since it was asked; who asks what is asked waits for that.

    What is false or None has other seconds and room of its own: a flood of wrong tokens drives nobody out. Of either
    sort as many as `entries` are kept.
    """

    def __init__(self, entries: int, seconds: float, refused_seconds: float, clock: Callable[[], float]) -> None:
        self._entries, self._seconds, self._clock = entries, (refused_seconds, seconds), clock
        self._rooms: tuple[dict[Hashable, tuple[float, V]], ...] = ({}, {})
        self._asked: dict[Hashable, asyncio.Task[V]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer of this key; `ask` is called if there is none."""
        now = self._clock()
        for room in self._rooms:
            if key in room and now < room[key][0]:
                return room[key][1]
        if key not in self._asked:
            if len(self._asked) >= _ASKED:
                raise PageError(503, "Too many people ask at once; try again in a few seconds.")
            self._asked[key] = asyncio.create_task(self._ask(key, ask, now))
        # Who asked first may leave; the others wait on.
        return await asyncio.shield(self._asked[key])

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[V]], now: float) -> V:
        try:
            value = await ask()
        finally:
            del self._asked[key]
        for room in self._rooms:
            room.pop(key, None)
        room = self._rooms[bool(value)]
        while len(room) >= self._entries:
            del room[next(iter(room))]
        room[key] = (now + self._seconds[bool(value)], value)
        return value


class _Status(msgspec.Struct, rename="camel"):
    authenticated: bool = False
    user: Person = Person()
    user_info: Person = Person()
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class People:
    """The persons who use the page.

    Args:
        client: May create TokenReviews and SubjectAccessReviews; in local mode the client of the one person.
        password_file: What an authenticating proxy sends as its password, read each time. None: no proxy.
        key: In local mode, whoever has it is the user of `client`, whose rights are asked as one's own; "": not local.
        clock: Monotonic seconds.

    Attributes:
        is_local: Whether the page is for one person, who has a key.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        password_file: Path | None = None,
        key: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._password_file, self._clock = client, password_file, clock
        self._key, self.is_local = key.encode(), bool(key)
        self._persons = Answers[Person | None](4096, TOKEN_SECONDS, REFUSED_SECONDS, clock)
        self._rights = Answers[bool](16_384, RIGHT_SECONDS, RIGHT_SECONDS, clock)
        # Token and user by what the browser has, with when it ends at the latest, and when if it is not used.
        self._sessions: dict[str, tuple[str, str, float, float]] = {}

    # --- who ---------------------------------------------------------------------------------------------------------

    async def identify(self, request: web.Request) -> Person:
        """Return who has sent a request, which says so as `PERSON`; a claim that fails is not made up by another.

        Raises:
            PageError: Nobody is known by it, the API server does not answer, or a proxy names whom it may not name.
        """
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        person = None
        match scheme.lower():
            case "bearer":
                person = await self.of_token(value.strip())
            case "basic":
                person = self._of_proxy(value.strip(), request.headers.getall("X-Forwarded-Groups", ()))
            case "":
                person = await self._of_session(request)
        if person is None:
            raise PageError(401, "Sign in to see this.")
        request[PERSON] = person
        READER.set(person.user)
        return person

    def check_host(self, request: web.Request) -> None:
        """Refuse, in local mode, a request to a name that is not of loopback: a page of that name may have sent it."""
        if self.is_local and not _LOOPBACK.fullmatch(request.headers.get("Host", "")):
            raise PageError(403, "This page is for this machine alone: open it as localhost.")

    async def of_token(self, token: str) -> Person | None:
        """Return whose bearer token this is, None for nobody's."""
        if not _TOKEN.fullmatch(token):
            return None
        if self.is_local:
            is_it = hmac.compare_digest(token.encode(), self._key)
            return await self._persons.get(b"", self._myself) if is_it else None
        return await self._persons.get(hashlib.sha256(token.encode()).digest(), lambda: self._reviewed(token))

    async def _reviewed(self, token: str) -> Person | None:
        found = await self._review("authentication.k8s.io", "TokenReview", {"token": token})
        return found.user if found.authenticated and found.user.user else None

    async def _myself(self) -> Person | None:
        found = (await self._review("authentication.k8s.io", "SelfSubjectReview", {})).user_info
        return found if found.user else None

    def _of_proxy(self, credentials: str, groups: Iterable[str]) -> Person | None:
        try:
            user, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except ValueError:
            return None
        expected = self._secret()
        if not expected or not hmac.compare_digest(password.encode(), expected):
            return None
        found = [group.strip() for header in groups for group in header.split(",") if group.strip()]
        if not user or any(name.startswith("system:") or not name.isprintable() for name in (user, *found)):
            told = "The proxy names nobody, or a user or group of Kubernetes' own, which begin with system:."
            raise PageError(403, told)
        # The API server adds this group for whom it knows itself.
        return Person(user, (*dict.fromkeys(found), "system:authenticated"))

    def _secret(self) -> bytes:
        try:
            return b"" if self._password_file is None else self._password_file.read_bytes().strip()
        except OSError as error:
            _log.warning("the password of the proxy cannot be read", file=str(self._password_file), error=str(error))
            return b""

    # --- sessions ----------------------------------------------------------------------------------------------------

    async def _of_session(self, request: web.Request) -> Person | None:
        key, now = _session_key(request), self._clock()
        token, user, ends, idle = self._sessions.pop(key, ("", "", 0.0, 0.0))
        if now >= min(ends, idle):
            return None
        # The last one is the one that was used last.
        self._sessions[key] = token, user, ends, now + IDLE_SECONDS
        person = await self.of_token(token)
        if person is None:
            self._sessions.pop(key, None)
        else:
            request[SESSION] = key
        return person

    def begin_session(self, person: Person, token: str) -> str:
        """Return the secret of a new session; it ends 8 h from now, an hour after its last use, or with its token."""
        now, own = self._clock(), [key for key, (_, user, *_) in self._sessions.items() if user == person.user]
        for key in own[: max(0, len(own) + 1 - SESSIONS_OF_ONE)]:
            del self._sessions[key]
        while len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        self._sessions[_hashed(secret)] = token, person.user, now + SESSION_SECONDS, now + IDLE_SECONDS
        return secret

    def end_session(self, request: web.Request) -> None:
        """End the session of a request, if it has one."""
        self._sessions.pop(_session_key(request), None)

    # --- what --------------------------------------------------------------------------------------------------------

    async def may(self, person: Person, verb: str, namespace: str, what: str = names.PLURAL) -> bool:
        """Report whether a person may do this in a namespace, in all of them for ""; a `PageError` if nobody knows.

        `what` is a resource, or a part of one: `pods/log`.
        """
        if len(namespace) > NAMESPACE:
            return False  # there is none, and the archive would look for another one, whose name it begins with
        key = (person, verb, namespace, what)
        return await self._rights.get(key, lambda: self._allowed(*key))

    async def require(self, person: Person, verb: str, namespace: str, what: str = names.PLURAL) -> None:
        """Return if a person may do this, else raise a `PageError` that names what they may not."""
        if not await self.may(person, verb, namespace, what):
            where = f"namespace {namespace}" if namespace else "all namespaces"
            raise PageError(403, f"You may not {verb} {what} in {where}.")

    async def namespaces(self, person: Person, known: list[str]) -> frozenset[str] | None:
        """Return of which of these namespaces a person may list the Frameworks, None for all there are."""
        if await self.may(person, "list", ""):
            return None
        places = asyncio.Semaphore(AT_ONCE)

        async def may(namespace: str) -> bool:
            async with places:
                return await self.may(person, "list", namespace)

        allowed = await asyncio.gather(*map(may, known))
        return frozenset(compress(known, allowed))

    async def _allowed(self, person: Person, verb: str, namespace: str, what: str) -> bool:
        resource, _, subresource = what.partition("/")
        attributes = {"verb": verb, "namespace": namespace, "resource": resource, "subresource": subresource}
        attributes["group"] = names.GROUP if resource == names.PLURAL else ""
        spec: dict[str, object] = {"resourceAttributes": attributes}
        if not self.is_local:
            spec |= {"user": person.user, "groups": person.groups, "uid": person.uid, "extra": person.extra}
        kind = "SelfSubjectAccessReview" if self.is_local else "SubjectAccessReview"
        return (await self._review("authorization.k8s.io", kind, spec)).allowed

    async def _review(self, group: str, kind: str, spec: dict[str, object]) -> _Status:
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        try:
            answer = await self._client.request("POST", f"/apis/{group}/v1/{kind.lower()}s", body=body)
            return msgspec.json.decode(answer, type=_Review).status
        except (KubeError, msgspec.MsgspecError) as error:
            _log.warning("no answer to a review", kind=kind, error=str(error))
            told = "The API server cannot be asked who you are and what you may; try again in a minute."
            raise PageError(503, told) from error


def is_secure(request: web.Request) -> bool:
    """Report whether the browser speaks TLS, to this process or to a proxy before it."""
    forwarded = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
    return request.secure or forwarded == "https"


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie of a session; behind TLS no other host and no plain page can set it."""
    return f"{'__Host-' if is_secure(request) else ''}frameworkhistory"


def _session_key(request: web.Request) -> str:
    return _hashed(request.cookies.get(cookie_name(request), ""))


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
