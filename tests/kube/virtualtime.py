"""An event loop whose time jumps to the next timer when nothing else is to be done; its sockets are real."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

GRACE_SECONDS = 0.001
"""What the kernel may take to hand over what was written to a loopback socket, or a thread to go on."""
THREAD_SECONDS = 20.0
"""What a thread may take before it has its result."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump
        self.threads = 0
        """That work for the loop."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        # The loop itself has a socket, by which threads wake it.
        if self.threads or len(self.get_map()) > 1:
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
    """Everything in it, servers included, lives in the time of `time()`.

    Args:
        threads: that work beside it all the time; those that it starts itself are counted.
    """

    def __init__(self, threads: int = 0) -> None:
        self._now = 1000.0
        self._sockets = _Selector(self._jump)
        self._sockets.threads = threads
        super().__init__(self._sockets)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Give a thread time while it works."""
        done = super().run_in_executor(executor, func, *args)
        self._sockets.threads += 1
        done.add_done_callback(self._end_thread)
        return done

    def _end_thread(self, _: object) -> None:
        self._sockets.threads -= 1

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        self._now += seconds


def in_virtual_time(test: Callable[..., Awaitable[None]], *, threads: int = 0) -> Callable[..., None]:
    """Runs an async test in a `VirtualLoop`."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=functools.partial(VirtualLoop, threads)) as runner:
            runner.run(main())

    return run


beside_a_thread = functools.partial(in_virtual_time, threads=1)
"""The same for a test in which a thread of the program works, such as the one that writes lines."""
