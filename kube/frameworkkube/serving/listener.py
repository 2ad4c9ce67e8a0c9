"""Accepts connections within the limits of `places`, and ends those that say nothing in time.

`health`, and the injector's `server`, create one `Listener` each and hand it aiohttp's protocol factory. It decides
when a connection is accepted, before TLS, because a connection that never speaks costs as much as one that does. Honest
clients may open many connections at once, so what has no place waits for one, as a bare socket.
"""

import asyncio
import contextlib
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from aiohttp import web

from frameworkkube.fair_queue import FairQueue
from frameworkkube.log import Logger
from frameworkkube.serving.connection import DECRYPTED_BYTES, Accepted, Connection, begins_tls
from frameworkkube.serving.places import ConnectionLimits, Places, WaitingRoom

BACKLOG: Final = 1024
# Taken in at a time: a review may take 20 ms, in which more than one is established.
ACCEPTED_AT_ONCE: Final = 64
# Of what a client has sent and nobody has read, in the system, which doubles it and counts it as memory of the Pod. By
# itself it would grow to 6 MiB for a client that sends fast.
RECEIVED_BYTES: Final = 32 * 1024
# And of answers that nobody has taken in, likewise; it grew to 4 MiB for a client that had read fast before.
SENT_BYTES: Final = 64 * 1024
# After a fault of the system, for example no file descriptor left.
RETRY_SECONDS: Final = 0.5
# Between two looks for places while connections wait; a review takes about a millisecond.
PLACE_SECONDS: Final = 0.01
# Decrypting and parsing what others than the known ones send, once somebody is known: a read of records of one byte
# takes 1 ms, and one of whole records 0.05. In a turn of the loop about so long, and of all time one part in so many.
READ_SECONDS: Final = 0.001
READ_SHARE: Final = 3
_log = Logger(__name__)


class Listener:
    """Listens on one port.

    Args:
        factory: Makes the protocol of a connection.
        limits: Bounds on connections.
        on_change: Called with the number of open connections.
        on_closed: Called with the reason why a connection was closed: `evicted`, `refused`, `silent` or `unread`.
        known: The sources that are known to be honest, at present.
    """

    def __init__(
        self,
        factory: Callable[[], web.RequestHandler],
        limits: ConnectionLimits,
        on_change: Callable[[int], Any] = lambda _: None,
        on_closed: Callable[[str], Any] = lambda _: None,
        known: Collection[str] = (),
    ) -> None:
        self._factory = factory
        self._limits = limits
        self._on_change = on_change
        self._on_closed = on_closed
        # By address and port of the client, which a request knows, too.
        self._open: dict[tuple[Any, ...], Connection] = {}
        self._places: Places[Connection] = Places(limits, known)
        # Those whose client has yet to take in the last answer, and its bytes, the first one first.
        self._unread: dict[Connection, int] = {}
        self._waiting: WaitingRoom[Accepted, Connection] = WaitingRoom(self._places, limits)
        self._placing: asyncio.Task[None] | None = None
        # Others from which bytes have come, by source.
        self._to_read: FairQueue[Connection] = FairQueue()
        self._reading: asyncio.TimerHandle | None = None
        self._read_from = 0.0
        self._context: Callable[[], ssl.SSLContext] | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self, host: str | None, port: int, context: Callable[[], ssl.SSLContext] | None = None) -> int:
        """Listen on `host`, or on every address (IPv4 and IPv6) if it is None, and return the port.

        `context` returns that of TLS for the next connection.
        """
        self._context = context
        if context is not None:
            # No parameter says it, so it is that of all connections of the process.
            sslproto.SSLProtocol.max_size = DECRYPTED_BYTES
        dual = host is None and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual or ":" in (host or "") else socket.AF_INET
        self._socket = socket.create_server((host or "", port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
        stalled = round(1000 * self._limits.stalled_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stalled)
        self._socket.setblocking(False)  # noqa: FBT003 -- the name and form of the standard library
        self._accepting = asyncio.create_task(self._accept(self._socket))
        found: int = self._socket.getsockname()[1]
        return found

    def is_wanted(self, request: web.BaseRequest) -> bool:
        """Whether the place of a request's connection is due to one that waits, so that its answer should close it."""
        connection = self._connection_of(request)
        return connection is not None and self._waiting.wants_place_of(connection.source)

    @property
    def awaits_requests(self) -> bool:
        """Whether a connection that was accepted has not brought its first request yet, or waits to be read on."""
        recent = asyncio.get_running_loop().time() - self._limits.first_request_seconds
        return bool(self._waiting or self._to_read) or any(
            one.since > recent and (one.silence is None or not one.silence.cancelled()) for one in self._open.values()
        )

    def close(self) -> None:
        """Accept no more connections, but those that the system has established already."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._socket is not None:
            # No more than these are established; in a flood there would always be another one.
            with contextlib.suppress(OSError):
                self._admit_established(self._socket, BACKLOG)
            self._socket.close()

    def abort(self) -> None:
        """Give up the connections that wait or are still opening."""
        if self._placing is not None:
            self._placing.cancel()
        for accepted in self._waiting.late(float("inf")):
            accepted.socket.close()
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
                connection.request, connection.since = None, loop.time()
                connection.was_answered = connection.was_answered or request.content.is_eof()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._admit(*await loop.sock_accept(listening))
                # Without a waiting room each takes the place of another one at once, which has its time first.
                self._admit_established(listening, min(ACCEPTED_AT_ONCE, self._limits.waiting))
            except BlockingIOError:
                pass
            except OSError as error:
                _log.warning("no connection accepted", error=type(error).__name__, errno=error.errno)
                await asyncio.sleep(RETRY_SECONDS)
            # A flood of connections must leave time for requests.
            await asyncio.sleep(0)

    def _admit_established(self, listening: socket.socket, most: int) -> None:
        """Admit what the system has established already.

        Raises:
            OSError: There are no more of them, or the system has a fault.
        """
        for _ in range(most):
            self._admit(*listening.accept())

    def _admit(self, accepted: socket.socket, peer: tuple[Any, ...]) -> None:
        try:
            self._enter(accepted, peer)
        except Exception:  # noqa: BLE001 -- a defect costs this connection, not the port
            _log.exception("a connection is lost")
            accepted.close()

    def _enter(self, accepted: socket.socket, peer: tuple[Any, ...]) -> None:
        accepted.setblocking(False)  # noqa: FBT003 -- the name and form of the standard library
        now = asyncio.get_running_loop().time()
        self._waiting.enter(Accepted(accepted, peer, now))
        if len(self._waiting) == 1:
            self._take_turns(now)
        if (one := self._waiting.too_many()) is not None:
            self._refuse(one)
        if self._waiting and (self._placing is None or self._placing.done()):
            self._placing = asyncio.create_task(self._place())

    async def _place(self) -> None:
        """Give places to connections that wait, until none does."""
        while self._waiting:
            await asyncio.sleep(PLACE_SECONDS)
            now = asyncio.get_running_loop().time()
            for late in self._waiting.late(now):
                self._refuse(late)
            self._take_turns(now)

    def _take_turns(self, now: float) -> None:
        for new, other in self._waiting.turns(now):
            if other is not None:
                self._on_closed("evicted")
                self.forget(other)
                other.abort()
            self._begin(new)

    def _refuse(self, accepted: Accepted) -> None:
        self._on_closed("refused")
        accepted.socket.close()

    def _begin(self, accepted: Accepted) -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(accepted.peer, loop.time(), self._factory(), self._read, self.forget)
        if accepted.peer in self._open:
            # Its client has begun anew before the end of the last one was seen.
            old = self._open[accepted.peer]
            self.forget(old)
            old.abort()
        self._open[accepted.peer] = connection
        self._places.take(connection, connection.since)
        self._on_change(len(self._open))
        is_known = self._places.is_known(connection.source)
        seconds = self._limits.idle_seconds if is_known else self._limits.first_request_seconds
        connection.silence = loop.call_later(seconds, self._end, connection, "silent")
        connection.opening = asyncio.create_task(self._open_one(accepted.socket, connection))
        connection.opening.add_done_callback(lambda _: self._end_opening(accepted.socket, connection))

    async def _open_one(self, accepted: socket.socket, connection: Connection) -> None:
        # A client that breaks off or does not speak TLS may come any number of times, and there is nobody to tell.
        with contextlib.suppress(OSError):  # a timeout, too
            async with asyncio.timeout(self._limits.handshake_seconds):
                if self._context is not None and not await begins_tls(accepted):
                    return
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=None if self._context is None else self._context(),
                    ssl_shutdown_timeout=None if self._context is None else self._limits.unread_seconds,
                )

    def _end_opening(self, accepted: socket.socket, connection: Connection) -> None:
        connection.opening = None
        if connection.transport is None:
            # Given up, perhaps before anything else knew the socket.
            accepted.close()
            self.forget(connection)

    def _read(self, connection: Connection, take_in: Callable[[], None]) -> None:
        """Take in bytes; those of others wait for a turn, so that the known ones wait for nobody."""
        if not self._places.is_other(connection.source):
            take_in()
            return
        connection.pause(take_in)
        self._to_read.add((connection.source,), connection)
        self._plan_to_read()

    def _plan_to_read(self) -> None:
        if self._to_read and self._reading is None:
            self._reading = asyncio.get_running_loop().call_at(self._read_from, self._read_next)

    def _read_next(self) -> None:
        self._reading, begun, spent = None, time.thread_time(), 0.0
        try:
            while self._to_read and spent < READ_SECONDS:
                connection, before = self._to_read.take(), spent
                connection.resume()
                spent = time.thread_time() - begun
                self._to_read.charge((connection.source,), spent - before)
        finally:
            self._read_from = asyncio.get_running_loop().time() + (READ_SHARE - 1) * spent
            self._plan_to_read()

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
        most = self._limits.unread_bytes
        self._bound_unread([one for one in self._unread if self._places.is_other(one.source)], most // 4)
        self._bound_unread([*self._unread], most)

    def _bound_unread(self, answered: Sequence[Connection], most: int) -> None:
        """End the first of these connections, until what the others have yet to take in is within its bound."""
        while sum(map(self._unread.__getitem__, answered)) > most:
            first, *answered = answered
            del self._unread[first]
            self._end(first, "unread")

    def _connection_of(self, request: web.BaseRequest) -> Connection | None:
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        return None if peer is None else self._open.get(peer)

    def _end(self, connection: Connection, reason: str) -> None:
        self._on_closed(reason)
        connection.abort()

    def forget(self, connection: Connection) -> None:
        """Give the place of a connection to others, since it has ended or gives way."""
        if connection.silence is not None:
            connection.silence.cancel()
        self._unread.pop(connection, None)
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            self._places.leave(connection)
            self._on_change(len(self._open))
