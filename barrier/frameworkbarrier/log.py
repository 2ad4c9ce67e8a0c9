"""Log lines on stderr, as text or JSON, and the last line, which also goes to the termination log.

Not `logging`: an init container writes a dozen lines in its life, and a formatter would be longer than this.
"""

import contextlib
import json
import os
import time
from typing import TextIO

from frameworkbarrier.text import one_line

TERMINATION_LIMIT = 4096
"""Bytes that the kubelet keeps of a termination message."""


class Log:
    """Writes one line per event. Never raises: a full or closed log must not keep the gate closed."""

    def __init__(self, *, as_json: bool = False, stream: TextIO | None = None) -> None:
        self._as_json = as_json
        self._stream = stream

    def info(self, message: str) -> None:
        """Write what a person who inspects a waiting Pod wants to know."""
        self._write("info", message)

    def warning(self, message: str) -> None:
        """Write what a person may have to act on."""
        self._write("warning", message)

    def error(self, message: str) -> None:
        """Write why the barrier ended without opening."""
        self._write("error", message)

    def _write(self, level: str, message: str) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        if self._as_json:
            line = json.dumps({"ts": stamp, "level": level, "msg": message}, ensure_ascii=False)
        else:
            line = f"{stamp} {level.upper()} {message}"
        with contextlib.suppress(OSError, ValueError):
            if self._stream is None:
                # Not print: the handler of SIGTERM may interrupt it, and must be able to write as well.
                os.write(2, f"{line}\n".encode(errors="replace"))
            else:
                print(line, file=self._stream, flush=True)


def leave_message(path: str, message: str) -> None:
    """Write the last line where the kubelet reads a container's termination message, if that file is there."""
    data = one_line(message, TERMINATION_LIMIT).encode(errors="replace")[:TERMINATION_LIMIT]
    with contextlib.suppress(OSError):
        # Not created: outside of a container there is no such file, and none is needed.
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)
