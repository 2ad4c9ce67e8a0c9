"""Leader election on a Lease: one replica of several works, and its work does not outlive its lease.

The controller's `run` makes one `LeaderElection` and awaits `run(lead)`, with the work as a coroutine function. The
promise: the work runs only while this process holds the Lease, `holds` says so at any moment, and a process whose work
cannot be stopped in time ends. The requests are `lease_lock`'s; this module decides when to make them.

Object and fields are client-go's (`tools/leaderelection`), so `kubectl get lease` shows what people know, and programs
of both kinds may compete for one Lease. What differs serves the rule that two replicas never work at once:

- a term counts from the moment before the write that won or renewed it was sent;
- a holder that is overtaken stops at once, and the process ends if its work takes longer than the lease;
- a Lease that vanished is not free before the holder last seen has had its time.

This bears clocks of different rates: 1.5 to 1 by default (the lease's duration through the renew deadline), and 1.2 to
1 when the work does not stop and the process has to end.

A replica that starts between the deletion of the Lease and the moment when its holder notices cannot know of the
holder; then two replicas work until the holder's next renewal. Do not delete the Lease.
"""

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NoReturn

from frameworkkube.election.lease_lock import LeaseLock
from frameworkkube.errors import ApiStatusError, KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.log import Logger

_log = Logger(__name__)

LEASE_DURATION_SECONDS: Final = 12
"""Less than client-go's 15: candidates notice the last renewal up to 2.4 s late, and a replica that was killed is
followed within 15 s."""
RENEW_DEADLINE_SECONDS: Final = 8.0
RETRY_PERIOD_SECONDS: Final = 2.0
JITTER: Final = 0.2
"""Of the retry period; candidates wait longer by it, the holder shorter."""
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Return monotonic seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(_CLOCK)


def unique_identity(hostname: str | None = None) -> str:
    """Return `<host>_<uuid>`, as client-go's programs call themselves: never the same for two processes."""
    return f"{hostname or socket.gethostname()}_{uuid.uuid4()}"


def exit_at_once() -> NoReturn:
    """End the process without any cleanup that could still write something."""
    os._exit(1)


class LeaderElection:
    """One candidate for one Lease.

    Args:
        client: of the API server; the Lease's requests pass any pause that the server asked of the client.
        identity: of this process and no other, see `unique_identity`.
        on_overdue: ends the process; called when the work has not stopped by the end of the lease.
        lease_duration_seconds: whole seconds that the other candidates leave a silent holder.
        renew_deadline_seconds: without a renewal for so long the holder stops its work.
        retry_period_seconds: between two renewals, and between two attempts of a candidate.
        clock: monotonic seconds.
        wall_clock: Unix seconds; only written, for people.

    Raises:
        ValueError: see `check_times`.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_overdue: Callable[[], object] = exit_at_once,
        lease_duration_seconds: int = LEASE_DURATION_SECONDS,
        renew_deadline_seconds: float = RENEW_DEADLINE_SECONDS,
        retry_period_seconds: float = RETRY_PERIOD_SECONDS,
        clock: Callable[[], float] = boot_clock,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        check_times(lease_duration_seconds, renew_deadline_seconds, retry_period_seconds)
        self._name, self._identity = name, identity
        self._duration, self._period = lease_duration_seconds, retry_period_seconds
        self._on_overdue = on_overdue
        self._clock, self._sleep, self._draw = clock, sleep, draw
        self._lock = LeaseLock(
            client,
            namespace,
            name,
            identity,
            lease_duration_seconds=lease_duration_seconds,
            renew_deadline_seconds=renew_deadline_seconds,
            clock=clock,
            wall_clock=wall_clock,
        )

    @property
    def holds(self) -> bool:
        """Whether the work may write at this moment.

        Ask right before a write: after a pause of the whole process the work may wake before the election does.
        """
        return self._lock.leading and self._lock.remaining_seconds > 0

    @property
    def holder(self) -> str:
        """The identity that holds the lease as far as is known here, empty if nobody does."""
        return self._lock.holder

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Compete, work as long as the lease lasts, and compete again when it was lost.

        Cancelled, it cancels the work, goes on renewing until the work has stopped, and releases the lease. The work is
        called again for each term, and cancelled when that ends. When the work ends by itself, the lease is released
        and this method ends as it did.
        """
        while True:
            await self._acquire()
            work = asyncio.create_task(lead())
            cancelled, lost = await self._serve(work)
            self._lock.leading = False
            if cancelled or not lost:
                await self._lock.release()
            if not work.cancelled() and (error := work.exception()) is not None:
                raise error
            if cancelled:
                raise asyncio.CancelledError
            if not lost:
                return work.result()

    # --- a candidate -------------------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        """Try once per period until this candidate holds the Lease.

        The pauses are the protocol's, not a back-off: a period with jitter, less when another's lease expires earlier.
        """
        logged = ""
        try:
            while True:
                pause = self._period * (1 + JITTER * self._draw())
                try:
                    if await self._lock.try_acquire():
                        break
                    why = f"held by {self.holder}" if self._lock.is_held_by_another else "another replica was faster"
                    left = self._lock.others_remaining_seconds
                    pause = left if 0 < left < pause else pause
                except KubeError as error:
                    why = str(error)
                    if isinstance(error, ApiStatusError) and error.retry_after_seconds:
                        pause = max(pause, min(error.retry_after_seconds, self._duration))
                if why != logged:
                    logged = why
                    _log.info("waiting for the lease", lease=self._name, why=why)
                await self._sleep(pause)
        except asyncio.CancelledError:
            if self._lock.is_claim_unanswered:
                await self._lock.release()
            raise
        _log.info("became the leader", lease=self._name, identity=self._identity)

    # --- the holder --------------------------------------------------------------------------------------------------

    async def _serve(self, work: asyncio.Task[None]) -> tuple[bool, bool]:
        """Hold the lease to the end of the work; return whether the election was cancelled, and the lease lost."""
        renewing = asyncio.create_task(self._renew_until_lost())
        cancelled = await _first_of(work, renewing, on_cancel=work.cancel)
        lost = not work.done()
        if lost:
            _log.error("lost the lease, the work stops", lease=self._name, holder=self.holder)
            work.cancel()
            patience = self._lock.stopping_seconds
            if not self._lock.leading:
                patience = min(patience, self._period)  # the new holder may be at work already
            end = asyncio.ensure_future(self._sleep(max(patience, 0.0)))
            cancelled |= await _first_of(work, end)
            if not work.done():
                _log.critical("the work outlives the lease, the process ends", lease=self._name)
                self._on_overdue()
            cancelled |= await _first_of(work)
            end.cancel()
        renewing.cancel()
        cancelled |= await _first_of(renewing)
        if not renewing.cancelled():
            renewing.result()  # a defect of this module shall not pass for a lease that was lost
        return cancelled, lost

    async def _renew_until_lost(self) -> None:
        """Renew once per period; at the end `leading` is False if another replica may be at work already."""
        spent = 0.0
        while (remaining := self._lock.remaining_seconds) > 0:
            # A try that hung for half the deadline has to leave time for another one.
            await self._sleep(min(remaining, max(self._period * (1 - JITTER * self._draw()) - spent, 0.0)))
            if self._lock.remaining_seconds <= 0:
                return
            began = self._clock()
            try:
                self._lock.leading = await self._lock.renew()
            except KubeError as error:
                _log.warning(
                    "cannot renew the lease",
                    lease=self._name,
                    remaining_seconds=round(self._lock.remaining_seconds, 1),
                    error=str(error),
                )
            spent = self._clock() - began
            if not self._lock.leading:
                return


def check_times(lease_duration: float, renew_deadline: float, retry_period: float) -> None:
    """Check the three times, in seconds, against one another.

    Raises:
        ValueError: a holder could not renew in time, or not stop in time.
    """
    if retry_period <= 0:
        raise ValueError(f"the retry period must be greater than 0 s, not {retry_period:g} s")
    if renew_deadline <= retry_period * (1 + JITTER):
        raise ValueError(
            f"the renew deadline, {renew_deadline:g} s, must be greater than {1 + JITTER:g} times the retry period, "
            f"{retry_period:g} s"
        )
    if lease_duration <= renew_deadline:
        raise ValueError(
            f"the lease duration, {lease_duration:g} s, must be greater than the renew deadline, {renew_deadline:g} s"
        )


async def _first_of(*futures: asyncio.Future[Any], on_cancel: Callable[[], object] = lambda: None) -> bool:
    """Wait until one of them is done, however often the caller is cancelled meanwhile; report whether it was."""
    cancelled = False
    while not any(future.done() for future in futures):
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    return cancelled
