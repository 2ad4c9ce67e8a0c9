"""An event loop whose time jumps to the next timer when nothing else is to be done; its sockets are real."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

GRACE_SECONDS = 0.001
"""What the kernel may take to hand over what was written to a loopback socket."""
THREAD_SECONDS = 20.0
"""What a thread may take before it has its result."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(GRACE_SECONDS)
        if ready:
            return ready
        if timeout is None:
            # A thread may still work; its time is real.
            ready = super().select(THREAD_SECONDS)
            if not ready:
                raise AssertionError("everybody waits for ever")
            return ready
        self._jump(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Everything in it, servers included, lives in the time of `time()`."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_Selector(self._jump))

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        self._now += seconds


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an async test in a `VirtualLoop`."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())

    return run
