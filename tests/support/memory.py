"""How much memory code takes, by tracemalloc."""

import contextlib
import gc
import tracemalloc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def memory() -> Iterator[Callable[[], int]]:
    """Give what tells how many bytes have come that are still in use."""

    def used() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        yield used
    finally:
        tracemalloc.stop()
