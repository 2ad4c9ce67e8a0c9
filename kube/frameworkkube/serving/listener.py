"""Accepts connections within limits: the number in total and of one source, and the time until the first request.

`health`, and the injector's `server`, create one `Listener` each and hand it aiohttp's protocol factory. It decides
when a connection is accepted, before TLS, because a connection that never speaks costs as much as one that does. A
connection that exceeds a limit takes the place of another one: of its own source if that has its share, else the oldest
that has brought no request yet, from whatever address, else the oldest of the source that has most. So a source that
hoards connections locks out only itself, many that bring nothing lock out nobody, and a request that has arrived is
answered. Honest clients may open many connections at once, so what has no place waits for one, as a bare socket.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_protocol import _ErrInfo

from frameworkkube.log import Logger

BACKLOG: Final = 1024
# After a fault of the system, for example no file descriptor left.
RETRY_SECONDS: Final = 0.5
# Between two looks for places while connections wait; a review takes about a millisecond.
PLACE_SECONDS: Final = 0.01
# An answer that takes longer is a stream, which has no end of its own.
ANSWER_SECONDS: Final = 10.0
# Each error of aiohttp's parser quotes what it was given.
PIECE_BYTES: Final = 16 * 1024
_log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on the connections of one port."""

    connections: int = 64
    """Open connections, those in their TLS handshake included. Each takes up to 1 MiB of buffers."""
    of_one_source: int = 48
    """Open connections of one address."""
    new_of_one_source: int = 1_000_000
    """Connections of one address that begin in a second."""
    waiting: int = 256
    """Accepted connections that wait for a place, as bare sockets."""
    waiting_of_one_source: int = 160
    """Those of one address. With its open ones these are more than 200, which is how many objects an API server has
    reviewed at a time by default (`--max-mutating-requests-inflight`)."""
    grace_seconds: float = 2.0
    """Time for which a connection is not closed in favour of another one of the same source."""
    handshake_seconds: float = 5.0
    """Time for a TLS handshake."""
    first_request_seconds: float = 10.0
    """Time for a new connection to send its first request head, the handshake included."""
    unread_seconds: float = 2.0
    """Time for a client to take in a last answer."""
    unread_bytes: int = 32 * 1024 * 1024
    """Of last answers that clients have yet to take in; TLS takes twice as much."""
    idle_seconds: float = 100.0
    """Time between requests; above the 90 s after which the API server itself closes idle connections, because a call
    that meets a connection which is being closed fails."""


class Connection(asyncio.Protocol):
    """One connection from its acceptance to its end; passes all that happens to it on to aiohttp.

    Attributes:
        source: The address of the client, without the port that `peer` has.
        since: When it was accepted, or its request began or was answered, in seconds of the event loop's clock.
        request: What has begun and is not answered.
        was_answered: Whether a request was.
    """

    def __init__(self, peer: tuple[Any, ...], since: float, inner: web.RequestHandler, listener: "Listener") -> None:
        self.peer = peer
        self.source = str(peer[0])
        self.since = since
        self.request: web.BaseRequest | None = None
        self.was_answered = False
        self.silence: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self._inner = inner
        self._listener = listener
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to read: the connection is open, and its TLS handshake is done."""
        # Those of uvloop are no instances of it.
        self.transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what arrives, up to what is no HTTP, or comes before the answer to a request.

        aiohttp would keep 32 requests or errors until then, and an error quotes what it was given.
        """
        for start in range(0, len(data), PIECE_BYTES):
            self._inner.data_received(data[start : start + PIECE_BYTES])
            waiting = self._inner._messages  # nothing else says what the parser has found
            if len(waiting) > 1 or any(isinstance(message, _ErrInfo) for message, _ in waiting):
                # After the answer; it takes in nothing more.
                self._inner.close()
                return

    def eof_received(self) -> None:
        """Take in that the client sends no more."""
        self._inner.eof_received()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._inner.connection_lost(exc)
        self._listener.forget(self)

    @property
    def is_whole(self) -> bool:
        """Whether a request has arrived as a whole and is not answered."""
        return self.request is not None and self.request.content.is_eof()

    def abort(self) -> None:
        """Close the connection at once, whatever it is doing."""
        if self.transport is not None:
            if self.transport.get_write_buffer_size():
                # The client does not read: what the kernel holds for it must not stay either.
                sock = self.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Listener:
    """Listens on one port.

    Args:
        factory: Makes the protocol of a connection.
        limits: Bounds on connections.
        on_change: Called with the number of open connections.
        on_closed: Called with the reason why a connection was closed: `evicted`, `refused`, `silent` or `unread`.
    """

    def __init__(
        self,
        factory: Callable[[], web.RequestHandler],
        limits: ConnectionLimits,
        on_change: Callable[[int], Any] = lambda _: None,
        on_closed: Callable[[str], Any] = lambda _: None,
    ) -> None:
        self._factory = factory
        self._limits = limits
        self._on_change = on_change
        self._on_closed = on_closed
        # By address and port of the client, which a request knows, too.
        self._open: dict[tuple[Any, ...], Connection] = {}
        self._sources: Counter[str] = Counter()
        # Those whose client has yet to take in the last answer, and its bytes, the first one first.
        self._unread: dict[Connection, int] = {}
        # Those that began in this second.
        self._new: Counter[str] = Counter()
        self._second = 0
        # Accepted, without a place yet: the socket, the address of the client, and since when it waits.
        self._waiting: deque[tuple[socket.socket, tuple[Any, ...], float]] = deque()
        self._placing: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self, host: str | None, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen on `host`, or on every address (IPv4 and IPv6) if it is None, and return the port."""
        self._context = context
        dual = host is None and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual or ":" in (host or "") else socket.AF_INET
        self._socket = socket.create_server((host or "", port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)
        self._socket.setblocking(False)  # noqa: FBT003 -- the name and form of the standard library
        self._accepting = asyncio.create_task(self._accept(self._socket))
        found: int = self._socket.getsockname()[1]
        return found

    @property
    def has_waiting(self) -> bool:
        """Whether connections wait for a place, so that an answer should close its connection."""
        return bool(self._waiting)

    @property
    def awaits_requests(self) -> bool:
        """Whether a connection that was accepted has not brought its first request yet."""
        return bool(self._waiting) or any(
            connection.silence is None or not connection.silence.cancelled() for connection in self._open.values()
        )

    def close(self) -> None:
        """Accept no more connections, but those that the system has established already."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # No more than these are established; in a flood there would always be another one.
                for _ in range(BACKLOG):
                    self._admit(*self._socket.accept())
            self._socket.close()

    def abort(self) -> None:
        """Give up the connections that wait or are still opening."""
        if self._placing is not None:
            self._placing.cancel()
        while self._waiting:
            self._waiting.popleft()[0].close()
        for connection in self._open.values():
            if connection.opening is not None:
                connection.opening.cancel()

    @contextlib.contextmanager
    def request(self, request: web.BaseRequest) -> Iterator[None]:
        """Note that the connection of a request is busy, and afterwards that it is idle."""
        connection = self._connection_of(request)
        loop = asyncio.get_running_loop()
        if connection is not None:
            connection.request, connection.since = request, loop.time()
            if connection.silence is not None:
                connection.silence.cancel()
        try:
            yield
        finally:
            if connection is not None:
                connection.request, connection.since, connection.was_answered = None, loop.time(), True

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("no connection accepted", error=type(error).__name__, errno=error.errno)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._admit(accepted, peer)
            # A flood of connections must leave time for requests.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, peer: tuple[Any, ...]) -> None:
        source = str(peer[0])
        accepted.setblocking(False)  # noqa: FBT003 -- the name and form of the standard library
        if not self._waits(source) and self._make_room(source, asyncio.get_running_loop().time()):
            self._begin(accepted, peer)
        else:
            self._wait(accepted, peer)

    def _waits(self, source: str) -> int:
        return sum(peer[0] == source for _, peer, _ in self._waiting)

    def _wait(self, accepted: socket.socket, peer: tuple[Any, ...]) -> None:
        limits = self._limits
        if len(self._waiting) >= limits.waiting or self._waits(str(peer[0])) >= limits.waiting_of_one_source:
            self._on_closed("refused")
            accepted.close()
            return
        self._waiting.append((accepted, peer, asyncio.get_running_loop().time()))
        if self._placing is None or self._placing.done():
            self._placing = asyncio.create_task(self._place())

    async def _place(self) -> None:
        """Give places to connections that wait, in their order, until none waits."""
        while self._waiting:
            full: set[str] = set()
            for _ in range(len(self._waiting)):
                now = asyncio.get_running_loop().time()
                accepted, peer, since = self._waiting.popleft()
                source = str(peer[0])
                if source not in full and self._make_room(source, now):
                    self._begin(accepted, peer)
                elif now - since < self._limits.handshake_seconds:
                    full.add(source)
                    self._waiting.append((accepted, peer, since))
                else:
                    self._on_closed("refused")
                    accepted.close()
            await asyncio.sleep(PLACE_SECONDS)

    def _make_room(self, source: str, now: float) -> bool:
        """Close the connection whose place a new one of `source` takes; return False if it may take none."""
        limits = self._limits
        if self._second != int(now):
            self._second, self._new = int(now), Counter()
        if self._new[source] >= limits.new_of_one_source:
            return False
        has_share = self._sources[source] >= limits.of_one_source
        if not has_share and len(self._open) < limits.connections:
            return True

        def may_go(one: Connection) -> bool:
            if one.source == source:
                # Many at once may be honest: those that are under way are not given up for more of the same.
                return one.request is None and now - one.since >= limits.grace_seconds
            return not has_share and (not one.is_whole or now - one.since >= ANSWER_SECONDS)

        def order(one: Connection) -> tuple[bool, int, float]:
            has_spoken = one.was_answered or one.is_whole
            return has_spoken, -self._sources[one.source] * has_spoken, one.since

        victim = min(filter(may_go, self._open.values()), key=order, default=None)
        if victim is None:
            return False
        self._on_closed("evicted")
        self.forget(victim)
        victim.abort()
        return True

    def _begin(self, accepted: socket.socket, peer: tuple[Any, ...]) -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(peer, loop.time(), self._factory(), self)
        if peer in self._open:
            # Its client has begun anew before the end of the last one was seen.
            self.forget(self._open[peer])
        self._open[peer] = connection
        self._sources[connection.source] += 1
        self._new[connection.source] += 1
        self._on_change(len(self._open))
        connection.silence = loop.call_later(self._limits.first_request_seconds, self._end, connection, "silent")
        connection.opening = asyncio.create_task(self._open_one(accepted, connection))
        connection.opening.add_done_callback(lambda _: self._end_opening(accepted, connection))

    async def _open_one(self, accepted: socket.socket, connection: Connection) -> None:
        # A client that breaks off or does not speak TLS may come any number of times, and there is nobody to tell.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else self._limits.handshake_seconds,
            )

    def _end_opening(self, accepted: socket.socket, connection: Connection) -> None:
        connection.opening = None
        if connection.transport is None:
            # Given up, perhaps before anything else knew the socket.
            accepted.close()
            self.forget(connection)

    def answer_last(self, request: web.BaseRequest, size: int) -> None:
        """Note an answer after which the connection of a request ends: its client takes it in soon, or loses it.

        How much of an answer a client has taken in is not known behind TLS, but that it has closed the connection.
        """
        connection = self._connection_of(request)
        if connection is None:
            return
        self._unread[connection] = size
        connection.silence = asyncio.get_running_loop().call_later(
            self._limits.unread_seconds, self._end, connection, "unread"
        )
        while sum(self._unread.values()) > self._limits.unread_bytes:
            first = next(iter(self._unread))
            del self._unread[first]
            self._end(first, "unread")

    def _connection_of(self, request: web.BaseRequest) -> Connection | None:
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        return None if peer is None else self._open.get(peer)

    def _end(self, connection: Connection, reason: str) -> None:
        self._on_closed(reason)
        connection.abort()

    def forget(self, connection: Connection) -> None:
        """Give the place of a connection to others."""
        if connection.silence is not None:
            connection.silence.cancel()
        self._unread.pop(connection, None)
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            self._sources.subtract([connection.source])
            self._sources = +self._sources
            self._on_change(len(self._open))
