"""Follows one thing at the API server through all weather: get it, watch it, and get it again only when that is needed.

A watch has a server timeout shorter than its read timeout, so silence beyond that can only mean a dead connection, and
it is noticed within a minute. Every pause between requests is decided here.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .errors import ForbiddenError
from .kube import AbsentError, Api, ApiError, ExpiredError, RefusedError, SickError

SERVER_TIMEOUT_SEC = (40, 52)
"""Range of the watch's life; random, so that the watches of a gang do not all end together."""
SILENCE_SEC = 56.0
"""Read timeout of a watch: above its server timeout, below the promised 60 s."""
FORBIDDEN_SEC = 30.0
"""How long a first 403 is put down to a Role that is still being made; one that comes later may go again."""
BACKOFF_BASE_SEC = 0.8
BACKOFF_LIMIT_SEC = 30.0
FORBIDDEN_PAUSE_SEC = 5.0
WATCH_REFUSED_SEC = 60.0
"""How long it polls before it asks again whether it may watch."""
HEALTHY_SEC = 5.0
"""A watch that lived this long or told something was a good one."""
WATCH_FLOOR_SEC = 1.0
"""Least time between the openings of two watches."""
RESUMES = 3
"""Failures in a row after which the object is read anew instead of watched from an old version."""

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class View(Protocol[T_co]):
    """What is followed: one object by name, or the objects of a selector."""

    read_path: str
    read_params: Mapping[str, str]
    watch_path: str
    watch_params: Mapping[str, str]
    what: str
    """For messages: `ConfigMap ns/name`."""
    rule: str
    """The RBAC rule that reading it needs, for messages."""

    def loaded(self, document: dict[str, Any], *, more: bool = False) -> T_co:
        """Take the answer of a get or a page of a list (`more`: not the first); returns the value now."""

    def absent(self) -> T_co:
        """Take the answer 404; returns the value now."""

    def changed(self, kind: str, document: dict[str, Any]) -> T_co:
        """Take a watch event; returns the value now."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """The followed thing as it is now."""

    value: T


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request failed and is tried again; the text is for a person."""

    text: str
    refused: bool = False
    """It was HTTP 403."""
    lasting: bool = False
    """It will stay so: worth a line of its own."""


class Backoff:
    """Pauses after failures: the server's wish, else exponential with full jitter (tenacity's)."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.failures = 0
        self._uniform = uniform

    def reset(self) -> None:
        """After a success."""
        self.failures = 0

    def pause(self, retry_after: float | None = None) -> float:
        """Count a failure; returns the seconds to wait."""
        self.failures += 1
        if retry_after:  # 0 is no wish: it must not mean a hot loop
            return retry_after + self._uniform(0.0, 1.0)  # the server tells the same number to everybody
        from tenacity import RetryCallState, Retrying, wait_random_exponential  # 9 ms that only a sick server costs

        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = self.failures
        return wait_random_exponential(BACKOFF_BASE_SEC, BACKOFF_LIMIT_SEC)(state)


class Follower(Generic[T]):
    """Yields what happens to one view, for ever."""

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
        self._backoff = Backoff()
        self._version = ""
        self._watch_again_at = 0.0
        self._forbidden_since: float | None = None
        self._ever_read = False

    def __iter__(self) -> Iterator[Seen[T] | Trouble]:
        """Follow.

        Raises:
            ForbiddenError: forbidden from the start, still after 30 s.
        """
        while True:
            try:
                if not self._version or self._polling:
                    yield Seen(self._read())
                if self._polling:
                    self._sleep(self._poll_sec)
                else:
                    yield from self._watch()
            except ApiError as fault:
                yield from self._recover(fault)

    @property
    def _polling(self) -> bool:
        return self._clock() < self._watch_again_at

    def _read(self) -> T:
        # Known again only when all is read: a page that failed would otherwise be left out for good.
        self._version = ""
        try:
            document = self._api.get(self._view.read_path, self._view.read_params)
        except AbsentError:
            document = {}
        self._ever_read = True
        if self._polling:
            self._backoff.reset()  # else only a watch that works counts as success
        version = str((document.get("metadata") or {}).get("resourceVersion") or "0")
        value = self._view.loaded(document) if document else self._view.absent()
        while token := (document.get("metadata") or {}).get("continue"):
            document = self._api.get(self._view.read_path, {**self._view.read_params, "continue": str(token)})
            value = self._view.loaded(document, more=True)
        self._version = version
        return value

    def _watch(self) -> Iterator[Seen[T]]:
        opened = self._clock()
        told = False
        params = dict(self._view.watch_params)
        params["resourceVersion"] = self._version
        params["allowWatchBookmarks"] = "true"
        params["timeoutSeconds"] = str(random.randint(*SERVER_TIMEOUT_SEC))  # noqa: S311
        for kind, document in self._api.watch(self._view.watch_path, params, self._silence_sec):
            told = True
            self._backoff.reset()
            self._version = str((document.get("metadata") or {}).get("resourceVersion") or self._version)
            if kind != "BOOKMARK":
                yield Seen(self._view.changed(kind, document))
        lived = self._clock() - opened
        if not told and lived < HEALTHY_SEC:
            raise SickError("the watch ends as soon as it is opened")
        self._backoff.reset()
        if lived < WATCH_FLOOR_SEC:
            self._sleep(WATCH_FLOOR_SEC - lived)

    def _recover(self, fault: ApiError) -> Iterator[Trouble]:
        """Decide what the failed request means for the next one, and pause."""
        match fault:
            case RefusedError() if self._version and not self._polling:
                # Asked again later: of several API servers one may know of a new Role before the others.
                self._watch_again_at = self._clock() + max(WATCH_REFUSED_SEC, 3 * self._poll_sec)
                yield Trouble(
                    f"may read but not watch {self._view.what}: looking every {self._poll_sec:g} s instead",
                    lasting=True,
                )
                self._sleep(self._poll_sec)
            case RefusedError() if self._ever_read:
                yield Trouble(f"may not read {self._view.what} any more ({fault})", refused=True)
                self._sleep(self._backoff.pause())
            case RefusedError():
                now = self._clock()
                if self._forbidden_since is None:
                    self._forbidden_since = now
                if now - self._forbidden_since >= FORBIDDEN_SEC:
                    raise ForbiddenError(explain_forbidden(self._view, str(fault))) from fault
                yield Trouble(f"may not read {self._view.what} yet ({fault})", refused=True)
                self._sleep(min(self._backoff.pause(), FORBIDDEN_PAUSE_SEC))
            case ExpiredError():
                self._version = ""
                # The first one is normal and answered at once; a server that says nothing else is sick.
                pause = self._backoff.pause()
                if self._backoff.failures > 1:
                    yield Trouble("the API server finds every version too old")
                    self._sleep(pause)
            case SickError():
                yield Trouble(str(fault))
                self._sleep(self._backoff.pause(fault.retry_after))
                if self._backoff.failures % RESUMES == 0:
                    self._version = ""
            case _:
                # 404 of a watch: the kind is not served (any more).
                yield Trouble(f"cannot watch {self._view.what}: {fault}")
                self._version = ""
                self._sleep(self._backoff.pause())


def explain_forbidden(view: View[Any], answer: str) -> str:
    """One sentence that names the Role to create."""
    user = answer.partition('User "')[2].partition('"')[0]
    return (
        f"may not read {view.what}, still after {FORBIDDEN_SEC:g} s: create a Role with the rule {view.rule} "
        f"and bind it to {user or 'the service account of this Pod'} ({answer})"
    )
