"""All checks of one Framework."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from frameworkclient.checks import gang, schema, template
from frameworkclient.checks.problem import Problem, Severity, error, warning
from frameworkcontroller.api import definition, names
from frameworkcontroller.api.pod_group import KINDS, NONE, PER_ROLE
from frameworkcontroller.api.spec import SPEC_DECODER, FrameworkSpec, bounded
from frameworkcontroller.api.workload import QUEUE_LABEL
from frameworkcontroller.core.policies.dependencies import problems_of


def lint(manifest: Any) -> list[Problem]:
    """Return what is wrong with a Framework as decoded, errors first."""
    if not isinstance(manifest, dict):
        return [error("the document", "must be an object")]
    found = list(_document(manifest))
    if not any(problem.severity is Severity.ERROR for problem in found):
        found += _roles(manifest)
    return sorted(found, key=lambda problem: problem.severity is not Severity.ERROR)


def _document(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the API server would refuse."""
    for field, wanted in (("apiVersion", names.API_VERSION), ("kind", names.KIND)):
        if manifest.get(field) != wanted:
            yield error(field, f"must be {wanted}, not {manifest.get(field)}")
    stored = {key: value for key, value in manifest.items() if key != "status"}
    yield from schema.problems(stored, definition.schema())


def _roles(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what could not run, or would not do what it was written for."""
    spec = bounded(SPEC_DECODER.decode(msgspec.json.encode(manifest["spec"])))
    roles = [role for role in manifest["spec"].get("taskRoles") or () if role is not None]
    if not roles:
        yield warning("spec.taskRoles", "is empty: there is nothing to run")
    if spec.suspend and spec.execution_type == "Stop":
        yield warning("spec.suspend", "has no effect: executionType Stop ends the Framework")
    sound, stuck = [], problems_of(spec)
    for role in roles:
        path = f"spec.taskRoles[{role['name']}]"
        found = list(template.problems(role, str(manifest["metadata"]["name"]), path))
        yield from found
        if not any(problem.severity is Severity.ERROR for problem in found):
            sound.append(role)
        if text := stuck.get(role["name"]):
            field, _, reason = text.partition(": ")
            yield error(field, reason)
        yield from _counts(role, path)
    yield from gang.problems(manifest, spec, sound)
    yield from _groups(spec, sound)
    if (manifest["metadata"].get("labels") or {}).get(QUEUE_LABEL):
        yield from _quota(sound)


def _groups(spec: FrameworkSpec, roles: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield where Pod templates do not fit the groups in which a scheduler is to place them."""
    asked = spec.gang_scheduling
    if asked is None or asked.scheduler == NONE:
        return
    kind = KINDS[asked.scheduler]
    own = kind.membership("").get("schedulerName", "")
    pods = {role["name"]: role["task"]["pod"].get("spec") or {} for role in roles}
    for name, pod in pods.items():
        path = f"spec.taskRoles[{name}].task.pod.spec"
        if "schedulingGroup" in pod:
            yield warning(f"{path}.schedulingGroup", "has no effect: the group of spec.gangScheduling takes its place")
        found = pod.get("priorityClassName", "")
        if found != asked.priority_class_name and "priorityClassName" not in kind.lacks:
            text = f"is {asked.priority_class_name!r} and that of the Pods of role {name} {found!r}: use one for both"
            yield warning("spec.gangScheduling.priorityClassName", text)
    schedulers = sorted({str(pod.get("schedulerName") or own) for pod in pods.values()})
    if len(schedulers) > 1 and asked.group_per != PER_ROLE:
        yield warning(
            "spec.gangScheduling.groupPer", f"one scheduler has to know all Pods of a group, found {schedulers}"
        )


def _quota(roles: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield that a queue of Kueue has nothing to count of a whole Framework; it takes limits for requests."""
    pods = [role["task"]["pod"]["spec"] for role in roles]
    asking = [one for pod in pods for one in (pod, *(pod.get("initContainers") or ()), *pod["containers"]) if one]
    if pods and not any(any((one.get("resources") or {}).values()) for one in asking):
        yield warning(
            "spec.taskRoles",
            "the Pods have neither requests nor limits, so Kueue admits them past its quotas of CPU, memory and GPUs, "
            "unless a LimitRange of the namespace gives them defaults; set resources (run: --cpu, --memory, --gpus)",
        )


def _counts(role: Mapping[str, Any], path: str) -> Iterator[Problem]:
    number = role.get("taskNumber") or 0
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    if not number:
        yield warning(f"{path}.taskNumber", "is 0: the role has no Tasks until it is scaled")
    for kind in ("Failed", "Succeeded"):
        field = f"min{kind}TaskCount"
        count = policy.get(field)
        if isinstance(count, int) and number and count > number and policy.get(f"min{kind}TaskPercent") is None:
            yield warning(
                f"{path}.frameworkAttemptCompletionPolicy.{field}",
                f"is {count}, and the role has only {number} Tasks: it never counts",
            )
