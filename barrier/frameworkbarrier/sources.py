"""Which source: the roster, the Framework or the Pods. A source is an endless iterator of looks and troubles.

It ends only by raising why the gate can never open.
"""

from collections.abc import Iterator

from . import access
from .errors import SettingsError
from .follow import Follower, Seen, Trouble
from .gang import Me
from .kube import Api, ApiError
from .settings import Settings
from .views import FrameworkView, Look, PodsView, RosterView

WAIT_FOR_ANNOTATION = "barrier.frameworkcontroller.microsoft.com/wait-for"
"""By which a Pod template asks, also without the injector, that its roster counts arrivals."""


def observe(settings: Settings, api: Api) -> Iterator[Look | Trouble]:
    """Choose the source and follow it.

    Raises:
        GoneError: the Framework attempt, or the own Task, is over.
        ForbiddenError: still forbidden after 30 s.
        SettingsError: the source that there is cannot do what is asked.
    """
    if settings.selector:
        namespace = settings.namespace or access.read_namespace(settings.token_dir)
        arrived = settings.wait_for == "arrived"
        view = PodsView(
            namespace,
            settings.selector,
            settings.roles,
            settings.role_label,
            arrived=arrived,
            own_uid=settings.me.uid,
        )
        return _follow_pods(view, api, settings.interval_sec)
    return _of_framework(settings, api)


def _follow_pods(view: PodsView, api: Api, poll_sec: float) -> Iterator[Look | Trouble]:
    for item in Follower(api, view, poll_sec=poll_sec):
        yield item.value if isinstance(item, Seen) else item


def _of_framework(settings: Settings, api: Api) -> Iterator[Look | Trouble]:
    """The roster, unless the ConfigMap has none, or may not be read while the Framework may."""
    view = RosterView(settings.namespace, settings.configmap, settings.configmap_uid)
    whole = FrameworkView(
        settings.namespace, settings.framework, settings.framework_uid, settings.me, settings.attempt_id
    )
    seen = False
    for item in Follower(api, view, poll_sec=settings.interval_sec):
        if isinstance(item, Trouble):
            if item.refused and not seen and _may_read(api, whole.read_path):
                break
            yield item
        elif item.value is None:
            break
        else:
            seen = True
            if isinstance(item.value, Look):
                _check_readiness(settings, item.value.gang.readiness, view.what)
            yield item.value
    _check_readiness(settings, "ip", whole.what)
    for thing in Follower(api, whole, poll_sec=settings.interval_sec):
        yield thing.value if isinstance(thing, Seen) else thing


def _check_readiness(settings: Settings, level: str, what: str) -> None:
    if settings.wait_for == "arrived" and level != "arrived":
        raise SettingsError(
            f"FB_WAIT_FOR=arrived: {what} tells only who has an address, not who has arrived; the controller counts "
            "arrivals if a Pod template of the Framework asks for them: by the annotation "
            f"{WAIT_FOR_ANNOTATION}: arrived, or by FB_WAIT_FOR or --wait-for of an init container that is "
            "named frameworkbarrier"
        )


def _may_read(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


def framework_of(settings: Settings, api: Api) -> Look | None:
    """The whole Framework, decompressed, for `framework.json`; None if it may not, or cannot, be read just now."""
    view = FrameworkView(settings.namespace, settings.framework, settings.framework_uid, Me(None, None, None), None)
    try:
        found = view.loaded(api.get(view.read_path))
    except ApiError:
        return None
    return found if isinstance(found, Look) else None
