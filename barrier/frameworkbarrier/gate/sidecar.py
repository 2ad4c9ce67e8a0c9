"""The life of a native sidecar after the gate has opened: it follows the gang and rewrites the files.

`__main__` calls `follow` after the first write, with the source that it waited on. It never returns: SIGTERM ends the
process, or the end of its epoch in a gang that restarts in place (`epoch`). It promises that the files are those of
the last complete gang that could be written.
"""

import time
from collections.abc import Callable
from typing import NoReturn

from frameworkbarrier.errors import BarrierError, EpochEndedError, SettingsError
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Gatekeeper, Observation, Released
from frameworkbarrier.gate.wait import SourceReader
from frameworkbarrier.log import Log

FAULT_LINE_SEC = 60.0
"""Least time between two lines about faults."""
WRITE_AGAIN_SEC = 5.0
"""Time after which files that could not be written are tried again."""
NEVER_SEC = 86400.0


def follow(
    reader: SourceReader,
    gatekeeper: Gatekeeper,
    gang: Gang,
    write: Callable[[Released], int],
    log: Log,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Write the files again whenever the gang has changed and is complete; those of `gang` are written already.

    An incomplete gang changes nothing: the applications that run keep the last complete one. What the gatekeeper raises
    ends the process. Every other failure goes to the log and does not, because the kubelet would only start it again. A
    failed write is tried again, and the same failure is logged once, unless the settings are wrong: then no retry
    helps.
    """
    written = gang
    wanted: Released | None = None
    last_failure = ""
    quiet_until = clock()
    while True:
        try:
            item = reader.get(NEVER_SEC if wanted is None else WRITE_AGAIN_SEC)
        except BarrierError as end:
            _stay(reader, end, log)
        if isinstance(item, Observation):
            decision = gatekeeper.decide(item)
            if isinstance(decision, Released):
                seen = decision.gang
                wanted = decision if (seen.generation, seen.roles) != (written.generation, written.roles) else None
        elif item is not None:
            if clock() >= quiet_until:
                quiet_until = clock() + FAULT_LINE_SEC
                log.info(item.text)
            continue
        if wanted is None:
            continue
        generation = f"generation {wanted.gang.generation}"
        try:
            count = write(wanted)
        except BarrierError as failure:
            line = f"{generation} was not written: {failure}"
            if line != last_failure:
                last_failure = line
                log.warning(line)
            if isinstance(failure, SettingsError):
                written, wanted = wanted.gang, None
        else:
            log.info(f"{generation}: {wanted.gang.total} Tasks; wrote {count} files")
            written, wanted = wanted.gang, None


def _stay(reader: SourceReader, end: BarrierError, log: Log) -> NoReturn:
    """Wait for SIGTERM after the end of the source, unless the epoch has ended with it."""
    if isinstance(end, EpochEndedError):
        raise end
    log.warning(f"the files stay as they are: {end}")
    while True:
        reader.get(NEVER_SEC)  # of a source that has ended; not `time.sleep`, which can miss a signal
