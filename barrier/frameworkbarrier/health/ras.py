"""Progress by NCCL's RAS: how many collective operations the communicators of the job have begun. Experimental.

One process of the Pod answers at a local port for the whole job, in JSON, which has the counts, since NCCL 2.28.7.
Source: NVIDIA's documentation of NCCL, "RAS".
"""

import asyncio
import contextlib
import re
from collections.abc import Callable

from frameworkbarrier.health.lead import exchange

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
    host, _, port = address.rpartition(":")
    while True:
        with contextlib.suppress(OSError, ValueError):  # a time-out is an OSError
            # Only a whole answer, or as much of it as counts: parts of a slow one would be numbers that change.
            count = operations(await exchange(host.strip("[]"), port, REQUEST, ANSWER_BYTES, TIMEOUT_SEC))
            if count is not None:
                hear(b"%d" % count)
        await asyncio.sleep(pause)


def operations(answer: bytes) -> int | None:
    """Return the operations of all communicators, each as far as its furthest rank; None if it tells of no rank.

    A rank that RAS does not reach leaves that number as it is: it must not change while the job hangs.
    """
    communicators = (_COUNTS.findall(part) for part in answer.split(b'"hash"'))
    furthest = [max(sum(map(int, _NUMBER.findall(rank))) for rank in ranks) for ranks in communicators if ranks]
    return sum(furthest) if furthest else None
