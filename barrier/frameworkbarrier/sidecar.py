"""The life of a native sidecar after the gate: follow the gang and keep the files true until SIGTERM."""

import time
from collections.abc import Callable
from typing import NoReturn

from .errors import BarrierError, SettingsError
from .gang import Me, Open, decide
from .log import Log
from .views import Look
from .wait import Inbox, Opened
from .writer import Writer

SAME_TROUBLE_SEC = 60.0
"""Least time between two lines about troubles."""
WRITE_AGAIN_SEC = 5.0
"""After which files that could not be written are tried again."""
NEVER_SEC = 86400.0


def follow(
    inbox: Inbox, me: Me, opened: Opened, writer: Writer, log: Log, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Write the files again whenever the gang has changed and is complete. Never returns.

    An incomplete gang changes nothing: those who run keep the last complete one. Whatever goes wrong is said in the
    log, because a sidecar that ended would be started again and could do no better. What could not be written is
    tried again, and the same fault said once, unless no retry will help.
    """
    written = opened.open.gang
    wanted: tuple[Open, Look] | None = None
    said = ""
    quiet_until = clock()
    while True:
        try:
            item = inbox.get(NEVER_SEC if wanted is None else WRITE_AGAIN_SEC)
        except BarrierError as end:
            log.caution(f"the files stay as they are: {end}")
            _sleep_for_ever()
        if isinstance(item, Look):
            verdict = decide(item.gang, me)
            if isinstance(verdict, Open):
                news = (item.gang.generation, item.gang.roles) != (written.generation, written.roles)
                wanted = (verdict, item) if news else None
        elif item is not None and clock() >= quiet_until:
            quiet_until = clock() + SAME_TROUBLE_SEC
            log.note(item.text)
        if wanted is not None and (isinstance(item, Look) or item is None):
            gang = wanted[0].gang
            try:
                count = writer.write(*wanted)
            except BarrierError as fault:
                line = f"generation {gang.generation} was not written: {fault}"
                if line != said:
                    said = line
                    log.caution(line)
                if isinstance(fault, SettingsError):
                    written, wanted = gang, None
            else:
                written, wanted = gang, None
                log.note(f"generation {gang.generation}: {gang.total} Tasks; wrote {count} files")


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(NEVER_SEC)
