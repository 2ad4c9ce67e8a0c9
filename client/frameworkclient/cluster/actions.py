"""What a change of a Framework means in requests, and when it is what somebody waits for: pure decisions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from frameworkclient.errors import ArgumentError
from frameworkclient.model.manifest import LAST_APPLIED
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.outlook import counts_text
from frameworkclient.views.pods import Stage, TaskPod
from frameworkcontroller.api import names
from frameworkcontroller.api.codes import TRANSIENT, Code
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import ASSOCIATED, COMPLETING, State
from frameworkcontroller.api.status import RetryPolicyStatus, TaskCompletion
from frameworkcontroller.core.policies.retry import decide_retry

Goal: TypeAlias = Literal["completed", "succeeded", "running", "ready", "deleted"]
_TASK: Final = re.compile(r"(?P<role>[a-z0-9]{1,63})-[0-9]{1,9}")


@dataclass(frozen=True)
class DeletePod:
    """Delete the Pod of one Task; the controller retries the Task."""

    name: str
    uid: str


@dataclass(frozen=True)
class DeleteConfigMap:
    """Delete the ConfigMap of the attempt; the controller retries the Framework."""

    name: str
    uid: str


@dataclass(frozen=True)
class SubmitAgain:
    """Delete the completed Framework and create it again."""


Retry = DeletePod | DeleteConfigMap | SubmitAgain


def scale_patch(view: FrameworkView, tasks: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the JSON Patch that changes numbers of Tasks, and nothing if the list of roles has changed meanwhile.

    Raises:
        ArgumentError: There is no such role, or a number is not valid.
    """
    if not tasks:
        raise ArgumentError("scale: name at least one role with its new number of Tasks, like worker=4")
    roles = [role.name for role in view.spec.task_roles or ()]
    patch: list[dict[str, Any]] = []
    for role, number in tasks.items():
        if role not in roles:
            raise ArgumentError(
                f"role {role}: Framework {view.name} has no such role; there are {', '.join(roles) or 'none'}"
            )
        if number < 0:
            raise ArgumentError(f"role {role}: the number of Tasks must be 0 or more, not {number}")
        path = f"/spec/taskRoles/{roles.index(role)}"
        patch += [
            {"op": "test", "path": f"{path}/name", "value": role},
            # `add` replaces a number that is there, and a role may have none.
            {"op": "add", "path": f"{path}/taskNumber", "value": number},
        ]
    return patch


def again(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest by which a completed Framework is submitted again: without what the API server added."""
    metadata, spec = manifest["metadata"], dict(manifest["spec"])
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    if spec.get("executionType") == "Stop":
        spec["executionType"] = "Start"
        spec.pop("suspend", None)
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": kept | ({"annotations": annotations} if annotations else {}),
        "spec": spec,
    }


def owner(view: FrameworkView) -> dict[str, Any]:
    """Return the entry of `ownerReferences` of what goes with a Framework."""
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": view.name, "uid": view.uid}


def code_of(view: FrameworkView) -> list[str]:
    """Return the ConfigMaps with the code of its Pods, each once."""
    pods = [role["task"]["pod"] for role in view.to_dict()["spec"].get("taskRoles") or ()]
    found = [((pod.get("metadata") or {}).get("annotations") or {}).get(names.CODE_ANNOTATION) for pod in pods]
    return [name for name in dict.fromkeys(found) if name]


def check_task(name: str, roles: Sequence[str]) -> str:
    """Return the role in a Task's name.

    Raises:
        ArgumentError: It is not the name of a Task of these roles.
    """
    found = _TASK.fullmatch(name)
    if found is None:
        raise ArgumentError(f"task {name}: must be a role and an index, like worker-0")
    if found["role"] not in roles:
        raise ArgumentError(f"task {name}: there is no role {found['role']}; there are {', '.join(roles) or 'none'}")
    return found["role"]


def retry_of(view: FrameworkView, task: str = "") -> Retry:
    """Return how to begin another attempt of a Framework, or of one of its Tasks.

    The API has no request for it: an object that somebody else deletes is a transient failure, and the retry policy
    decides what follows. Where it would end the Framework instead, nothing is done.

    Raises:
        ArgumentError: There is no such Task, nothing runs, or the policy would not retry.
    """
    return _retry_task(view, task) if task else _retry_framework(view)


def _retry_framework(view: FrameworkView) -> Retry:
    if view.finished:
        return SubmitAgain()
    status = view.status
    if status is None or status.state not in ASSOCIATED or status.attempt_status.config_map_uid is None:
        raise ArgumentError(f"Framework {view.name}: no attempt runs (its state is {view.state or 'not known yet'})")
    if status.state in COMPLETING:
        raise ArgumentError(f"Framework {view.name}: its attempt ends already; wait for what follows")
    if not _retries(view.spec.retry_policy, status.retry_policy_status):
        raise ArgumentError(
            f"Framework {view.name}: its retryPolicy would end it instead ({counts_text(view.spec.retry_policy)}); "
            "set spec.retryPolicy.fancyRetryPolicy, or stop it and retry it then"
        )
    return DeleteConfigMap(status.attempt_status.config_map_name, status.attempt_status.config_map_uid)


def _retry_task(view: FrameworkView, name: str) -> Retry:
    role_name = check_task(name, [role.name for role in view.roles])
    task = view.task(name)
    if task is None:
        raise ArgumentError(f"task {name}: Framework {view.name} has no such Task")
    uid = task.status.attempt_status.pod_uid
    if task.state not in ASSOCIATED or task.completion is not None or uid is None:
        raise ArgumentError(f"task {name}: it has no Pod that could be replaced (its state is {task.state})")
    role = next(role for role in view.roles if role.name == role_name)
    policy = role.spec.task.retry_policy if role.spec else None
    if policy is None or not _retries(policy, task.status.retry_policy_status):
        allowed = counts_text(policy) if policy else "the role was removed"
        raise ArgumentError(
            f"task {name}: its retryPolicy would end it instead ({allowed}); "
            f"set spec.taskRoles[{role_name}].task.retryPolicy.fancyRetryPolicy"
        )
    return DeletePod(task.pod, uid)


def check_runs(task: str, pod: TaskPod) -> None:
    """Return if the Pod of a Task that is to be retried has not ended: a result that is there must not be deleted.

    Raises:
        ArgumentError: It has, and the status of the Framework does not say so yet.
    """
    if pod.stage in {Stage.SUCCEEDED, Stage.FAILED}:
        raise ArgumentError(f"task {task}: its Pod has {pod.stage} already; wait for what the controller makes of it")


def _retries(policy: RetryPolicy, counts: RetryPolicyStatus) -> bool:
    deleted = TaskCompletion(int(Code.POD_EXTERNAL_DELETED), "", TRANSIENT, "")
    return decide_retry(policy, counts, deleted).wanted


def _is_ready(view: FrameworkView) -> bool:
    ready, _, total = view.ready_text.partition("/")
    return ready == total != ""


GOALS: Final[Mapping[Goal, Callable[[FrameworkView], bool]]] = {
    "completed": lambda view: view.finished,
    "succeeded": lambda view: view.succeeded,
    # A Task runs or has run.
    "running": lambda view: view.state is State.RUNNING,
    "ready": _is_ready,
    # No Framework is that can be seen.
    "deleted": lambda _: False,
}
"""Whether a Framework is as far as somebody waits for it to be."""
