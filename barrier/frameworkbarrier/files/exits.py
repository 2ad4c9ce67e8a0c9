"""Lets the application of this Pod end together with those of its peers: `exit: together`.

Processes that want to end wait at a socket in the barrier's folder (`files/sitecustomize.py`). While all ranks of the
Pod wait, the file `held` is there, which the readiness probe of the sidecar looks for; the roster says when the gang
may end. Source: docs/reference/barrier.md, section 9.
"""

import contextlib
import math
import os
import selectors
import socket
import threading
import time

from frameworkbarrier.errors import OutputError, SettingsError
from frameworkbarrier.files.output import File, OutputDirectory
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Released, Waiting
from frameworkbarrier.log import Log
from frameworkbarrier.settings import EXIT_HELD, EXIT_SOCKET

JOINS, ENDS = b"+", b"h"
"""As `files/sitecustomize.py` says them, which runs where this program is not."""
MAX_PROCESSES = 1024
"""Processes of a Pod that are listened to; others end when they want to."""
WORD_BYTES = 16
TOLD_AFTER_SEC = 5.0
"""After the gate has opened: the probe of a sidecar looks every 2 s."""


class Exits:
    """The processes of this Pod that are ranks, and those that want to end.

    None waits for longer than `timeout_sec` from when the first one did; after that nobody waits.
    """

    def __init__(self, folder: OutputDirectory, timeout_sec: int, log: Log) -> None:
        self._folder, self._timeout_sec, self._log = folder, timeout_sec, log
        self._waits: dict[socket.socket, bool] = {}
        self._since = self._told_from = math.inf
        """When the first one of those that wait did so, and from when on it is told: once the gate is open."""
        self._is_held = self._may_end = self._is_late = False
        self._selector = selectors.DefaultSelector()
        self._waker, self._wakes = socket.socketpair()

    def listen(self) -> None:
        """Listen from now on, in a thread of its own.

        Raises:
            SettingsError: the folder's path is too long for a socket.
        """
        path = os.path.join(self._folder.path, EXIT_SOCKET)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._folder.remove(EXIT_SOCKET)
        self._folder.remove(EXIT_HELD)
        try:
            listener.bind(path)
            os.chmod(path, 0o666)  # noqa: S103 -- containers of any user, and only they have the folder
        except OSError as fault:
            for one in (listener, self._waker, self._wakes):
                one.close()
            raise SettingsError(f"FB_EXIT: cannot listen at {path}: {fault.strerror or fault}") from fault
        listener.listen()
        for one, take in ((listener, self._accept), (self._wakes, lambda wakes: wakes.recv(WORD_BYTES))):
            one.settimeout(0)
            self._selector.register(one, selectors.EVENT_READ, take)
        threading.Thread(target=self._serve, name="exits", daemon=True).start()

    def hear(self, gang: Gang, decision: Released | Waiting) -> None:
        """Let everybody go who wants to end, as long as the gang may: that is said of those whom it has let through.

        Once it has, the kubelet has to see a sidecar that is ready before it says anything else.
        """
        before = self._told_from, self._may_end
        if self._told_from == math.inf and isinstance(decision, Released):
            self._told_from = time.monotonic() + TOLD_AFTER_SEC
        self._may_end = self._told_from < math.inf and gang.may_end
        if (self._told_from, self._may_end) != before:
            self._waker.send(b".")

    def _serve(self) -> None:
        now = time.monotonic()
        while True:
            # A moment that has passed since the decision is still to come: nothing else may ever wake this thread.
            for key, _ in self._selector.select(self._next_in(now)):
                key.data(key.fileobj)
            now = time.monotonic()
            self._decide(now)

    def _next_in(self, now: float) -> float | None:
        """Return the seconds until the time alone changes something, None if it does not."""
        moments = (self._since + self._timeout_sec, self._told_from)
        return min((moment - now for moment in moments if now < moment < math.inf), default=None)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            if len(self._waits) >= MAX_PROCESSES:
                connection.close()
                return
            connection.settimeout(0)
            self._selector.register(connection, selectors.EVENT_READ, self._take)
            self._waits[connection] = False

    def _take(self, connection: socket.socket) -> None:
        try:
            words = connection.recv(WORD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if ENDS in words:
            self._waits[connection] = True
        elif JOINS not in words:
            self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._waits[connection]
        connection.close()

    def _decide(self, now: float) -> None:
        """Note whether all of the Pod wait, and let go who may."""
        waiting = [connection for connection, waits in self._waits.items() if waits]
        self._since = min(self._since, now) if waiting else math.inf
        self._is_late |= now >= self._since + self._timeout_sec
        if waiting and (self._may_end or self._is_late):
            why = f": they waited for {self._timeout_sec} s" if self._is_late else ""
            self._log.info(f"{len(waiting)} processes end{why}")
            for connection in waiting:
                with contextlib.suppress(OSError):
                    connection.send(b".")
                self._forget(connection)
        self._note(is_held=now >= self._told_from and bool(self._waits) and all(self._waits.values()))

    def _note(self, *, is_held: bool) -> None:
        if is_held is self._is_held:
            return
        self._is_held = is_held
        try:
            self._folder.write(File(EXIT_HELD, b"")) if is_held else self._folder.remove(EXIT_HELD)
        except OutputError as fault:
            self._log.warning(f"nobody learns that the application wants to end: {fault}")
        if is_held:
            self._log.info("the application wants to end, and waits for its peers")
