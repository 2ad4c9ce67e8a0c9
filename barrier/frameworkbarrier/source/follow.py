"""Follows one thing at the API server despite faults: reads it, watches it, and reads it again only when needed.

`choose` iterates over a `Follower` of each `View`. A follower never ends by itself; it raises only what can never get
better. Every pause between two requests is decided here, so that a faulty server gets less than one request a second.

A watch has a server timeout shorter than its read timeout, so silence beyond that can only mean a dead connection.
Source of the rules: docs/reference/barrier.md, section 2.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic

from frameworkbarrier.errors import StillForbiddenError
from frameworkbarrier.gate.gate import Fault
from frameworkbarrier.shape import ShapeError, table, word
from frameworkbarrier.source.api import Api, ApiError, ExpiredError, ForbiddenError, NotFoundError, UnavailableError
from frameworkbarrier.source.views import T, View

SERVER_TIMEOUT_SEC = (40, 52)
"""Range of the watch's life; random, so that the watches of a gang do not all end together."""
SILENCE_SEC = 56.0
"""Read timeout of a watch: above its server timeout, below the promised 60 s."""
FORBIDDEN_SEC = 30.0
"""How long a first 403 is put down to a Role that does not exist yet."""
BACKOFF_BASE_SEC = 0.8
BACKOFF_LIMIT_SEC = 30.0
FORBIDDEN_PAUSE_SEC = 5.0
WATCH_FORBIDDEN_SEC = 60.0
"""How long to poll before trying again to watch."""
HEALTHY_SEC = 5.0
"""A watch that lived this long or sent an event was a good one."""
WATCH_FLOOR_SEC = 1.0
"""Least time between the openings of two watches."""
RESUMES = 3
"""Failures in a row after which the object is read again instead of watched from an old version."""


class Follower(Generic[T]):
    """Yields what a view says whenever it may have changed, and what keeps it from being read, without end."""

    def __init__(
        self,
        api: Api,
        view: View[T],
        *,
        poll_sec: float,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        silence_sec: float = SILENCE_SEC,
    ) -> None:
        self._api = api
        self._view = view
        self._poll_sec = poll_sec
        self._sleep = sleep
        self._clock = clock
        self._silence_sec = silence_sec
        self._version = ""
        """The resourceVersion to watch from; "": unknown, so read first."""
        self._watch_again_at = 0.0
        self._forbidden_since: float | None = None
        self._ever_read = False
        self._succeeded = False
        """The step has succeeded so far: the series of failures, if there was one, is over."""

    def __iter__(self) -> Iterator[T | Fault]:
        """Follow; a series of failures ends with a step that succeeds: a read alone does not, an event does.

        Raises:
            StillForbiddenError: forbidden from the start, still after 30 s.
        """
        number = 0
        while True:
            self._succeeded = False
            try:
                yield from self._step()
                number = 0
            except ApiError as failure:
                number = 1 if self._succeeded else number + 1
                yield from self._judge(failure, number)
                self._sleep(self._pause(failure, number))

    def _step(self) -> Iterator[T | Fault]:
        """Read if that is needed, then watch until the server ends it; where watching is forbidden, poll."""
        if not self._version or self._polling:
            yield self._read()
        if not self._polling:
            try:
                yield from self._watch()
            except ForbiddenError:
                # Tried again later: of several API servers one may know of a new Role before the others.
                self._watch_again_at = self._clock() + max(WATCH_FORBIDDEN_SEC, 3 * self._poll_sec)
                text = f"may read but not watch {self._view.what}: looking every {self._poll_sec:g} s instead"
                yield Fault(text, lasting=True)
            else:
                return
        self._succeeded = True
        self._sleep(self._poll_sec)

    @property
    def _polling(self) -> bool:
        return self._clock() < self._watch_again_at

    def _read(self) -> T:
        # Known again only when all is read: a page that failed would otherwise be left out for good.
        self._version = ""
        try:
            document = self._api.get(self._view.read_path, self._view.read_params)
        except NotFoundError:
            self._ever_read = True
            value = self._view.absent()
            self._version = "0"
            return value
        self._ever_read = True
        with self._as_unavailable():
            meta = table(document.get("metadata"), "metadata")
            version = word(meta.get("resourceVersion"), "metadata.resourceVersion") or "0"
            value = self._view.loaded(document)
            while token := word(meta.get("continue"), "metadata.continue"):
                document = self._api.get(self._view.read_path, {**self._view.read_params, "continue": token})
                meta = table(document.get("metadata"), "metadata")
                if meta.get("continue") == token:
                    raise ShapeError("metadata.continue: the list goes on with the same page")
                value = self._view.loaded(document, more=True)
        self._version = version
        return value

    @contextlib.contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        """Treat a document of a wrong shape as a server that is not available: read again, after a pause."""
        try:
            yield
        except ShapeError as fault:
            self._version = ""
            raise UnavailableError(f"the API server's answer for {self._view.what} cannot be used: {fault}") from fault

    def _watch(self) -> Iterator[T]:
        opened = self._clock()
        received = False
        params = {
            **self._view.watch_params,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*SERVER_TIMEOUT_SEC)),  # noqa: S311 -- spreads load, keeps no secret
        }
        for kind, document in self._api.watch(self._view.watch_path, params, self._silence_sec):
            with self._as_unavailable():
                meta = table(document.get("metadata"), "metadata")
                version = word(meta.get("resourceVersion"), "metadata.resourceVersion") or self._version
                values = () if kind == "BOOKMARK" else (self._view.changed(kind, document),)
            self._version = version
            received = self._succeeded = True
            yield from values
        lived = self._clock() - opened
        if not received and lived < HEALTHY_SEC:
            raise UnavailableError("the watch ends as soon as it is opened")
        self._succeeded = True
        if lived < WATCH_FLOOR_SEC:
            self._sleep(WATCH_FLOOR_SEC - lived)

    def _judge(self, failure: ApiError, number: int) -> Iterator[Fault]:
        """Decide what failure `number` of a series means for the next request, and report it."""
        match failure:
            case ForbiddenError() if self._ever_read:
                yield Fault(f"may not read {self._view.what} any more ({failure})")
            case ForbiddenError():
                now = self._clock()
                if self._forbidden_since is None:
                    self._forbidden_since = now
                if now - self._forbidden_since >= FORBIDDEN_SEC and not self._view.is_to_come:
                    raise StillForbiddenError(explain_forbidden(self._view, str(failure))) from failure
                yield Fault(f"may not read {self._view.what} yet ({failure})")
            case ExpiredError():
                self._version = ""
                if number > 1:
                    yield Fault("the API server finds every version too old")
            case UnavailableError():
                if number % RESUMES == 0:
                    self._version = ""
                yield Fault(str(failure))
            case _:
                # 404 of a watch: the kind is not served (any more).
                self._version = ""
                yield Fault(f"cannot watch {self._view.what}: {failure}")

    def _pause(self, failure: ApiError, number: int) -> float:
        """Return the seconds to wait after failure `number` of a series."""
        if isinstance(failure, ExpiredError) and number == 1:
            return 0.0  # normal after a quiet time; a server that answers nothing else is faulty
        pause = pause_after(failure, number)
        return min(pause, FORBIDDEN_PAUSE_SEC) if isinstance(failure, ForbiddenError) and not self._ever_read else pause


def pause_after(failure: ApiError, number: int) -> float:
    """Return the seconds to wait: what the server asked for, else exponential with full jitter up to 30 s."""
    if isinstance(failure, UnavailableError) and failure.retry_after:  # 0 asks for nothing: no hot loop
        return failure.retry_after + random.random()  # noqa: S311 -- the server asks all Pods for the same number
    # Its import takes 9 ms, which only a Pod with a faulty server shall pay.
    from tenacity import RetryCallState, Retrying, wait_random_exponential

    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = number
    return wait_random_exponential(BACKOFF_BASE_SEC, BACKOFF_LIMIT_SEC)(state)


def explain_forbidden(view: View[Any], answer: str) -> str:
    """Name the Role to create, in one sentence."""
    user = answer.partition('User "')[2].partition('"')[0]
    return (
        f"may not read {view.what}, still after {FORBIDDEN_SEC:g} s: create a Role with the rule {view.rule} "
        f"and bind it to {user or 'the service account of this Pod'} ({answer})"
    )
