"""Cuts a byte stream into lines of any length."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Far above what a server sends (an object has at most about 1.5 MiB); protects against a stream without newlines."""


class LineSplitter:
    """Collects chunks until a newline.

    The HTTP library's own line reader fails at a few MiB, and copies what it has with every chunk.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add the next chunk and return the lines that it completes, without their newlines.

        Raises:
            ValueError: a line is longer than `MAX_LINE_BYTES`.
        """
        first, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._pending.append(chunk)
            self._pending_bytes += len(chunk)
            if self._pending_bytes > MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
            return []
        self._pending.append(first)
        lines = [b"".join(self._pending)]
        *complete, tail = rest.split(b"\n")
        lines += complete
        self._pending = [tail] if tail else []
        self._pending_bytes = len(tail)
        return lines

    @property
    def unfinished(self) -> bool:
        """Whether there are bytes after the last newline."""
        return self._pending_bytes > 0
