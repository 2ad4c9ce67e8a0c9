"""The life of a native sidecar after the gate: follow the gang and keep the files true until SIGTERM."""

import time
from collections.abc import Callable

from .errors import BarrierError
from .gang import Me, Open, decide
from .log import Log
from .views import Look
from .wait import Inbox, Opened
from .writer import Writer

SAME_TROUBLE_SEC = 60.0
"""Least time between two lines about troubles."""
NEVER_SEC = 86400.0


def follow(
    inbox: Inbox, me: Me, opened: Opened, writer: Writer, log: Log, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Write the files again whenever the gang has changed and is complete. Returns only by an exception.

    An incomplete gang changes nothing: those who run keep the last complete one. Whatever goes wrong is said in the
    log, because a sidecar that ended would be started again and could do no better.

    Raises:
        TerminatedError: SIGTERM arrived.
    """
    last = opened.open.gang
    quiet_until = clock()
    while True:
        try:
            item = inbox.get(NEVER_SEC)
        except BarrierError as end:
            log.caution(f"the files stay as they are: {end}")
            _sleep_for_ever()
        if isinstance(item, Look):
            verdict = decide(item.gang, me)
            if not isinstance(verdict, Open) or (item.gang.generation, item.gang.roles) == (
                last.generation,
                last.roles,
            ):
                continue
            last = item.gang
            try:
                count = writer.write(verdict, item)
            except BarrierError as fault:
                log.caution(f"generation {last.generation} was not written: {fault}")
            else:
                log.note(f"generation {last.generation}: {last.total} Tasks; wrote {count} files")
        elif item is not None and clock() >= quiet_until:
            quiet_until = clock() + SAME_TROUBLE_SEC
            log.note(item.text)


def _sleep_for_ever() -> None:
    while True:
        time.sleep(NEVER_SEC)
