"""Progress by NCCL's RAS: how many collective operations the communicators of the job have begun. Experimental.

One process of the Pod answers at a local port for the whole job, in JSON, which has the counts, since NCCL 2.28.7.
Source: NVIDIA's documentation of NCCL, "RAS".
"""

import asyncio
import contextlib
import re
from collections.abc import Callable

ADDRESS = "localhost:28028"
"""Where NCCL listens, unless NCCL_RAS_ADDR says otherwise."""
REQUEST = b"set format json\nstatus\n"
PAUSE_SEC = 5.0
TIMEOUT_SEC = 10.0
"""RAS itself waits for 5 s for processes that do not answer."""
ANSWER_BYTES = 64 * 1024
"""What a longer answer has behind these, with more than about a hundred ranks, is not counted."""
_COUNTS = re.compile(rb'"collective_counts"\s*:\s*\{([^{}]*)\}')
_NUMBER = re.compile(rb":\s*(\d{1,18})\b")


async def follow(hear: Callable[[bytes], object], address: str = ADDRESS, pause: float = PAUSE_SEC) -> None:
    """Ask again and again, and let `hear` hear each count. Who does not answer says nothing."""
    while True:
        with contextlib.suppress(OSError, ValueError):  # a time-out is an OSError
            count = operations(await _ask(address))
            if count is not None:
                hear(b"%d" % count)
        await asyncio.sleep(pause)


async def _ask(address: str) -> bytes:
    """Return an answer that is whole, or as much of it as counts: parts of a slow one would be numbers that change."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(TIMEOUT_SEC):
        reader, writer = await asyncio.open_connection(host.strip("[]"), port)
        try:
            writer.write(REQUEST)
            data = b""
            while len(data) < ANSWER_BYTES and (more := await reader.read(ANSWER_BYTES - len(data))):
                data += more
            return data
        finally:
            writer.close()


def operations(answer: bytes) -> int | None:
    """Return the operations of all communicators, each as far as its furthest rank; None if it tells of no rank.

    A rank that RAS does not reach leaves that number as it is: it must not change while the job hangs.
    """
    communicators = (_COUNTS.findall(part) for part in answer.split(b'"hash"'))
    furthest = [max(sum(map(int, _NUMBER.findall(rank))) for rank in ranks) for ranks in communicators if ranks]
    return sum(furthest) if furthest else None
