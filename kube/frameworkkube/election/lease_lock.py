"""One candidate's requests about one Lease, and what they prove: who holds it, and until when.

`election` is the only caller. It asks to acquire, to renew and to release, and reads the times in between; every method
makes a few requests at most, each bounded in time, and none of them waits for another candidate. (client-go splits the
same way: `resourcelock` and `leaderelection`.)

Only this candidate's own clock is read: another candidate's lease has expired when its record has not changed here for
its duration.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from frameworkkube.election.lease import API_VERSION, Lease
from frameworkkube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from frameworkkube.http.client import KubeClient
from frameworkkube.log import Logger
from frameworkkube.paths import resource_path

_log = Logger(__name__)

_MAX_ATTEMPTS: Final = 3


class LeaseLock:
    """The Lease as this candidate knows it; the arguments are those of `LeaderElection`.

    A claim lasts for its holder until the deadline for renewals; each request is bounded by half of that.

    Attributes:
        leading: whether this candidate made the last claim, as far as is known; the time is not considered.
        is_claim_unanswered: whether a claim was sent whose answer has not arrived, or was lost.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration_seconds: int,
        renew_deadline_seconds: float,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._collection = resource_path(API_VERSION, "leases", namespace=namespace)
        self._path = resource_path(API_VERSION, "leases", namespace=namespace, name=name)
        self._duration, self._deadline = lease_duration_seconds, renew_deadline_seconds
        self._clock, self._wall_clock = clock, wall_clock
        self._lease: Lease | None = None  # as last read or written
        self._record: object = None  # what the last read of a candidate returned, None for no Lease
        self._changed_at = float("-inf")  # when a read first returned that record
        self._claimed_at = float("-inf")  # when the last claim that succeeded was sent
        self.leading = False
        self.is_claim_unanswered = False

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def holder(self) -> str:
        """The holder's identity as far as is known here, empty if nobody holds the Lease."""
        return self._lease.holder if self._lease is not None else ""

    @property
    def is_held_by_another(self) -> bool:
        """Whether another candidate's lease has not expired yet."""
        return self.holder not in {"", self._identity} and self._clock() < self._others_end()

    @property
    def others_remaining_seconds(self) -> float:
        """Seconds until another candidate's lease expires, negative if it has."""
        return self._others_end() - self._clock()

    @property
    def remaining_seconds(self) -> float:
        """Seconds that are left to renew."""
        return self._claimed_at + self._deadline - self._clock()

    @property
    def stopping_seconds(self) -> float:
        """Seconds until the work must have stopped; half of the time after the deadline is left to faster clocks."""
        return self._claimed_at + (self._deadline + self._duration) / 2 - self._clock()

    def _others_end(self) -> float:
        return self._changed_at + ((self._lease.seconds if self._lease is not None else 0) or self._duration)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def try_acquire(self) -> bool:
        """Read the Lease, claim it if it is free, and report whether this candidate holds it now.

        Raises:
            KubeError: no answer, or one that says nothing about the Lease.
        """
        seen = await self._read(self._deadline / 2)
        self.is_claim_unanswered = False
        record = seen.record if seen is not None else None
        if record != self._record:
            # A Lease that has vanished has changed too: its holder may have renewed it just before.
            self._record, self._changed_at = record, self._clock()
        self._lease = seen or self._lease
        if self.is_held_by_another:
            return False
        self.is_claim_unanswered = True
        try:
            await self._claim(seen, self._deadline / 2)
        except (ConflictError, AlreadyExistsError):
            self.is_claim_unanswered = False
            return False
        return True

    async def renew(self) -> bool:
        """Renew the claim; after a conflict read the Lease and try again, within the time that is left.

        A conflict proves nothing yet: the Lease was annotated or deleted, or an earlier claim of this candidate, whose
        answer was lost, succeeded. It returns False if another candidate holds the Lease.

        Raises:
            KubeError: nothing is known of this renewal.
        """
        lease, attempts = self._lease, 1
        while True:
            try:
                await self._claim(lease, min(self.remaining_seconds, self._deadline / 2))
            except (ConflictError, NotFoundError, AlreadyExistsError):
                if attempts == _MAX_ATTEMPTS or self.remaining_seconds <= 0:
                    raise
            else:
                return True
            attempts += 1
            lease = await self._read(min(self.remaining_seconds, self._deadline / 2))
            self._lease = lease or self._lease
            if lease is not None and lease.holder != self._identity:
                return False

    async def release(self) -> None:
        """Let the next candidate in at once. This is a courtesy: if it fails, the lease just expires."""
        until = self._clock() + self._deadline / 2
        lease = None if self.is_claim_unanswered else self._lease
        for _ in range(_MAX_ATTEMPTS):
            try:
                lease = lease or await self._read(until - self._clock())
                if lease is None or lease.holder != self._identity:
                    return
                body = lease.released(self._now())
                self._lease = Lease.decode(await self._request("PUT", self._path, until - self._clock(), body))
            except KubeError as error:
                _log.info("could not release the lease", lease=self._name, error=str(error))
                lease = None  # what was known before a failure may be old
            else:
                _log.info("released the lease", lease=self._name)
                return

    async def _claim(self, lease: Lease | None, seconds: float) -> None:
        """Make this candidate the holder, or keep it so; None creates the Lease."""
        began = self._clock()
        path, method = (self._path, "PUT") if lease is not None else (self._collection, "POST")
        lease = lease or Lease.absent(self._namespace, self._name)
        body = lease.held_by(self._identity, self._duration, self._now())
        self._lease = Lease.decode(await self._request(method, path, seconds, body))
        self._claimed_at, self.leading, self.is_claim_unanswered = began, True, False

    async def _read(self, seconds: float) -> Lease | None:
        try:
            return Lease.decode(await self._request("GET", self._path, seconds))
        except NotFoundError:
            return None

    async def _request(self, method: str, path: str, seconds: float, body: bytes | None = None) -> bytes:
        return await self._client.request(
            method, path, body=body, timeout_seconds=max(seconds, 0.01), flow_controlled=False
        )

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
