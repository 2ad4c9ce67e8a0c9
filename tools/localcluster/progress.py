"""What takes long, told on standard error: one line that changes on a terminal, a few plain lines elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_QUIET_SECONDS = 2.0
"""A shorter task that succeeds is not told of where there is no terminal."""
_PLAIN_SECONDS = 30.0


@contextlib.contextmanager
def task(name: str) -> Iterator[None]:
    """Tell of a block of code while it runs, by a thread of its own, and at its end."""
    began = time.monotonic()
    over = threading.Event()
    terminal = sys.stderr.isatty()

    def tell(sign: str, end: str) -> None:
        seconds = time.monotonic() - began
        line = f"\r\x1b[K{sign} {seconds:4.0f} s  {name}" if terminal else f"{sign} {seconds:6.1f} s  {name}"
        sys.stderr.write(line + end)
        sys.stderr.flush()

    def tick() -> None:
        wait, later = (0.0, 1.0) if terminal else (_QUIET_SECONDS, _PLAIN_SECONDS)
        while not over.wait(wait):
            tell(" ", "" if terminal else " ...\n")
            wait = later

    ticker = threading.Thread(target=tick, daemon=True, name=f"progress of {name}")
    ticker.start()
    sign = "✗"
    try:
        yield
        sign = "✓"
    finally:
        over.set()
        ticker.join()
        if terminal or sign == "✗" or time.monotonic() - began >= _QUIET_SECONDS:
            tell(sign, "\n")
