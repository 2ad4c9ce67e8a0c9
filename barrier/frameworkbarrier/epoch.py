"""In-place restart as this Pod sees it: which start of the barrier this is, and the end of its epoch.

A gang that restarts in its Pods starts again with each epoch, and the roster lists each Pod with the number of starts
of its barrier. `__main__` makes an `OwnStart`, `wait` decides by it, and once the gate is open, `follow` ends this
program with its epoch. Source: docs/reference/restart.md, section 4.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from frameworkbarrier.errors import EpochEndedError, OutputError
from frameworkbarrier.files.output import File, OutputDirectory
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Behind, Observation, Released, Waiting, decide
from frameworkbarrier.log import Log
from frameworkbarrier.settings import Identity, Settings

if TYPE_CHECKING:
    from frameworkbarrier.gate.wait import SourceReader

STARTS = "starts"
RESTARTING = "restarting"
DISAGREEMENT_SEC = 10.0
"""How long the roster may list this Pod with another start before its number counts."""
MAX_DIGITS = 9


class OwnStart:
    """The number of this start of the barrier in its Pod, as its folder has it, or as the roster insists.

    The kubelet counts starts, too, and the roster has its number. Both differ where the folder was lost or a container
    could not be started. A roster with another number may also be that of a gang that runs since before this start; who
    takes part in that would have peers that are somewhere else. So the roster's number counts only after this barrier
    has seen the gate closed.
    """

    def __init__(self, folder: OutputDirectory, log: Log, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Count this start.

        Raises:
            OutputError: the number cannot be kept.
        """
        self._folder, self._log, self._clock = folder, log, clock
        self._saw_closed = False
        self._differs_since: float | None = None
        before = folder.read(STARTS, MAX_DIGITS + 1).strip()
        self.number = (int(before) if before.isdigit() and len(before) <= MAX_DIGITS else 0) + 1
        self._keep()
        folder.remove(RESTARTING)
        if self.number > 1:
            log.info(f"start {self.number} of the barrier in this Pod: it waits until its peers have started again too")

    def _keep(self) -> None:
        self._folder.write(File(STARTS, f"{self.number}\n".encode()))

    def due_in(self) -> float | None:
        """Return the seconds until the roster's number counts, None if there is nothing to wait for."""
        if self._differs_since is None or not self._saw_closed:
            return None
        return max(self._differs_since + DISAGREEMENT_SEC - self._clock(), 0.0)

    def decide(self, observation: Observation, identity: Identity) -> Released | Waiting | Behind:
        """Decide as `gate.decide` does, for this start.

        Raises:
            SettingsError: of `gate.decide`.
            OutputError: the number cannot be kept.
        """
        verdict = decide(observation, identity, self.number)
        self._saw_closed = self._saw_closed or not observation.gang.complete
        if not isinstance(verdict, Waiting) or verdict.listed is None:
            self._differs_since = None
            return verdict
        if self._differs_since is None:
            self._differs_since = self._clock()
        if self.due_in() != 0.0:
            return verdict
        self._log.warning(
            f"the roster has listed this Pod with start {verdict.listed} for {DISAGREEMENT_SEC:g} s, and this barrier "
            f"has counted {self.number}: the number of the roster counts"
        )
        self.number, self._differs_since = verdict.listed, None
        self._keep()
        return decide(observation, identity, self.number)


def follow(
    reader: "SourceReader",
    settings: Settings,
    gang: Gang,
    write: Callable[[Released], int],
    log: Log,
    folder: OutputDirectory,
    start: OwnStart,
) -> NoReturn:
    """Follow the gang as `sidecar.follow` does, until its epoch ends.

    The application runs. So this barrier must not start again alone, whatever ends it: it would wait for an epoch
    beside an application of another one.

    Raises:
        EpochEndedError: a later epoch begins, or this barrier has failed.
    """
    from frameworkbarrier.gate import sidecar

    def judge(observation: Observation, identity: Identity) -> Released | Waiting | Behind:
        found = observation.gang
        if found.epoch is None:
            return Waiting(found.ready, found.total, ())
        if found.epoch > (gang.epoch or 0):
            leave(found.epoch, found.why, folder, log, settings.restart_grace_sec)
        return decide(observation, identity, start.number)

    try:
        sidecar.follow(reader, settings.identity, gang, write, log, judge=judge)
    except EpochEndedError:
        raise
    except Exception as fault:
        text = f"the barrier failed: {type(fault).__name__}: {fault}: all containers of this Pod start again"
        raise EpochEndedError(text) from fault


def leave(
    epoch: int,
    why: str,
    folder: OutputDirectory,
    log: Log,
    grace_sec: int,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """End the barrier of an open gate, since a later epoch begins: the kubelet then restarts all containers.

    Args:
        epoch: that begins.
        why: the epoch before has ended.
        folder: where the application finds its notice.
        log: takes a line if there is a grace.
        grace_sec: seconds between the notice and the end.
        sleep: waits.

    Raises:
        EpochEndedError: always.
    """
    text = f"epoch {epoch} begins: {why or 'the gang restarts'}"
    try:
        folder.write(File(RESTARTING, f"{text}\n".encode()))
    except OutputError as fault:
        log.warning(f"the application gets no notice: {fault}")
    if grace_sec:
        log.info(f"{text}: the application has {grace_sec} s")
        sleep(grace_sec)
    raise EpochEndedError(f"{text}: all containers of this Pod start again")
