"""A way to the API server that can be cut: plain TCP, so that TLS is between its two ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Proxy:
    """Forwards connections to a server on this machine.

    Args:
        port: The server's.

    Attributes:
        port: Where to connect to instead; the same after each `mend`.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = self._listen(0)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def drop(self) -> int:
        """End all connections, in the middle of whatever they carry; how many there were. New ones are welcome."""
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            # Shut down, so that a thread that waits in recv wakes; it closes the socket.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return len(connections) // 2

    def cut(self) -> None:
        """Nobody gets through any more: new connections are refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def mend(self) -> None:
        """As it was before the cut."""
        self._listener = self._listen(self.port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._connections |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        source.close()
        with self._lock:
            self._connections.discard(source)
