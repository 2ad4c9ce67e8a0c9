"""One HTTP exchange with the API server: through the gate, with today's credentials, counted, its failure named."""

import io
from collections.abc import Callable
from typing import Protocol

import aiohttp
from yarl import URL

from frameworkcontroller.cluster.credentials import Endpoint
from frameworkcontroller.cluster.errors import ApiStatusError, Unauthorized, error_of
from frameworkcontroller.cluster.gate import Gate
from frameworkcontroller.cluster.rotation import Credentials
from frameworkcontroller.cluster.session import new_session

_LARGE_BODY_BYTES = 1 << 20
_MAX_ERROR_BYTES = 1 << 20

REQUESTS, STREAMS = 0, 1
"""The two pools: a hundred waiting writes must not keep a watch from reconnecting."""


class RequestObserver(Protocol):
    """Counts requests; `rest_client_requests_total{code,method,host}` and its duration are made of it."""

    def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
        """One HTTP exchange ended.

        Args:
            method: HTTP verb.
            host: ``host:port``.
            code: status code as text, ``<error>`` when there was no answer (client-go's label).
            seconds: until the status line; the body of a list is not in it.
        """


class Transport:
    """The connections of a `KubeClient`, whose arguments these are."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str,
        max_connections: int,
        observer: RequestObserver | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._credentials = Credentials(endpoint, clock)
        self._gate = Gate(clock)
        self._observer = observer
        self._clock = clock
        self._wall_clock = wall_clock
        self._user_agent = user_agent
        self._max_connections = max_connections
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None

    async def close(self) -> None:
        """Closes all connections."""
        sessions, self._sessions = self._sessions, None
        for session in sessions or ():
            await session.close()

    async def open(
        self, kind: int, method: str, url: str, headers: dict[str, str], body: bytes | None, *, gated: bool = True
    ) -> aiohttp.ClientResponse:
        """Passes the gate, sends, and returns the open 2xx answer; whoever gets it closes it.

        Args:
            kind: `REQUESTS` or `STREAMS`.
            method: HTTP verb.
            url: path and query, encoded.
            headers: without authorization, which is added to it.
            body: or None.
            gated: see `KubeClient.request`.

        Raises:
            ApiStatusError, CredentialsError: see `KubeClient.request`.
            aiohttp.ClientError, OSError: there was no answer.
        """
        probing = await self._gate.enter() if gated else False
        answered = False
        try:
            answer = await self._try(kind, method, url, headers, body)
            if isinstance(answer, Unauthorized) and await self._credentials.refused(headers.get("Authorization")):
                answer = await self._try(kind, method, url, headers, body)
            answered = True
            if not isinstance(answer, ApiStatusError):
                return answer
            if answer.code in {429, 503} and answer.retry_after_seconds:
                self._gate.hold(answer.retry_after_seconds)
            raise answer
        finally:
            if gated:
                self._gate.leave(probing=probing, answered=answered)

    async def _try(
        self, kind: int, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse | ApiStatusError:
        """One attempt: the open 2xx answer, or what the server said instead."""
        response = await self._send(kind, method, url, headers, body)
        if response.status < 300:
            return response
        async with response:
            return await self._error_of(response)

    async def _send(
        self, kind: int, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        endpoint = self._credentials.endpoint
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        started = self._clock()
        code = "<error>"
        try:
            response = await self._session(kind).request(
                method,
                URL(endpoint.server + url, encoded=True),
                # The library warns about large bytes and wants a file, which it sends in pieces.
                data=io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body,
                headers=headers,
                # Part of the pool's key: a rotated CA or client certificate never meets a connection made under the
                # old one.
                ssl=self._credentials.tls(),
                server_hostname=endpoint.tls_server_name,
                proxy=endpoint.proxy,
                allow_redirects=False,
            )
            code = str(response.status)
        except aiohttp.ClientSSLError:
            self._credentials.distrusted()
            raise
        else:
            return response
        finally:
            if self._observer is not None:
                self._observer.finished(method=method, host=endpoint.host, code=code, seconds=self._clock() - started)

    async def _error_of(self, response: aiohttp.ClientResponse) -> ApiStatusError:
        try:
            body = await response.content.read(_MAX_ERROR_BYTES)
        except aiohttp.ClientError:
            body = b""  # the status line says enough
        return error_of(
            response.status, response.reason, response.headers.get("Retry-After"), body, now=self._wall_clock()
        )

    def _session(self, kind: int) -> aiohttp.ClientSession:
        if self._sessions is None:
            self._sessions = (new_session(self._user_agent, self._max_connections), new_session(self._user_agent, 0))
        return self._sessions[kind]
