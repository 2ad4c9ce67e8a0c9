"""One HTTP exchange with the API server: flow control, current credentials, metrics, errors by meaning."""

import contextlib
import io
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from frameworkkube.errors import ApiStatusError, UnauthorizedError, error_of
from frameworkkube.http.credentials import Endpoint
from frameworkkube.http.flow_control import FlowControl
from frameworkkube.http.rotation import RotatingCredentials
from frameworkkube.http.session import Sockets, new_session

_LARGE_BODY_BYTES = 1 << 20
_MAX_ERROR_BYTES = 1 << 20

REQUESTS, STREAMS = 0, 1
"""The two connection pools: a hundred waiting writes must not keep a watch from reconnecting."""


class RequestObserver(Protocol):
    """Counts requests, as `rest_client_requests_total{code,method,host}` and `rest_client_request_duration_seconds`."""

    def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
        """Count one HTTP exchange with `host:port` that has ended.

        The code is that of the status, or `<error>` when there was no answer (client-go's label). The time ends with
        the status line; reading the body is not included.
        """


class Transport:
    """The connections to one API server. Create and use them inside one running event loop, close them at the end.

    Args:
        endpoint: the server and the credentials.
        user_agent: shown by the server's audit log.
        max_connections: for requests; watches are not counted.
        observer: counts requests.
        may_write: asked as the bytes of a write go out, after every wait; where not, `NotSentError` is raised.
        throttle: waits until one more request may be sent; requests that pass a pause of the server pass it, too.
        clock: monotonic seconds.
        wall_clock: Unix seconds, only to read a `Retry-After` that is a date.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str = "frameworkcontroller",
        max_connections: int = 128,
        observer: RequestObserver | None = None,
        may_write: Callable[[], bool] | None = None,
        throttle: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._credentials = RotatingCredentials(endpoint, clock)
        self._flow_control = FlowControl(clock)
        self._observer = observer
        self._may_write = may_write
        self._throttle = throttle
        self._clock = clock
        self._wall_clock = wall_clock
        self._user_agent = user_agent
        self._max_connections = max_connections
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None
        self._sockets = Sockets()

    async def close(self) -> None:
        """Close all connections; an open watch ends with a TransportError."""
        sessions, self._sessions = self._sessions, None
        for session in sessions or ():
            await session.close()
        await self._sockets.close()

    async def _open(
        self,
        kind: int,
        method: str,
        url: str,
        headers: dict[str, str],
        body: bytes | None,
        *,
        flow_controlled: bool = True,
    ) -> aiohttp.ClientResponse:
        """Pass flow control, send, and return the open 2xx answer; the caller closes it.

        `kind` is `REQUESTS` or `STREAMS`; `url` is path and query, encoded. `Authorization` is added to the headers
        here.

        Raises:
            ApiStatusError, CredentialsError: see `KubeClient.request`.
            aiohttp.ClientError, OSError: there was no answer.
        """
        probing = await self._flow_control.enter() if flow_controlled else False
        answered = False
        try:
            answer = await self._try(kind, method, url, headers, body)
            if isinstance(answer, UnauthorizedError) and await self._credentials.refused(headers.get("Authorization")):
                answer = await self._try(kind, method, url, headers, body)
            answered = True
            if not isinstance(answer, ApiStatusError):
                return answer
            # Flow control answers in plain text. A Status is about one object or collection, such as one whose cache is
            # not ready: it is no reason to leave the server alone, and neither is what a webhook says.
            is_for_all = not answer.status and not answer.by_webhook
            if answer.code in {429, 503} and answer.retry_after_seconds and is_for_all:
                self._flow_control.pause(answer.retry_after_seconds)
            try:
                raise answer
            finally:
                # Its traceback leads here: the two would keep each other, and the body, until cycles are looked for.
                del answer
        finally:
            if probing:
                self._flow_control.leave(answered=answered)

    async def _try(
        self, kind: int, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse | ApiStatusError:
        """Send once; return the open 2xx answer, or the refusal."""
        response = await self._send(kind, method, url, headers, body)
        if response.status < 300:
            return response
        async with response:
            return await self._error_of(response)

    async def _send(
        self, kind: int, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        endpoint = self._credentials.endpoint
        authorization = self._credentials.token.current()
        if authorization is not None:
            headers["Authorization"] = authorization
        started = self._clock()
        code = "<error>"
        try:
            response = await self._session(kind).request(
                method,
                URL(endpoint.server + url, encoded=True),
                # aiohttp warns about large bytes; it sends a file in pieces.
                data=io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body,
                headers=CIMultiDict([*endpoint.headers, *headers.items()]),
                # Part of the pool's key: after a rotation no connection of the old CA or certificate is reused.
                ssl=self._credentials.tls.current(),
                server_hostname=endpoint.tls_server_name,
                proxy=endpoint.proxy,
                allow_redirects=False,
            )
            code = str(response.status)
        except aiohttp.ClientSSLError:
            # The server's certificate was not accepted, so the CA may have been rotated.
            self._credentials.tls.read_again()
            raise
        else:
            return response
        finally:
            if self._observer is not None:
                self._observer.finished(method=method, host=endpoint.host, code=code, seconds=self._clock() - started)

    async def _error_of(self, response: aiohttp.ClientResponse) -> ApiStatusError:
        body = b""
        # Without it the status line is enough. One read gives what has come so far.
        with contextlib.suppress(aiohttp.ClientError):
            while len(body) < _MAX_ERROR_BYTES and (more := await response.content.read(_MAX_ERROR_BYTES - len(body))):
                body += more
        return error_of(
            response.status, response.reason, response.headers.get("Retry-After"), body, now=self._wall_clock()
        )

    def _session(self, kind: int) -> aiohttp.ClientSession:
        if self._sessions is None:
            self._sessions = (
                new_session(self._user_agent, self._max_connections, self._sockets, self._may_write),
                new_session(self._user_agent, 0, self._sockets),
            )
        return self._sessions[kind]
