"""What a Framework and its Tasks wait for and what will happen to them next, in words, from spec and status alone.

Pure. The rules of retries are the controller's own (`frameworkcontroller.core.policies.retry`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkclient.views.text import counted, duration, listed, shorten
from frameworkcontroller.api.codes import NEVER_RETRIED, Attribute, Code
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import COMPLETING, State
from frameworkcontroller.api.workload import QUEUE_LABEL
from frameworkcontroller.core.policies.retry import ALWAYS, ON_ANY_FAILURE, decide_retry

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkclient.views.framework import FrameworkView, RoleView, TaskView
    from frameworkcontroller.api.status import Condition, FrameworkCompletion, RetryPolicyStatus, TaskCompletion

UNSEEN_SECONDS: Final = 10
"""A controller that runs has seen a new Framework by then."""
_MESSAGE: Final = 200
_REFUSAL: Final = 400
"""Characters of what the API server says; it names what refuses first, and why last."""
_NOT_CREATED: Final = (Code.POD_CREATION_PERMANENT_ERROR, Code.POD_CREATION_UNKNOWN_ERROR)
_HUNG: Final = (Code.GANG_HUNG, Code.GANG_HUNG_REPEATEDLY, Code.TASK_HUNG)
_REFUSED: Final = "Failed to create Pod: "
_SUSPENDED: Final = {
    "ExecutionTypeCreate": "somebody to start it (executionType: Create)",
    "Suspended": "somebody to resume it (suspend: true)",
    "WaitingForAdmission": "admission by LocalQueue {queue}",
    "QueueUnknown": "what Kueue says: {message}",
    "NoQueue": f"the label {QUEUE_LABEL}",
    "WorkloadRefused": "a spec that Kueue takes: {message}",
    "AdmissionConflict": "a Pod template that fits its admission: {message}",
    "QueueingDisabled": f"kueue.enabled, or the label {QUEUE_LABEL} to go",
}
"""For what, by the reason of the condition Suspended."""


def waiting(view: FrameworkView, now: datetime) -> str:
    """Return what the Framework waits for, "" if for nothing."""
    status = view.status
    if view.problem:
        return f"cannot be read: {shorten(view.problem, _MESSAGE)}"
    if status is None:
        late = (now - view.created).total_seconds() > UNSEEN_SECONDS
        return "the controller has not seen it" + ("; does it run?" if late else " yet")
    if view.finished:
        return "its deletion" if view.deleting else ""
    if (suspended := condition(view, "Suspended")) is not None:
        queue = status.queue.name if status.queue else ""
        what = _SUSPENDED.get(suspended.reason, "{message}")
        return what.format(queue=queue, message=shorten(suspended.message, _MESSAGE))
    if status.state is State.ATTEMPT_COMPLETED:
        return retry_time(view, now)
    if status.state in COMPLETING:
        left = [task.name for task in view.tasks if not task.ended]
        return f"{counted(len(left), 'Pod')} to end: {listed(left)}" if left else "its ConfigMap to go"
    return _not_ready(view)


def retry_time(view: FrameworkView, now: datetime) -> str:
    """Return when the next attempt begins, while the Framework is between two attempts."""
    status = view.status
    delay = status.retry_policy_status.retry_delay_sec if status else None
    if status is None or delay is None:
        return "the decision whether to retry"
    left = (status.transition_time + timedelta(seconds=delay) - now).total_seconds()
    return f"attempt {view.attempts + 1}, in {duration(left)}" if left > 0 else f"attempt {view.attempts + 1}"


def _not_ready(view: FrameworkView) -> str:
    parts = []
    if missing := missing_tasks(view):
        gang = view.conditions.get("GangReady")
        why = gang.message.partition(": ")[2] if gang is not None else ""
        parts.append(f"{counted(len(missing), 'Task')}: {shorten(why, _MESSAGE) if why else listed(missing)}")
    if (dependency := condition(view, "WaitingForDependency")) is not None:
        parts.append(shorten(dependency.message, _MESSAGE))
    return "; ".join(parts)


def condition(view: FrameworkView, kind: str) -> Condition | None:
    """Return a condition of a Framework if it is true, else None."""
    found = view.conditions.get(kind)
    return found if found is not None and found.status == "True" else None


def missing_tasks(view: FrameworkView) -> list[str]:
    """Return the Tasks for which their gang waits: they should be ready and are not."""
    return [
        task.name
        for role in view.roles
        if not role.waits
        for task in role.tasks
        if not task.status.deletion_pending and not task.ended and not is_ready(task)
    ]


def needs(role: RoleView) -> str:
    """Return what a role waits for: `chief is Ready and data is Complete`."""
    depends_on = role.spec.depends_on if role.spec else None
    return " and ".join(f"{one.name} is {one.status}" for one in depends_on or ())


def is_ready(task: TaskView) -> bool:
    """Report whether the peers of a Task need not wait for it: it has an address, and has arrived where that counts."""
    arrived = task.status.attempt_status.arrived
    return bool(task.ip) and arrived is not False


def cause(view: FrameworkView) -> str:
    """Return by which Task the attempt has ended, and how: ` by worker-5: phrase (code): last words`."""
    completion = view.status.completion if view.status else None
    if completion is None:
        return ""
    trigger = completion.trigger
    name = f"{trigger.task_role_name}-{trigger.task_index}" if trigger and trigger.task_role_name else ""
    task = view.task(name)
    own = task.completion if task is not None else None
    return f"{f' by {name}' if name else ''}: {ending(own or completion)}"


def ending(completion: TaskCompletion | FrameworkCompletion) -> str:
    """Return how an attempt ended, on one line: phrase, code, and the last words of what failed.

    That is the container, the API server that has refused the Pod, or whoever has found that the gang hangs.
    """
    text = f"{completion.phrase} ({completion.code})"
    if (refusal := _refusal(completion.diagnostics)) and completion.code in _NOT_CREATED:
        return f"{text}: {shorten(refusal, _REFUSAL)}"
    if completion.code in _HUNG:
        return f"{text}: {shorten(completion.diagnostics, _REFUSAL)}"
    pod = getattr(completion, "pod", None)
    ends = pod.containers if pod is not None else ()
    failed = next((end for end in ends if end.code != 0), None)
    if failed is None:
        return text
    killed = failed.reason if failed.reason not in {"", "Error", "Completed"} else ""
    last = failed.message.strip().splitlines()[-1:] or [""]
    more = ": ".join(part for part in (killed, shorten(last[0], _MESSAGE)) if part)
    return f"{text}: {more}" if more else text


def _refusal(diagnostics: str) -> str:
    """Return what the API server has said about a Pod, "" if the end of an attempt does not quote it."""
    said = diagnostics.partition(_REFUSED)[2]
    try:
        return str(msgspec.json.decode(said)["ErrStatus"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return said


def task_outlook(view: FrameworkView, role: RoleView, task: TaskView) -> str:
    """Return what will happen to a Task next, "" where nothing needs to be said."""
    if view.finished or task.state is State.COMPLETED:
        return ""
    if task.status.deletion_pending:
        return "goes, because of a rescale"
    if task.completion is not None:
        return _after(task, role)
    match task.state:
        case State.CREATION_PENDING if role.waits:
            return f"waits until {needs(role)}"
        case State.CREATION_PENDING:
            return "its Pod will be created" if view.state is not State.CREATION_PENDING else ""
        case State.CREATION_REQUESTED:
            return "its Pod was created just now"
        case State.RUNNING if task.status.attempt_status.held is True:
            return f"has ended, waits for {counted(view.running_on, 'other')}"
        case _:
            return ""


def _after(task: TaskView, role: RoleView) -> str:
    assert task.completion is not None
    policy = role.spec.task.retry_policy if role.spec else RetryPolicy()
    if task.completion.code in NEVER_RETRIED:
        return "ends with its attempt"
    retry = decide_retry(policy, task.status.retry_policy_status, task.completion)
    if retry.wanted:
        return f"is retried: attempt {task.attempt + 2}"
    return f"is not retried: {why_not(policy, task.status.retry_policy_status, task.completion)}"


def framework_outlook(view: FrameworkView, now: datetime) -> str:
    """Return what will happen to a Framework whose attempt has ended or ends; "" for others."""
    status = view.status
    if status is None or status.completion is None or view.finished:
        return ""
    if status.state is State.ATTEMPT_COMPLETED:
        return f"waits for {retry_time(view, now)}"
    if status.completion.code in NEVER_RETRIED:
        return "ends, and is not retried"
    policy, counts = view.spec.retry_policy, status.retry_policy_status
    if decide_retry(policy, counts, status.completion).wanted:
        return f"will be retried: attempt {view.attempts + 1}"
    if status.completion.type.name == "Succeeded":
        return "will be Completed"
    return f"will not be retried: {why_not(policy, counts, status.completion)}"


def why_not(policy: RetryPolicy, counts: RetryPolicyStatus, completion: TaskCompletion | FrameworkCompletion) -> str:
    """Return why an end is not retried, by the policy that decided so."""
    if completion.type.name == "Succeeded":
        return "it succeeded"
    if policy.fancy_retry_policy and completion.type.has(Attribute.PERMANENT):
        return "the failure is permanent"
    if policy.max_retry_count > 0:
        return f"{counts.accountable_retried_count} of {counts_text(policy)} are used"
    return "its retryPolicy allows none"


_ALLOWED: Final = {ALWAYS: "every end", ON_ANY_FAILURE: "every failure", 0: "", 1: "1 retry"}


def counts_text(policy: RetryPolicy) -> str:
    """Return what a retry policy allows, in words."""
    transient = "transient failures always" if policy.fancy_retry_policy else ""
    allowed = _ALLOWED.get(policy.max_retry_count, f"{policy.max_retry_count} retries")
    return ", ".join(part for part in (transient, allowed) if part) or "no retries"
