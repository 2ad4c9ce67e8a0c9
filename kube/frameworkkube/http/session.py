"""aiohttp sessions for an API server: connections are kept alive, dead ones are noticed, nothing is sent twice."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

import aiohttp

from frameworkkube.errors import NotSentError

_KEEP_IDLE_CONNECTION_SECONDS = 30.0
"""Below the 90 s and more after which API servers and load balancers close idle connections."""
_TCP_OPTIONS = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)

_MAX_HEADER_BYTES: Final = 64 * 1024
_MAX_HEADERS: Final = 1024

_CLOSED: Final = -1
"""The file descriptor of a socket that is closed."""
_TURNS_TO_CLOSE: Final = 20
"""Turns of the event loop, of which each step of closing takes one: end of stream, end of TLS, end of TCP."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def _gated(may_write: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    """Return a class of requests that ask once their connection is there, and again as the bytes go out.

    Between the two, interpreters before 3.12 let other tasks run.
    """

    class GatedRequest(aiohttp.ClientRequest):
        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            """Send the head, or hold it back for the body."""
            late = self._why_not()
            if late is not None:
                raise late
            return await super().send(conn)

        async def write_bytes(self, writer: Any, conn: Any, content_length: int | None = None) -> None:
            """Send the body, with the head."""
            late = self._why_not()
            if late is None:
                await super().write_bytes(writer, conn, content_length)
            elif conn.protocol is not None:
                conn.protocol.set_exception(late)

        def _why_not(self) -> NotSentError | None:
            if self.method in _READS or may_write():
                return None
            return NotSentError(f"{self.method} {self.url.path}: not sent, this process may not write any more")

    return GatedRequest


class Sockets:
    """The sockets of sessions, until all of them are closed.

    A session that is closed waits for the connections of its pool alone. One that was not to be used again, because the
    server said so or a request was cancelled, may still wait for the server to end TLS, half a minute at most: if the
    event loop is closed before, the socket is never closed.
    """

    def __init__(self) -> None:
        self._made = WeakSet[socket.socket]()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """Make the socket of a connection."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP_OPTIONS:
            option = getattr(socket, name, None)  # not every system has each of them
            if option is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    async def close(self) -> None:
        """End what is open, and wait until the event loop has closed it. The sessions are closed already."""
        for made in self._open():
            # Not connected, or not any more.
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_TO_CLOSE):
            if not self._open():
                return
            await asyncio.sleep(0)

    def _open(self) -> list[socket.socket]:
        return [made for made in self._made if made.fileno() != _CLOSED]


def new_session(
    user_agent: str, max_connections: int, sockets: Sockets, may_write: Callable[[], bool] | None = None
) -> aiohttp.ClientSession:
    """Make a session without cookies, compression or resends; call it inside the running loop.

    A limit of 0 connections is none. `sockets` is to be closed after the session. `may_write` is asked as the bytes of
    a write go out; if it may not, `NotSentError` is raised.
    """
    session = aiohttp.ClientSession(
        request_class=aiohttp.ClientRequest if may_write is None else _gated(may_write),
        connector=aiohttp.TCPConnector(
            limit=max_connections,
            keepalive_timeout=_KEEP_IDLE_CONNECTION_SECONDS,
            socket_factory=sockets.make,
        ),
        # Compression costs server and client more than it saves on a cluster's network.
        headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),  # callers bound every await themselves
        auto_decompress=True,
        # The API server warns of each unknown field of an object, in 4,096 characters in total.
        max_field_size=_MAX_HEADER_BYTES,
        max_headers=_MAX_HEADERS,
    )
    # By default aiohttp silently repeats a PUT or DELETE whose connection breaks before the answer; the second request
    # then meets what the first one did (Conflict, NotFound). The caller must learn that the outcome is unknown. There
    # is no public switch; a test watches this one.
    session._retry_connection = False
    return session


def cause_of(error: Exception) -> str:
    """Describe a failure in one line, always the same: the HTTP library's texts hold object addresses, or nothing."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorError(os_error=cause):
            # asyncio says "Connect call failed"; the errno says why. TLS and DNS errors have numbers of their own.
            known = not isinstance(cause, ssl.SSLError) and (cause.errno or 0) in errno.errorcode
            why = os.strerror(cause.errno or 0) if known else cause.strerror or cause
            if cause.errno == errno.EMFILE:
                why = f"{why} in this process; allow more: ulimit -n"
            return f"cannot connect to {error.host}:{error.port}: {why}"
        case aiohttp.ClientPayloadError():
            return "the connection broke within the answer"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case _:
            return str(error) or type(error).__name__
