"""What holds one Task up: its creation, its scheduling, its image, its node, its barrier."""

import re
from collections.abc import Iterable
from typing import Final

from frameworkclient.diagnosis.evidence import MESSAGE, Evidence, Finding
from frameworkclient.views.framework import TaskView
from frameworkclient.views.outlook import ending, is_ready, missing_tasks
from frameworkclient.views.pods import IMAGE_ERRORS, ContainerStatus, Stage, TaskPod, joined
from frameworkclient.views.text import counted, listed, shorten, since
from frameworkcontroller.api.states import State

STUCK_SECONDS: Final = 120
"""A Pod that ends takes its grace period, 30 s by default."""


def finding_of(evidence: Evidence, task: TaskView, pod: TaskPod | None) -> Finding | None:
    """Return what holds a Task up, None if nothing does."""
    if task.ended:
        return None
    if task.completion is not None or (pod is not None and pod.stage is Stage.ENDING):
        return _going(evidence, task, pod)
    if pod is None or task.state is State.CREATION_PENDING:
        return _not_created(evidence)
    found = _pod(evidence, task, pod)
    if found is not None or is_ready(task):
        return found
    return Finding("its Pod has no address yet")


def _going(evidence: Evidence, task: TaskView, pod: TaskPod | None) -> Finding | None:
    if pod is None:
        return None
    how = f" ({ending(task.completion)})" if task.completion is not None else ""
    going = Finding(f"its attempt has ended{how}, and its Pod is going")
    begun = pod.metadata.deletion_timestamp
    if begun is None:
        return _refusal(evidence, "FailedDelete", "its Pod cannot be deleted", _CHANGE, "Pod of ") or going
    if (evidence.now - begun).total_seconds() < STUCK_SECONDS:
        return going
    return Finding(
        f"its Pod should have gone {since(begun, evidence.now)} ago and is still there: is node "
        f"{pod.spec.node_name} lost?",
        f"repair or remove the node: kubectl get node {pod.spec.node_name}; delete the Pod by force only if its "
        "containers cannot run any more",
    )


_WEBHOOK: Final = (
    "failed calling webhook|failed to call webhook",
    "the webhook does not answer: ask who runs it; frameworkinjector is installed with the chart",
)
_PERMISSION: Final = (
    "cannot create resource|is forbidden: User",
    "the controller has no permission: an administrator has to install its roles again",
)
CREATION: Final = (
    ("exceeded quota", "ask for less, wait until others end, or ask for a larger quota: kubectl describe quota"),
    _WEBHOOK,
    ("denied (?:the )?request|ValidatingAdmissionPolicy", "change what the message names in the Pod template"),
    _PERMISSION,
    ('serviceaccount "[^" ]{1,253}" not found', "create the service account, or name another one in the Pod template"),
)
_CHANGE: Final = (_WEBHOOK, _PERMISSION)
"""Of what is there already."""


def advice(table: Iterable[tuple[str, str]], message: str, otherwise: str) -> str:
    """Return what to do by the first pattern of a table that is found; its groups fill the text."""
    for pattern, todo in table:
        if found := re.search(pattern, message):
            return todo.format(**found.groupdict())
    return otherwise


def _not_created(evidence: Evidence) -> Finding:
    found = _refusal(evidence, "FailedCreate", "its Pod cannot be created", CREATION)
    return found or Finding("its Pod is not created yet")


def _refusal(
    evidence: Evidence, reason: str, what: str, table: Iterable[tuple[str, str]], about: str = ""
) -> Finding | None:
    """Return what the API server has refused last, by the Events of this reason about this; None if there are none."""
    events = reversed(evidence.events)
    failed = next((one for one in events if one.reason == reason and one.message.startswith(about)), None)
    if failed is None:
        return None
    todo = advice(table, failed.message, "change what the message names")
    return Finding(f"{what} ({since(failed.time, evidence.now)} ago): {shorten(failed.message, MESSAGE)}", todo)


_SCHEDULING: Final = (
    (
        r"Insufficient (?P<resource>[\w./-]*\w)",
        "no node has enough free {resource}: wait until others end, ask for less in resources, or add nodes",
    ),
    (
        "didn't match Pod's node affinity/selector",
        "no node has the labels that nodeSelector or affinity asks for: kubectl get nodes --show-labels",
    ),
    ("untolerated taint", "the nodes are tainted: add tolerations to the Pod template, or use other nodes"),
    ("persistentvolumeclaim|PersistentVolumeClaim|volume", "look at its claims: kubectl get pvc"),
)


_CONFIG: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def _container(evidence: Evidence, task: TaskView, one: ContainerStatus) -> Finding | None:
    """Return why a container does not start."""
    waiting = one.state.waiting
    if waiting is None:
        return None
    text = joined(waiting.reason, waiting.message, MESSAGE)
    if waiting.reason in IMAGE_ERRORS:
        return Finding(
            f"the image of container {one.name} cannot be pulled: {text}",
            "check the name of the image, its registry and imagePullSecrets",
        )
    if waiting.reason in _CONFIG:
        return Finding(
            f"container {one.name} cannot be created: {text}",
            "create the ConfigMap, the Secret or the key that the message names, or correct the template",
        )
    if waiting.reason == "CrashLoopBackOff":
        return Finding(
            f"container {one.name} ends again and again ({one.restart_count} restarts): {text}",
            f"read what it wrote before: {evidence.program} logs {evidence.view.name} --task {task.name} --previous; "
            "with restartPolicy Never the Task would end",
        )
    return None


def _pod(evidence: Evidence, task: TaskView, pod: TaskPod) -> Finding | None:
    """Return what holds a Pod up that exists."""
    for one in pod.statuses:
        if (found := _container(evidence, task, one)) is not None:
            return found
    match pod.stage:
        case Stage.NOT_SCHEDULED:
            return _not_scheduled(pod)
        case Stage.STARTING:
            return _starting(evidence, pod)
        case Stage.BARRIER:
            return _in_barrier(evidence, task)
        case Stage.BARRIER_FAILED:
            return Finding(f"its barrier gave up: {pod.reason}", _barrier_logs(evidence, task))
        case _:
            return None


def _not_scheduled(pod: TaskPod) -> Finding:
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    message = condition.message if condition is not None and condition.status == "False" else ""
    if not message:
        return Finding("its Pod waits for the scheduler")
    return Finding(
        f"its Pod cannot be scheduled: {shorten(message, MESSAGE)}",
        advice(_SCHEDULING, message, "look at the nodes: kubectl describe nodes"),
    )


def _starting(evidence: Evidence, pod: TaskPod) -> Finding:
    """Return the last warning of the kubelet about a Pod whose containers do not start."""
    about = [one for one in evidence.events if one.involved_object.name == pod.metadata.name]
    warning = next((one for one in reversed(about) if one.type == "Warning"), None)
    if warning is None:
        return Finding(f"its Pod starts on node {pod.spec.node_name}")
    text = f"{warning.reason}: {shorten(warning.message, MESSAGE)}"
    todo = "look at what the message names: a volume, a ConfigMap or a Secret may not exist"
    return Finding(f"its Pod does not start on node {pod.spec.node_name}: {text}", todo if "ount" in text else "")


_FORBIDDEN: Final = re.compile(r"forbidden|cannot (get|list|watch)|403", re.IGNORECASE)


def _in_barrier(evidence: Evidence, task: TaskView) -> Finding:
    last = evidence.barrier_logs.get(task.name, "")
    if _FORBIDDEN.search(last):
        return Finding(
            f"its barrier may not read the roster: {shorten(last, MESSAGE)}",
            "its service account lacks the permission; the controller grants it with grantRosterAccess, see "
            "docs/reference/barrier.md, section 6",
        )
    if missing := missing_tasks(evidence.view):
        return Finding(f"waits in the barrier for {counted(len(missing), 'Task')}: {listed(missing)}")
    said = f": {shorten(last, MESSAGE)}" if last else ""
    found = _refusal(evidence, "FailedUpdate", "waits for a roster that cannot be written", _CHANGE, "ConfigMap: ")
    return found or Finding(f"waits in the barrier, although all Tasks are ready{said}", _barrier_logs(evidence, task))


def _barrier_logs(evidence: Evidence, task: TaskView) -> str:
    return f"{evidence.program} logs {evidence.view.name} --task {task.name} --barrier"
