"""What a queue of Kueue would make of a Framework that has its label (docs/queues.md)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from frameworkclient.checks.problem import Problem, warning
from frameworkcontroller.api.workload import QUEUE_LABEL

MAX_ROLES: Final = 18
"""PodSets of a Workload, by its definition."""


def problems(manifest: Mapping[str, Any], roles: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield what a queue would refuse, or not count, of a Framework; of these roles the templates are Pods."""
    labels = manifest["metadata"].get("labels")
    if not isinstance(labels, dict) or not labels.get(QUEUE_LABEL):
        return
    number = len(manifest["spec"].get("taskRoles") or ())
    if number > MAX_ROLES:
        yield warning("spec.taskRoles", f"are {number}, and Kueue queues at most {MAX_ROLES}: it would be refused")
    for role in roles:
        spec = role["task"]["pod"]["spec"]
        asked = [one.get("resources") or {} for one in (spec, *spec["containers"], *(spec.get("initContainers") or ()))]
        if not any(any(one.values()) for one in asked):
            path = f"spec.taskRoles[{role['name']}].task.pod.spec.containers"
            yield warning(
                path, "ask for no resources, so the quota of the queue counts nothing: set resources.requests"
            )
