"""One connection of a port: before it begins, as a bare socket, and from then on to its end."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_protocol import _ErrInfo

# Each error of aiohttp's parser quotes what it was given.
PIECE_BYTES: Final = 16 * 1024
HEAD_BYTES: Final = 32 * 1024
"""Of the head of a request, about. aiohttp takes 1 MiB, and keeps it as text, too, of up to four bytes a character."""
HANDSHAKE_BYTES: Final = 8 * 1024
"""Of what a client sends until its handshake is done; the longest first message of today's clients has 2 KiB. OpenSSL
takes one of 128 KiB, with more ciphers than there are, for 2.4 ms."""
DECRYPTED_BYTES: Final = 16 * 1024
"""Of what a client sends, in one turn of the event loop: in records of one byte, 256 KiB take 30 ms."""

UNSENT_BYTES: Final = 64 * 1024
"""Of answers that the system does not take, beyond which the next one waits."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A connection that has not begun: nothing of it was read."""

    socket: socket.socket
    peer: tuple[Any, ...]
    since: float

    @property
    def source(self) -> str:
        """The address of the client, without the port."""
        return str(self.peer[0])


def media_type(request: web.BaseRequest) -> str:
    """Return the type of a body without its parameters, which aiohttp parses: of a long header for half a second."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def begins_tls(sock: socket.socket) -> bool:
    """Wait for the first bytes, and report whether they begin a handshake of a usual length; they are not taken in."""
    loop, is_readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sock)
    # A record and a message begin, each with type and length; clients send more than this at once.
    begun = sock.recv(9, socket.MSG_PEEK)
    return len(begun) == 9 and begun[:1] + begun[5:6] == b"\x16\x01" and int.from_bytes(begun[6:]) <= HANDSHAKE_BYTES


class Records:
    """Follows the records of TLS 1.2 that a client sends once its handshake is done.

    OpenSSL answers each message of another handshake with an alert. 4,096 of them fit into a record, which takes 12 ms
    and makes 127 KiB, and nobody bounds what waits for a client that does not read.
    """

    _HEADER_BYTES: Final = 5
    _HANDSHAKE: Final = 22

    def __init__(self) -> None:
        self._header, self._rest = b"", 0

    def shake_hands(self, data: bytes) -> bool:
        """Take in what comes next, and report whether a record of a handshake begins in it."""
        data, at = self._header + data, self._rest
        while at + self._HEADER_BYTES <= len(data):
            if data[at] == self._HANDSHAKE:
                return True
            at += self._HEADER_BYTES + int.from_bytes(data[at + 3 : at + 5])
        self._header, self._rest = data[at:], max(at - len(data), 0)
        return False


class Connection(asyncio.Protocol):
    """One connection from its acceptance to its end; passes all that happens to it on to aiohttp.

    Attributes:
        source: The address of the client, without the port that `peer` has.
        since: When it began, was open, or its request began or was answered, in seconds of the event loop's clock.
        request: What has begun and is not answered.
        was_answered: Whether a whole request was.
    """

    def __init__(
        self,
        peer: tuple[Any, ...],
        since: float,
        inner: web.RequestHandler,
        read: Callable[["Connection", Callable[[], None]], None],
        on_end: Callable[["Connection"], None],
    ) -> None:
        self.peer = peer
        self.source = str(peer[0])
        self.since = since
        self.request: web.BaseRequest | None = None
        self.was_answered = False
        self.silence: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self._inner = inner
        self._read, self._on_end = read, on_end
        self.pause_writing, self.resume_writing = inner.pause_writing, inner.resume_writing  # type: ignore[method-assign]
        self.transport: asyncio.Transport | None = None
        # What has come and waits for its turn.
        self._came: Callable[[], None] | None = None
        # That of asyncio, which offers none of this to others; None without TLS, or with that of uvloop.
        self._tls: Any = None
        self._take_in: Any = None
        self._lose: Any = None
        self._records = Records()
        self._head = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to read: the connection is open, and its TLS handshake is done."""
        # Those of uvloop are no instances of it.
        self.transport = cast("asyncio.Transport", transport)
        self._socket: socket.socket = transport.get_extra_info("socket")
        self.since = asyncio.get_running_loop().time()
        self._inner.connection_made(transport)
        assert self._inner._task_handler is not None
        self._inner._task_handler.add_done_callback(self._is_served_no_more)
        self._tls = getattr(transport, "_ssl_protocol", None)
        if self._tls is not None:
            # It would keep 512 KiB for a client that takes nothing in.
            self.transport.set_write_buffer_limits(UNSENT_BYTES)
            # It takes more in while nobody reads, and decrypts all of it at once.
            self._tls._set_read_buffer_limits(DECRYPTED_BYTES)
            self._take_in, self._tls.buffer_updated = self._tls.buffer_updated, self._bytes_received
            self._lose, self._tls.connection_lost = self._tls.connection_lost, self._tls_is_over
            early = self._tls._incoming.read()
            if self._handshake_bytes(len(early)) > HANDSHAKE_BYTES:
                self.abort()
            elif early:
                # It waits for its turn as if it came now.
                self._tls._ssl_buffer_view[: len(early)] = early
                self._bytes_received(len(early))

    def _handshake_bytes(self, early: int) -> int:
        """Return how many bytes the handshake has taken: all but what came early, or was not read yet."""
        sock = self._socket
        # The counter tcpi_bytes_received of Linux; a kernel that emulates that may not have it, and bounds nothing.
        received = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)[128:]
        unread = fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(received, sys.byteorder) - int.from_bytes(unread, sys.byteorder) - early

    def data_received(self, data: bytes) -> None:
        """Hand on what arrives, up to what is no HTTP, has too long a head, or comes before the answer to a request.

        aiohttp would keep 32 requests or errors until then, and an error quotes what it was given.
        """
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            waiting = self._inner._messages  # nothing else says what the parser has found
            found = len(waiting)
            self._inner.data_received(piece)
            self._head = self._head + len(piece) if len(waiting) == found and self._awaits_head() else 0
            if self._head > HEAD_BYTES:
                self.abort()
                return
            if any(not isinstance(message, _ErrInfo) and not message.path.startswith("/") for message, _ in waiting):
                # aiohttp would decode the name of a host, for 20 ms, and fail at some without an answer.
                self.abort()
                return
            is_last = any(isinstance(message, _ErrInfo) or message.chunked for message, _ in waiting)
            if is_last or len(waiting) > 1 or self._inner._upgraded:
                while len(waiting) > 1:
                    waiting.pop()
                # After the answer; it takes in nothing more, neither what came behind a request for another protocol.
                self._inner.close()
                return

    def _awaits_head(self) -> bool:
        """Report whether what comes next belongs to no request that was found."""
        if self._inner._messages:
            return self._inner._messages[-1][1].is_eof()
        if self.request is not None:
            return self.request.content.is_eof()
        # Otherwise the rest of a body is read that nobody asked for.
        return self._inner._waiter is not None

    def _bytes_received(self, count: int) -> None:
        """Have what has come decrypted and parsed, in its turn."""
        self._read(self, partial(self._decrypt, count))

    def _decrypt(self, count: int) -> None:
        if self._records.shake_hands(bytes(self._tls._ssl_buffer_view[:count])):
            self.abort()
        else:
            self._take_in(count)

    def _is_served_no_more(self, task: asyncio.Task[None]) -> None:
        """End the connection if aiohttp has failed, which would keep it for good, without a limit of time."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._inner.log_exception("Unhandled exception", exc_info=error)
            self.abort()

    def pause(self, take_in: Callable[[], None]) -> None:
        """Keep what has come, and receive nothing more, below TLS: what is above it is for aiohttp to pause."""
        self._came = take_in
        self._tls._transport.pause_reading()

    def resume(self) -> None:
        """Take in what has come, and receive more, an end, too; nothing if the connection has ended meanwhile."""
        take_in, self._came = self._came, None
        if self._tls is None or self._tls._transport is None or take_in is None:
            return
        take_in()
        if not self._tls._ssl_reading_paused:  # or else it goes on when there is room for more
            self._tls._transport.resume_reading()

    def eof_received(self) -> None:
        """End the connection at once if it is one of TLS, which takes in no answer any more.

        What is closed once more cannot be aborted, and what the system holds for a client that does not read stays.
        """
        if self.transport is not None and self.transport.get_extra_info("ssl_object") is not None:
            self.abort()

    def _tls_is_over(self, exc: Exception | None) -> None:
        """Take in the end of what is below TLS, whose client had time to take in the last answer."""
        self._reset_unread()
        self._lose(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; what it took does not wait for the collector of cycles."""
        if self._tls is not None:
            del self._tls.buffer_updated, self._tls.connection_lost
        self._tls = self._take_in = self._lose = self._came = None
        self._inner.connection_lost(exc)
        self._on_end(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request has begun and is not answered."""
        return self.request is not None

    @property
    def has_spoken(self) -> bool:
        """Whether its last request has arrived as a whole."""
        return self.was_answered if self.request is None else self.request.content.is_eof()

    def abort(self) -> None:
        """Close the connection at once, whatever it is doing."""
        if self.transport is not None:
            self._reset_unread()
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def _reset_unread(self) -> None:
        """Have the system drop what the client has not taken in, which it would keep for minutes after the end."""
        with contextlib.suppress(OSError, ValueError):  # it is closed
            if any(fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
