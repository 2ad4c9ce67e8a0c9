"""Repeat a step in the background of a test.

The faults of `tests/apiserver` and the helpers `kubelet` and `player` use it.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

_JOIN_SECONDS = 120.0


@contextlib.contextmanager
def in_background(step: Callable[[], object], *, every: float = 0.0) -> Iterator[None]:
    """Repeat a step in a thread until the block ends; an error of the step is raised at the end.

    Args:
        step: The function to call.
        every: The seconds between two calls, and before the first.
    """
    over, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not over.wait(every):
                step()
        except BaseException as error:  # noqa: BLE001 -- raised in the thread of the test
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)
    assert not thread.is_alive(), f"the step still runs {_JOIN_SECONDS:g} s after the end of the block"
    if failures:
        raise failures[0]
