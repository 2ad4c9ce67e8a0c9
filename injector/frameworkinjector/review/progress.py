"""Progress and hangs: which Pods cannot say how far they are, and what a container needs to say it.

`plan` calls `refuse` before it decides on containers, and `variables_of` for each of them.
Source: docs/reference/injector.md, section 1.
"""

from collections.abc import Iterator
from typing import Final

from frameworkinjector import names
from frameworkinjector.review.pod import JSON, Container, Pod
from frameworkinjector.review.reasons import Reason, RefusalError
from frameworkinjector.review.settings import PodSettings

# The annotations that mean something only with `progress`.
_DETAILS: Final = ("progress-port", "hang", "hang-floor", "hang-factor", "hang-first", "hang-limit")


def refuse(pod: Pod, settings: PodSettings) -> None:
    """Check what does not depend on the chosen containers.

    Raises:
        RefusalError: The Pod has no sidecar, no gang that a controller looks after, or no port of its own.
    """
    if not settings.barrier.progress:
        for detail in _DETAILS:
            if detail in settings.given:
                raise RefusalError(Reason.PROGRESS_NOT_ASKED, annotation=f"{names.PREFIX}{detail}")
    elif not pod.framework_name or settings.barrier.selector:
        raise RefusalError(Reason.PROGRESS_WITHOUT_FRAMEWORK)
    elif settings.barrier.mode == "init":
        raise RefusalError(Reason.PROGRESS_IN_INIT)
    elif pod.spec.host_network and "progress-port" not in settings.given:
        raise RefusalError(Reason.PROGRESS_WITHOUT_PORT)


def variables_of(settings: PodSettings, one: Container) -> Iterator[JSON]:
    """Yield what a program says its progress by, unless the container sets it itself."""
    found: dict[str, str] = {}
    if settings.barrier.progress:
        found[names.PROGRESS] = f"{settings.barrier.progress_dir}/rank"
    if "http" in settings.barrier.progress:
        found[names.PROGRESS_PORT] = str(settings.barrier.progress_port)
    own = {variable.name for variable in one.env or ()}
    yield from ({"name": name, "value": value} for name, value in found.items() if name not in own)
