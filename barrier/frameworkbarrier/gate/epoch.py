"""In-place restart as this Pod sees it: for which start of the barrier the gate opens, and the end of its epoch.

A gang that restarts in its Pods starts again with each epoch, and the roster lists each Pod with the number of starts
of its barrier. `wait` asks `InEpochs` in place of a plain `Gatekeeper`, and once the gate is open, `follow` ends this
program with its epoch. Source: docs/reference/restart.md, section 4.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from frameworkbarrier.errors import EpochEndedError, HungError, OutputError, SettingsError
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Gatekeeper, Observation, Released, Waiting
from frameworkbarrier.log import Log
from frameworkbarrier.settings import OwnTask

if TYPE_CHECKING:
    from frameworkbarrier.gate.wait import SourceReader

DISAGREEMENT_SEC = 10.0
"""How long the roster may list this Pod with another start before its number counts."""


class InEpochs(Gatekeeper):
    """Opens the gate for the start of the barrier that a complete gang lists, until a later epoch begins.

    The barrier and the kubelet both count starts, and the roster has the kubelet's number. They differ where the folder
    was lost or a container could not be started. A roster with another number may also be that of a gang that runs
    since before this start; who takes part in that would have peers that are somewhere else. So the roster's number
    counts only after this barrier has seen the gate closed.
    """

    def __init__(self, own_task: OwnTask, start: int, log: Log, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the number of this start in the Pod, as the barrier has counted it; the first is 1."""
        super().__init__(own_task)
        self._start, self._log, self._clock = start, log, clock
        self._epoch: int | None = None
        """The epoch whose gate has opened."""
        self._saw_closed = False
        self._differs_since: float | None = None
        if start > 1:
            log.info(f"start {start} of the barrier in this Pod: it waits until its peers have started again too")

    def due_in(self) -> float | None:
        """Return the seconds until the roster's number counts, None if there is nothing to wait for."""
        if self._differs_since is None or not self._saw_closed or self._epoch is not None:
            return None
        return max(self._differs_since + DISAGREEMENT_SEC - self._clock(), 0.0)

    def _judge(self, observation: Observation) -> Released | Waiting:
        """Decide for this start.

        Raises:
            EpochEndedError: an epoch has begun that this start has no part in, or its own is counted anew.
            SettingsError: the gang does not restart in place.
        """
        gang = observation.gang
        self._check_epoch(gang)
        decision = super()._judge(observation)
        if isinstance(decision, Waiting) or decision.task is None:
            self._saw_closed = self._saw_closed or not gang.complete
            self._differs_since = None
            return decision
        if gang.epoch is None and self._epoch is None:
            raise SettingsError(
                "FB_RESTART=in-place: the gang has no epoch, so nobody restarts it: use a controller of this "
                "version, or remove the annotation restart, whose change takes effect with the next attempt"
            )
        listed = decision.task.starts
        if gang.epoch is None or (listed != self._start and not self._gives_way_to(listed)):
            return self._wait_for_itself(gang, f"is listed with start {listed}, this is {self._start}")
        if self._epoch is None:
            self._epoch = gang.epoch
        elif self._epoch != gang.epoch:
            # etcd was restored from a backup. Who has crashed since is listed, too, and must not join this application.
            raise EpochEndedError(f"epoch {gang.epoch} lists this start, which epoch {self._epoch} has released")
        return decision

    def _check_epoch(self, gang: Gang) -> None:
        own = (self._own_task.role, self._own_task.index, (self._own_task.uid or "")[:8], self._start)
        if gang.epoch is None:
            return
        if self._epoch is not None and gang.epoch > self._epoch:
            raise EpochEndedError(f"epoch {gang.epoch} begins: {gang.why or 'the gang restarts'}")
        if not gang.complete and own in gang.behind:
            raise EpochEndedError(f"epoch {gang.epoch} has begun without this start of the Pod: {gang.why}")

    def _gives_way_to(self, listed: int) -> bool:
        """Take the roster's number for this start if it has been another one for long enough."""
        if self._differs_since is None:
            self._differs_since = self._clock()
        if self.due_in() != 0.0:
            return False
        self._log.warning(
            f"the roster has listed this Pod with start {listed} for {DISAGREEMENT_SEC:g} s, and this barrier "
            f"has counted {self._start}: the number of the roster counts"
        )
        self._start = listed
        return True


def follow(
    reader: "SourceReader",
    gatekeeper: Gatekeeper,
    gang: Gang,
    write: Callable[[Released], int],
    log: Log,
    announce: Callable[[str], None],
    grace_sec: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """Follow the gang as `sidecar.follow` does, until its epoch ends: the kubelet then restarts all containers.

    The application runs. So this barrier must not start again alone, whatever ends it: it would wait for an epoch
    beside an application of another one. The application gets its notice by `announce`, `grace_sec` before the end.

    Raises:
        EpochEndedError: a later epoch begins, or this barrier has failed.
    """
    from frameworkbarrier.gate import sidecar

    try:
        sidecar.follow(reader, gatekeeper, gang, write, log)
    except HungError:
        raise  # an application that hangs hears no notice
    except EpochEndedError as end:
        text = str(end)
        try:
            announce(text)
        except OutputError as fault:
            log.warning(f"the application gets no notice: {fault}")
        if grace_sec:
            log.info(f"{text}: the application has {grace_sec} s")
            sleep(grace_sec)
    except Exception as fault:  # noqa: BLE001 -- whatever it is, the Pod starts again
        text = f"the barrier failed: {type(fault).__name__}: {fault}"
    raise EpochEndedError(f"{text}: all containers of this Pod start again")
