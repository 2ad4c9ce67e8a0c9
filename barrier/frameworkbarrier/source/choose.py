"""Chooses the source that shows the gang: the roster, the Framework or the Pods; and follows it.

`__main__` calls `observe` once, and a thread of `wait.SourceReader` iterates over the result. A source is an endless
iterator of Observations and Faults; it ends only by raising why the gate can never open. It makes no request before the
next item is asked for.
Source of the rules: docs/reference/barrier.md, section 2.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from frameworkbarrier.errors import GoneError, SettingsError, StillForbiddenError
from frameworkbarrier.gate.gang import answers
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.log import Log
from frameworkbarrier.settings import Settings
from frameworkbarrier.shape import ShapeError
from frameworkbarrier.source import access, framework
from frameworkbarrier.source.api import Api, ApiError, UnavailableError
from frameworkbarrier.source.follow import Follower, pause_after
from frameworkbarrier.source.views import FrameworkView, PodsView, RosterView
from frameworkbarrier.text import is_dns_name

WAIT_FOR_ANNOTATION = "barrier.frameworkcontroller.microsoft.com/wait-for"
"""By which a Pod template asks, also without the injector, that its roster counts arrivals."""
LOOK_AGAIN_SEC = 60.0
"""Least time between two looks for a roster while the Framework is the source."""
READS = 3
"""Times that the Framework is read for `framework.json` where there is no usable answer."""
LONGEST_PAUSE_SEC = 5.0
"""Between two of these."""


def observe(settings: Settings, api: Api) -> Iterator[Observation | Fault]:
    """Choose the source and follow it.

    A selector, or a roster that is to come, means that there is no Framework. Otherwise it is the roster, unless the
    ConfigMap has none or may not be read: then it is the Framework. Only a roster has epochs, so a barrier that
    restarts in place waits for one.

    Raises:
        GoneError: the Framework attempt, or the own Task, is over.
        StillForbiddenError: still forbidden after 30 s.
        SettingsError: the chosen source cannot do what the settings ask for.
    """
    if settings.selector:
        yield from _follow_pods(settings, api)
        return
    while True:
        # Each ends only where the other is the better source, so that of a roster that is to come never does.
        yield from _follow_roster(settings, api)
        yield from _follow_framework(settings, api)


def _follow_pods(settings: Settings, api: Api) -> Iterator[Observation | Fault]:
    namespace = settings.namespace or access.read_namespace(settings.token_dir)
    if not is_dns_name(namespace):
        raise SettingsError(f"FB_TOKEN_DIR={settings.token_dir}: the file namespace does not hold the name of one")
    yield from Follower(api, PodsView(settings, namespace), poll_sec=settings.interval_sec)


def _follow_roster(settings: Settings, api: Api) -> Iterator[Observation | Fault]:
    """Follow the ConfigMap until the Framework is the better source."""
    roster = RosterView(settings)
    try:
        for item in Follower(api, roster, poll_sec=settings.interval_sec):
            if item is not None:
                if isinstance(item, Observation):
                    _check_readiness(settings, item.gang.readiness, roster.what)
                yield item
            elif not (settings.restart or settings.exit):
                return
    except StillForbiddenError:
        view = FrameworkView(settings)
        needs_roster = settings.restart or settings.exit or settings.wait_for == "arrived"
        if needs_roster or not _can_stand_in(api, view):
            raise
        yield Fault(f"may still not read {roster.what}: reading {view.what} instead", lasting=True)


def _follow_framework(settings: Settings, api: Api) -> Iterator[Observation | Fault]:
    """Follow the Framework; while its gang is incomplete, look from time to time whether there is a roster by now.

    A gang that was complete stays with this source, because the roster counts its generations by itself.
    """
    view, configmap = FrameworkView(settings), RosterView(settings)
    _check_readiness(settings, "ip", view.what)
    look_at = time.monotonic() + LOOK_AGAIN_SEC
    opened = False
    for item in Follower(api, view, poll_sec=settings.interval_sec):
        opened = opened or (isinstance(item, Observation) and item.gang.complete)
        if not opened and time.monotonic() >= look_at:
            look_at = time.monotonic() + LOOK_AGAIN_SEC
            if _has_roster(api, configmap):
                return
        yield item


def _check_readiness(settings: Settings, readiness: str, what: str) -> None:
    if not answers(readiness, settings.wait_for):
        raise SettingsError(
            f"FB_WAIT_FOR=arrived: {what} shows only which Tasks have an address, not which have arrived; the "
            "controller counts arrivals if a Pod template of the Framework asks for them: by the annotation "
            f"{WAIT_FOR_ANNOTATION}: arrived, or by FB_WAIT_FOR or --wait-for of an init container that is "
            "named frameworkbarrier"
        )


def _has_roster(api: Api, view: RosterView) -> bool:
    """Report whether the ConfigMap may be read and carries a usable roster.

    Raises:
        GoneError: the Framework attempt is over.
    """
    try:
        return isinstance(view.loaded(api.get(view.read_path)), Observation)
    except (ApiError, ShapeError):
        return False


def _can_stand_in(api: Api, view: FrameworkView) -> bool:
    """Report whether the Framework may be read, and its ranks need no order: only a roster has one."""
    try:
        return not framework.asks_for_order(api.get(view.read_path))
    except ApiError:
        return False
    except ShapeError:
        return True  # who reads it says what is wrong


def read_framework(
    settings: Settings, api: Api, log: Log, sleep: Callable[[float], None] = time.sleep
) -> Mapping[str, Any] | None:
    """Read the whole Framework, decompressed, for `framework.json`; None if it cannot be read now.

    The gate is open, and the application waits for this: it warns, and does without, where the server asks for a long
    pause or the third answer is none either. With three time-outs that is within the slack of the startup probe.
    """
    view = FrameworkView(settings)
    for number in range(1, READS + 1):
        try:
            return view.decompressed(api.get(view.read_path))
        except UnavailableError as failure:
            pause = pause_after(failure, number)
            if number == READS or pause > LONGEST_PAUSE_SEC:
                log.warning(f"the Framework cannot be read for framework.json: {failure}")
                break
            sleep(pause)
        except (ApiError, GoneError, ShapeError):
            break
    return None
