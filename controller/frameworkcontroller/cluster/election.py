"""Leader election on a Lease: of several replicas one works, and its work does not outlive its lease.

Object and fields are client-go's (`tools/leaderelection`), so ``kubectl get lease`` shows what people know, and
programs of both may compete for one Lease. What differs serves the rule that two never work at once:

- a term counts from the moment before the write that won or renewed it was sent;
- whoever is overtaken stops at once, and the process ends if its work takes longer than the lease;
- a Lease that vanished is not free before the holder last seen has had its time.

Nobody's clock but the own is read: another's lease is over when its record has not changed here for its duration. This
bears clocks of different rates: 1.5 to 1 by default (the lease's duration through the renew deadline), and 1.2 to 1
when the work does not stop and the process has to end.

A replica that starts in the seconds between somebody's deleting the Lease and its holder's noticing cannot know of the
holder; then two work until the holder's next renewal. Do not delete it.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import structlog

from frameworkcontroller.cluster.errors import AlreadyExists, ApiStatusError, Conflict, KubeError, NotFound
from frameworkcontroller.cluster.lease import API_VERSION, Lease
from frameworkcontroller.cluster.paths import resource_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from frameworkcontroller.cluster.rest import KubeClient

_log = structlog.get_logger(__name__)

LEASE_DURATION_SECONDS: Final = 12
"""Less than client-go's 15: with the look at which others notice the last renewal, up to 2.4 s late, a replica that was
killed is followed within 15 s."""
RENEW_DEADLINE_SECONDS: Final = 8.0
RETRY_PERIOD_SECONDS: Final = 2.0
JITTER: Final = 0.2
"""Of the retry period; candidates wait longer by it, the holder shorter."""
_TRIES: Final = 3
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Monotonic seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(_CLOCK)


def unique_identity(hostname: str | None = None) -> str:
    """``<host>_<uuid>``, as client-go's programs call themselves: never the same for two processes."""
    return f"{hostname or socket.gethostname()}_{uuid.uuid4()}"


def exit_at_once() -> NoReturn:
    """Ends the process without any farewell that could still write something."""
    os._exit(1)


class LeaderElection:
    """One candidate for one Lease.

    Args:
        client: of the API server; the Lease's requests pass any pause that the server asked of the client.
        namespace: of the Lease.
        name: of the Lease.
        identity: of this process and no other, see `unique_identity`.
        on_overdue: ends the process; called when the work has not stopped by the end of the lease.
        lease_duration_seconds: whole seconds that others leave a silent holder.
        renew_deadline_seconds: without a renewal for so long the holder stops its work.
        retry_period_seconds: between two renewals, and between two looks of a candidate.
        clock: monotonic seconds.
        wall_clock: Unix seconds; only written, for people.
        sleep: waits so many seconds of `clock`.
        draw: a random number in [0, 1).

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
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._collection = resource_path(API_VERSION, "leases", namespace=namespace)
        self._path = resource_path(API_VERSION, "leases", namespace=namespace, name=name)
        self._duration, self._deadline = lease_duration_seconds, renew_deadline_seconds
        self._period = retry_period_seconds
        self._on_overdue = on_overdue
        self._clock, self._wall_clock, self._sleep, self._draw = clock, wall_clock, sleep, draw
        self._lease: Lease | None = None  # as last read or written
        self._record: object = None  # what the last look of a candidate saw, None for no Lease
        self._changed_at = float("-inf")  # when a look first saw that
        self._renewed_at = float("-inf")  # when the last write that made us the holder was sent
        self._leading = False
        self._unsure = False  # a write that makes us the holder is on its way, or its answer was lost

    @property
    def holds(self) -> bool:
        """Whether the work may write at this moment.

        Ask right before a write: after a pause of the whole process the work may wake before the election does.
        """
        return self._leading and self._rest() > 0

    @property
    def holder(self) -> str:
        """Who holds the lease as far as is known here, empty if nobody does."""
        return self._lease.holder if self._lease is not None else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Competes, works as long as the lease lasts, and competes again when it was lost.

        Cancelled, it cancels the work, waits for it while it goes on renewing, and gives the lease back.

        Args:
            lead: the work, called anew for each term; it is cancelled when the term ends. When it ends by itself, the
                lease is given back and this method ends as it did.
        """

        async def term() -> None:
            await lead()

        while True:
            await self._acquire()
            work = asyncio.create_task(term())
            cancelled, lost = await self._serve(work)
            self._leading = False
            if cancelled or not lost:
                await self._give_back()
            if not work.cancelled() and (error := work.exception()) is not None:
                raise error
            if cancelled:
                raise asyncio.CancelledError
            if not lost:
                return work.result()

    # --- a candidate -------------------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        told = ""
        try:
            while True:
                pause = self._period * (1 + JITTER * self._draw())
                try:
                    if await self._try():
                        break
                    why = f"held by {self.holder}" if self._is_taken() else "somebody else was faster"
                    # The end of another's lease is worth a look of its own.
                    left = self._others_end() - self._clock()
                    pause = left if 0 < left < pause else pause
                except KubeError as error:
                    why = str(error)
                    if isinstance(error, ApiStatusError) and error.retry_after_seconds:
                        pause = max(pause, min(error.retry_after_seconds, self._duration))
                if why != told:
                    told = why
                    _log.info("waiting for the lease", lease=self._name, why=why)
                await self._sleep(pause)
        except asyncio.CancelledError:
            if self._unsure:
                await self._give_back()
            raise
        _log.info("became the leader", lease=self._name, identity=self._identity)

    async def _try(self) -> bool:
        """One look, and the claim if the lease is free. Returns whether it is ours now."""
        seen = await self._read(self._deadline / 2)
        self._unsure = False
        record = seen.record if seen is not None else None
        if record != self._record:
            # That it has vanished is a change too: the holder may have renewed it just before.
            self._record, self._changed_at = record, self._clock()
        self._lease = seen or self._lease
        if self._is_taken():
            return False
        self._unsure = True
        try:
            await self._claim(seen, self._deadline / 2)
        except (Conflict, AlreadyExists):
            self._unsure = False
            return False
        return True

    def _is_taken(self) -> bool:
        return self.holder not in {"", self._identity} and self._clock() < self._others_end()

    def _others_end(self) -> float:
        return self._changed_at + ((self._lease.seconds if self._lease is not None else 0) or self._duration)

    # --- the holder --------------------------------------------------------------------------------------------------

    async def _serve(self, work: asyncio.Task[None]) -> tuple[bool, bool]:
        """One term, to the end of its work. Returns whether it was cancelled, and whether the lease was lost."""
        keeping = asyncio.create_task(self._keep())
        cancelled = await _first_of(work, keeping, on_cancel=work.cancel)
        lost = not work.done()
        if lost:
            _log.error("lost the lease, the work stops", lease=self._name, holder=self.holder)
            work.cancel()
            patience = self._end() - self._clock()
            if not self._leading:
                patience = min(patience, self._period)  # whoever overtook us may be at work already
            end = asyncio.ensure_future(self._sleep(max(patience, 0.0)))
            cancelled |= await _first_of(work, end)
            if not work.done():
                _log.critical("the work outlives the lease, the process ends", lease=self._name)
                self._on_overdue()
            cancelled |= await _first_of(work)
            end.cancel()
        keeping.cancel()
        cancelled |= await _first_of(keeping)
        if not keeping.cancelled():
            keeping.result()  # a defect of this module shall not pass for a lease that was lost
        return cancelled, lost

    async def _keep(self) -> None:
        """Renews until that is over; `_leading` is then False if somebody else may be at work already."""
        while (rest := self._rest()) > 0:
            await self._sleep(min(rest, self._period * (1 - JITTER * self._draw())))
            if self._rest() <= 0:
                return
            try:
                self._leading = await self._renew()
            except KubeError as error:
                _log.warning("cannot renew the lease", lease=self._name, rest=round(self._rest(), 1), error=str(error))
            if not self._leading:
                return

    async def _renew(self) -> bool:
        """One renewal. Returns whether the lease is still ours, as far as is known."""
        lease = self._lease
        for left in reversed(range(_TRIES)):
            try:
                await self._claim(lease, min(self._rest(), self._deadline / 2))
            except (Conflict, NotFound, AlreadyExists):
                # Somebody touched it, one of our own lost writes among others, or deleted it.
                if not left or self._rest() <= 0:
                    raise
                lease = await self._read(min(self._rest(), self._deadline / 2))
                self._lease = lease or self._lease
                if lease is not None and lease.holder != self._identity:
                    return False
            else:
                break
        return True

    def _rest(self) -> float:
        """Seconds that are left to renew."""
        return self._renewed_at + self._deadline - self._clock()

    def _end(self) -> float:
        """When the work must be over; half of the time after the deadline is left to others' faster clocks."""
        return self._renewed_at + (self._deadline + self._duration) / 2

    # --- both --------------------------------------------------------------------------------------------------------

    async def _claim(self, lease: Lease | None, seconds: float) -> None:
        """Makes us the holder, or keeps us so; creates what is None."""
        began = self._clock()
        path, method = (self._path, "PUT") if lease is not None else (self._collection, "POST")
        lease = lease or Lease.absent(self._namespace, self._name)
        body = lease.held_by(self._identity, self._duration, self._now())
        self._lease = Lease.decode(await self._request(method, path, seconds, body))
        self._renewed_at, self._leading, self._unsure = began, True, False

    async def _give_back(self) -> None:
        """Lets the next one in at once. This is a courtesy: when it fails, the lease just ends."""
        until = self._clock() + self._deadline / 2
        lease = None if self._unsure else self._lease
        for _ in range(_TRIES):
            try:
                lease = lease or await self._read(until - self._clock())
                if lease is None or lease.holder != self._identity:
                    return
                body = lease.given_back(self._now())
                self._lease = Lease.decode(await self._request("PUT", self._path, until - self._clock(), body))
            except KubeError as error:
                lease = None  # what was known of it may be old
                _log.info("could not give the lease back", lease=self._name, error=str(error))
            else:
                _log.info("gave the lease back", lease=self._name)
                return

    async def _read(self, seconds: float) -> Lease | None:
        try:
            return Lease.decode(await self._request("GET", self._path, seconds))
        except NotFound:
            return None

    async def _request(self, method: str, path: str, seconds: float, body: bytes | None = None) -> bytes:
        return await self._client.request(method, path, body=body, timeout_seconds=max(seconds, 0.01), gated=False)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check_times(lease_duration: float, renew_deadline: float, retry_period: float) -> None:
    """Checks the three times, in seconds, against one another.

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
    """Waits until one of them is done, however often it is cancelled meanwhile. Returns whether it was."""
    cancelled = False
    while not any(future.done() for future in futures):
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
            on_cancel()
    return cancelled
