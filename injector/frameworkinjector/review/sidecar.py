"""What a sidecar does beside the application: restart it with its gang, hold its end, and hear how far it is.

`plan` calls `refuse` before it decides on containers, and `variables_of` and `rules_of` for each of them; `barrier`
takes `BARRIER_RULES`. Source: docs/reference/injector.md, section 1, and docs/reference/restart.md, sections 2 to 5.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from frameworkinjector import names
from frameworkinjector.review.config import Config
from frameworkinjector.review.pod import JSON, Container, Pod
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.settings import PodSettings

MAX_SOCKET_FOLDER: Final = 96
"""Characters of the folder of a socket, whose path has at most 107."""
_RESTART: Final = ("restart-limit", "restart-exit-codes", "restart-grace")
_PROGRESS: Final = ("progress-port", "hang", "hang-floor", "hang-factor", "hang-first", "hang-limit")
_ASKED: Final = (
    ("restart", Reason.RESTART_WITHOUT_FRAMEWORK, Reason.RESTART_IN_INIT, Reason.RESTART_NOT_ASKED, _RESTART),
    ("exit", Reason.EXIT_WITHOUT_FRAMEWORK, Reason.EXIT_IN_INIT, Reason.EXIT_NOT_ASKED, ("exit-timeout",)),
    ("progress", Reason.PROGRESS_WITHOUT_FRAMEWORK, Reason.PROGRESS_IN_INIT, Reason.PROGRESS_NOT_ASKED, _PROGRESS),
)
"""Annotations, why each is refused without a controller and without a sidecar, and those that mean nothing without."""
NEVER: Final = "Never"
# As many as Kubernetes allows in a container.
MAX_RULES: Final = 20
SUCCEEDED: Final = 0
PERMANENT: Final = 210
# By which NVRx says that a restart would not help.
GIVEN_UP: Final = 93


def _restart_all(operator: str, codes: Sequence[int]) -> JSON:
    return {"action": "RestartAllContainers", "exitCodes": {"operator": operator, "values": list(codes)}}


# With these codes a barrier says that it has not opened: no application runs, so it may start again alone.
BARRIER_RULES: Final = (_restart_all("NotIn", (1, 201, 210)),)


def refuse(pod: Pod, settings: PodSettings, config: Config) -> None:
    """Check what does not depend on the chosen containers.

    Raises:
        RefusalError: The Pod has no sidecar, or no gang that a controller looks after; the cluster cannot restart it;
            it has no port of its own, or no place for a socket; or an annotation stands alone.
    """
    barrier = settings.barrier
    if barrier.restart and not config.in_place_restart:
        raise RefusalError(Reason.RESTART_UNSUPPORTED)
    for name, without_framework, in_init, not_asked, details in _ASKED:
        if not getattr(barrier, name):
            for detail in details:
                if detail in settings.given:
                    raise RefusalError(not_asked, annotation=f"{names.PREFIX}{detail}")
        elif not pod.framework_name or barrier.selector:
            raise RefusalError(without_framework)
        elif barrier.mode == "init":
            raise RefusalError(in_init)
    if barrier.exit and len(barrier.output_dir) > MAX_SOCKET_FOLDER:
        annotation, expected = f"{names.PREFIX}output-dir", f"at most {MAX_SOCKET_FOLDER} characters long with exit"
        raise RefusalError(Reason.BAD_VALUE, annotation=annotation, value=shown(barrier.output_dir), expected=expected)
    if barrier.progress and pod.spec.host_network and "progress-port" not in settings.given:
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


def rules_of(one: Container, pod: Pod, settings: PodSettings) -> tuple[JSON, ...]:
    """Return the rules to add after a container's own, which are read first.

    Raises:
        RefusalError: The kubelet would restart the container alone, or it has too many rules of its own.
    """
    if not settings.barrier.restart:
        return ()
    policy = one.restart_policy or pod.restart_policy
    if policy != NEVER:
        raise RefusalError(Reason.RESTART_ALONE, container=shown(one.name), policy=shown(policy))
    if len(one.restart_policy_rules or ()) >= MAX_RULES:
        raise RefusalError(Reason.TOO_MANY_RESTART_RULES, container=shown(one.name), limit=MAX_RULES)
    if settings.restart_exit_codes:
        return (_restart_all("In", settings.restart_exit_codes),)
    # Of a program that says nothing of its progress, 93 may be any failure.
    given_up = (GIVEN_UP,) if settings.barrier.progress else ()
    return (_restart_all("NotIn", (SUCCEEDED, PERMANENT, *given_up)),)
