"""So many at a time of each source, and of all together: many of one wait for themselves, and hold up no other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary


class Slots:
    """Slots of sources, such as namespaces or persons.

    Args:
        of_one: How many one source has at a time.
        of_all: How many all have together, any number if None.
    """

    def __init__(self, of_one: int, of_all: int | None = None) -> None:
        self._of_one = of_one
        self._of_all = contextlib.nullcontext() if of_all is None else asyncio.Semaphore(of_all)
        # Of each as long as it has one, or waits for it.
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def of(self, source: str) -> AsyncIterator[None]:
        """Wait for a slot of a source, and have it for the block."""
        # In this order: who waits for its own source takes none of all.
        async with self._of.setdefault(source, asyncio.Semaphore(self._of_one)), self._of_all:
            yield
