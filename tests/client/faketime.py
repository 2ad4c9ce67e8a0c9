"""Time that passes only when a test's code sleeps."""

import asyncio


class FakeTime:
    """A clock and a sleep for injection. After `until` sleepers sleep for ever, and a loop under test stops there."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.until = float("inf")
        self.slept: list[float] = []
        self.ended = asyncio.Event()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.now + seconds >= self.until:
            self.ended.set()
            await asyncio.Event().wait()
        self.now += seconds
        await asyncio.sleep(0)
