"""The Events of a Framework as values, made from what has changed (docs/reference/framework-api.md, section 13)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import WITHOUT_COUNT, Code, TypeName
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Completion, FrameworkStatus, GangRestart, RestartReason, TaskStatus

NAMED_TASKS: Final = 3
"""An Event names so many Tasks; it counts the others."""
NAMED_TEXT: Final = 1024
"""Characters of what it says of each, as many as an Event has in all."""


@dataclass(frozen=True)
class KubeEvent:
    """One Event: `reason` in CamelCase for machines, `message` for people."""

    reason: str
    message: str
    warning: bool = False


def of_framework(before: FrameworkStatus, after: FrameworkStatus, *, told: bool = False) -> Iterator[KubeEvent]:
    """Yield the Events of a change of the Framework's own part; why it is held back may be `told` by another one."""
    attempt = after.attempt_status.id
    if before.state is not after.state:
        if after.state is State.CREATION_REQUESTED:
            yield KubeEvent("AttemptStarted", f"Attempt {attempt} has started")
        elif after.state is State.RUNNING:
            yield KubeEvent("AttemptRunning", f"Attempt {attempt}: the first Task runs")
        elif after.state is State.COMPLETED and after.completion is not None:
            failed = after.completion.type.name == TypeName.FAILED
            reason = "FrameworkFailed" if failed else "FrameworkSucceeded"
            yield KubeEvent(reason, f"Attempt {attempt}: {_why(after.completion)}", failed)
    queued = any(bool(one.queue and one.queue.waiting) for one in (before, after))
    if before.queue and after.queue and before.queue.waiting and not after.queue.waiting:
        yield KubeEvent("FrameworkAdmitted", f"Attempt {attempt} begins: LocalQueue {after.queue.name} has admitted it")
    if bool(before.suspended_since) is not bool(after.suspended_since) and not queued:
        if after.suspended_since and not told:
            yield KubeEvent("FrameworkSuspended", f"Attempt {attempt}: spec.suspend is true")
        elif not after.suspended_since and after.state is not State.COMPLETED:
            yield KubeEvent("FrameworkResumed", f"Attempt {attempt}: it is held back no more")
    if after.completion is not None and after.completion.code == Code.FRAMEWORK_PREEMPTED and before.completion is None:
        yield KubeEvent("FrameworkPreempted", f"Attempt {attempt}: {after.completion.diagnostics}", warning=True)
    if after.completion is not None and after.completion.code in WITHOUT_COUNT:
        return
    delay = after.retry_policy_status.retry_delay_sec
    if delay is not None and before.retry_policy_status.retry_delay_sec is None and after.completion is not None:
        yield KubeEvent(
            "AttemptRetried", f"Attempt {attempt}: {_why(after.completion)}; retried in {delay} s", warning=True
        )


def of_task(role: str, before: TaskStatus, after: TaskStatus) -> Iterator[KubeEvent]:
    """Yield the Events of a Task's change. Ends that a user asked for have an Event of the Framework only."""
    name = f"{role}-{after.index}"
    ended = before.completion
    if after.attempt_status.id > before.attempt_status.id and ended is not None:
        text = f"{name}: {_why(ended)}; retried as attempt {after.attempt_status.id}"
        yield KubeEvent("TaskRetried", text, warning=True)
    elif (
        before.state is not after.state
        and after.state is State.COMPLETED
        and ended is not None
        and ended.type.name == TypeName.FAILED
        and not -299 < ended.code <= -210
    ):
        yield KubeEvent("TaskFailed", f"{name}: {_why(ended)}", warning=True)


def of_gang_restarting(last: GangRestart, restarts: int, limit: int) -> KubeEvent:
    """Return the Event of a gang whose epoch has ended."""
    rescaled = last.reason == RestartReason.RESCALED
    counted = f" ({restarts} of {limit} by exits)" if limit else ""
    text = f"Epoch {last.epoch}: {last.why}; the gang restarts in its Pods{counted}"
    return KubeEvent("GangRestarting", text, warning=not rescaled)


def of_gang_not_restarted(task: str, why: str) -> KubeEvent:
    """Return the Event of an exit that does not restart the gang."""
    return KubeEvent("GangNotRestarted", f"{task} has exited, and its attempt ends: {why}", warning=True)


def of_restored_roster(config_map: str) -> KubeEvent:
    """Return the Event of a roster that somebody else had changed."""
    text = (
        f"Somebody else has changed ConfigMap {config_map}, and it was written again: "
        "whoever may change it can give the Pods of the gang wrong addresses"
    )
    return KubeEvent("RosterRestored", text, warning=True)


def of_gang_waiting(ready: int, total: int, missing: Sequence[str], seconds: float) -> KubeEvent:
    """Return the Event of a gang that still waits for Tasks, of which some are named with the reason."""
    named = "; ".join(missing[:NAMED_TASKS])
    more = total - ready - min(len(missing), NAMED_TASKS)
    rest = f" and {more} more" if more > 0 else ""
    text = f"{ready}/{total} Tasks are ready after {seconds:.0f} s, not {named}{rest}"
    return KubeEvent("GangWaiting", text, warning=True)


def of_missing_barrier(pod: Pod) -> KubeEvent | None:
    """Return the Event of a Pod that asks for the barrier but has none, None for any other Pod."""
    asked = pod.metadata.labels.barrier == "enabled"
    if not asked or any(container.name == names.BARRIER_CONTAINER for container in pod.spec.init_containers):
        return None
    text = (
        f"Pod {pod.metadata.name} carries the label {names.BARRIER_LABEL} and has no barrier: "
        "was the injector's webhook registered when it was created?"
    )
    return KubeEvent("BarrierMissing", text, warning=True)


NAME_IN_USE: Final = "the name is in use"


def of_failure(about: str, message: str) -> KubeEvent:
    """Return the Event of a creation that failed and is tried again."""
    return KubeEvent("FailedCreate", f"{about}: {message}", warning=True)


def _why(completion: Completion) -> str:
    text = completion.diagnostics if len(completion.diagnostics) <= 400 else f"{completion.diagnostics[:400]}..."
    return f"{completion.phrase} ({completion.code}): {text}"
