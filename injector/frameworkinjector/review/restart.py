"""In-place restart: what the kubelet is to do when a container of the Pod exits.

`plan` calls `rules_of` for each chosen container, and `barrier` takes `BARRIER_RULES`.
Source: docs/reference/restart.md, sections 2 to 5.
"""

from collections.abc import Sequence
from typing import Final

from frameworkinjector.review.pod import JSON, Container, Pod
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.settings import PodSettings

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
