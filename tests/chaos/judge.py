"""Where everything must be after the calm."""

from collections import Counter

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus
from testkit.frameworks import Frameworks
from tests.chaos.history import History
from tests.chaos.lives import Life
from tests.chaos.nodes import Nodes
from tests.controller.core import checks

OWN = {"kube-root-ca.crt"}


def unsettled(lives: dict[str, Life], history: History) -> list[str]:
    """Return what is not yet as it will be, one text for each Framework."""
    found = []
    for life in lives.values():
        status = history.status(life.name)
        state = "" if life.name not in history.latest else "none" if status is None else str(status.state)
        if state != life.state or life.steps:
            found.append(f"{life.name}: is {state or 'gone'}, not {life.state or 'gone'}, {life.steps}")
        elif life.kind == "serve" and status is not None:
            tasks = checks.tasks_of(status).values()
            waiting = Counter(str(task.state) for task in tasks if task.state is not State.RUNNING)
            if waiting:
                found.append(f"{life.name}: not all Tasks run: {dict(waiting)}")
    return found


def misjudged(lives: dict[str, Life], history: History, nodes: Nodes) -> list[str]:
    """Return what is wrong for good: codes, Tasks and retries."""
    return [
        f"{life.name}: {text}"
        for life in lives.values()
        if (status := history.status(life.name)) is not None
        for text in _faults_of(life, status, history, nodes)
    ]


def _faults_of(life: Life, status: FrameworkStatus, history: History, nodes: Nodes) -> list[str]:
    found = []
    code = status.completion.code if status.completion else None
    if code != life.code:
        found.append(f"the completion code is {code}, not {life.code}: {status.completion}")
    retried = status.retry_policy_status.accountable_retried_count
    if retried != life.counted:
        found.append(f"{retried} retries were counted, not {life.counted}")
    tasks = checks.tasks_of(status)
    names = {f"{role}-{index}" for role, index in tasks}
    if names != life.tasks and life.kind != "stop":
        found.append(f"the Tasks are {sorted(names)}, not {sorted(life.tasks)}")
    for (role, index), task in tasks.items():
        counted = task.retry_policy_status.accountable_retried_count
        failed = history.pods_of[task.instance_uid] & nodes.failed
        # The last failure of a Task that is not retried is not counted; it is the result.
        if counted != len(failed):
            found.append(f"Task {role}-{index}: {counted} retries were counted, {len(failed)} of its Pods failed")
    return found


def left_over(frameworks: Frameworks, lives: dict[str, Life]) -> list[str]:
    """Return the Pods, ConfigMaps, Roles and RoleBindings that belong to no Framework that runs."""
    found = []
    running = {life.name for life in lives.values() if life.kind == "serve"}
    for path in (
        "/api/v1/namespaces/{}/pods",
        "/api/v1/namespaces/{}/configmaps",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    ):
        for item in frameworks.raw.get(path.format(frameworks.namespace))["items"]:
            name = item["metadata"]["name"]
            if name not in OWN and not name.startswith("hostile") and name.split("-")[0] not in running:
                found.append(f"{path.rpartition('/')[2]} {name}")
    return found
