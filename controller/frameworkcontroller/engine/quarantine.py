"""Frameworks that are out of work: each is read again from the API server before it is decided on again.

The engine hands one over in two cases. Another writer has changed its status: it is read at once. Or something about it
raised, be it in a decision, in an effect or in reading it: it is in quarantine, which lasts longer with each failure,
until the time is over or somebody edits the Framework. The promise: whatever is wrong with a Framework, only this one
waits, and `run` of the engine goes on.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog
import tenacity

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.stored_roles import UnreadableStatusError
from frameworkcontroller.engine.cache.caches import FrameworkKey
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkkube.backoff import retrying
from frameworkkube.errors import KubeError, NotFoundError
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path
from frameworkkube.slots import Slots

_log = structlog.get_logger(__name__)

FIRST_SECONDS: Final = 5.0
MAX_SECONDS: Final = 300.0
HEALTHY_SECONDS: Final = 600.0
"""After so long without a failure the next quarantine is a short one again."""

PLACES: Final = 4
"""Reads at a time, of one namespace: its tenant may have made thousands raise, and all requests share connections."""

_NOT_DEFECTS: Final = (msgspec.DecodeError, UnreadableStatusError, RecursionError, KubeError)
"""What the Framework, or the API server, is to blame for; anything else is logged with its traceback."""

Edition = tuple[str, int]
"""UID and generation of a Framework: what changes when somebody edits it, or creates it again."""


@dataclass
class _Case:
    """A Framework that waits to be read, and what is known of one that raised."""

    failures: int = 0
    until: float = float("-inf")
    edition: Edition = ("", 0)
    edited: asyncio.Event = field(default_factory=asyncio.Event)


class Reloader:
    """Reads Frameworks again, each in a task of its own in the group: it holds no slot.

    Args:
        on_read: takes over a Framework that was read; what it raises is again a failure of this Framework.
        on_failure: called with a Framework that enters quarantine, and the error.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        group: asyncio.TaskGroup,
        metrics: Metrics,
        on_read: Callable[[FrameworkKey, Framework], None],
        on_failure: Callable[[FrameworkKey, Exception], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._group, self._metrics, self._clock = client, group, metrics, clock
        self._on_read, self._on_failure = on_read, on_failure
        self._loading: dict[FrameworkKey, _Case] = {}
        self._cases: dict[FrameworkKey, _Case] = {}
        self._places = Slots(PLACES)
        """By namespace."""

    def __contains__(self, key: FrameworkKey) -> bool:
        """Report whether the Framework is being read, or waits for that."""
        return key in self._loading

    def quarantined(self) -> int:
        """Return how many Frameworks wait because something about them raised."""
        now = self._clock()
        return sum(case.until > now and key in self._loading for key, case in self._cases.items())

    def read(self, key: FrameworkKey, why: str, after: float = 0.0) -> None:
        """Read the Framework, at once or after so many seconds: the cache may be older."""
        _log.info("reading the Framework again", framework="/".join(key), why=why, after=after)
        case = self._loading[key] = _Case(until=self._clock() + after)
        self._group.create_task(self._load(key, case))

    def isolate(self, key: FrameworkKey, error: Exception, edition: Edition) -> None:
        """Leave the Framework that raised in this edition alone for a while, longer with each failure, then read it."""
        now = self._clock()
        case = self._cases.get(key)
        if case is None or now - case.until > HEALTHY_SECONDS:
            self._cases = {at: old for at, old in self._cases.items() if now - old.until <= HEALTHY_SECONDS}
            case = self._cases[key] = _Case()
        seconds = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(case.failures, 10))
        case.failures, case.until, case.edition = case.failures + 1, now + seconds, edition
        case.edited.clear()
        self._loading[key] = case
        self._metrics.reconcile_failed()
        _log.error(
            "cannot decide on this Framework, it is left alone for a while",
            framework="/".join(key),
            seconds=seconds,
            error=str(error),
            exc_info=None if isinstance(error, _NOT_DEFECTS) else error,
        )
        self._on_failure(key, error)
        self._group.create_task(self._load(key, case))

    def notice(self, key: FrameworkKey, edition: Edition) -> None:
        """End the wait of a Framework that was edited."""
        if (case := self._cases.get(key)) is not None and case.edition != edition:
            case.edited.set()

    def forget(self, key: FrameworkKey) -> None:
        """Forget a Framework that was deleted, and end its wait: reading it shows whether there is another one."""
        self._cases.pop(key, None)
        if (case := self._loading.get(key)) is not None:
            case.edited.set()

    async def _load(self, key: FrameworkKey, case: _Case) -> None:
        """Read the Framework once its time has come, as often as it takes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(case.until - self._clock()):
                await case.edited.wait()

        def failed(state: tenacity.RetryCallState) -> None:
            self._metrics.retries.inc()
            error = str(state.outcome.exception()) if state.outcome is not None else ""
            _log.warning("cannot read the Framework, will be tried again", framework="/".join(key), error=error)

        seen: Framework | None = None
        try:
            answer: bytes = await retrying(before_sleep=failed)(self._get, key)
            seen = FRAMEWORK_DECODER.decode(answer)
            self._loading.pop(key, None)
            self._on_read(key, seen)
        except Exception as error:  # noqa: BLE001 -- whatever is wrong with it, no other Framework suffers
            if isinstance(error, NotFoundError) and error.status:  # and no page of a proxy
                self._loading.pop(key, None)
                self._cases.pop(key, None)
            else:
                self.isolate(key, error, edition_of(seen) or case.edition)

    async def _get(self, key: FrameworkKey) -> bytes:
        """Read once: one whose read fails waits without a place."""
        path = resource_path(names.API_VERSION, names.PLURAL, namespace=key[0], name=key[1])
        async with self._places.of(key[0]):
            return await self._client.get(path)


def edition_of(seen: Framework | None) -> Edition | None:
    """Return what an edit changes, None if nothing can be read."""
    try:
        return None if seen is None else (seen.metadata.uid, seen.metadata.generation)
    except (ValueError, RecursionError):
        return None
