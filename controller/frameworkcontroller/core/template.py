"""From a role's Pod template to the Pods of its Tasks (docs/reference/framework-api.md, section 4).

A template is prepared once per Framework attempt and role: decoded, completed with owner, labels, annotations and
environment, encoded again, and cut where a Task's own values go. A Task's Pod is then a join of bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from frameworkcontroller import __version__
from frameworkcontroller.api import names
from frameworkcontroller.core.readiness import annotations_ask_for_arrival, container_asks_for_arrival
from frameworkcontroller.core.restartpolicy import Policy, read_policy, read_starts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frameworkcontroller.api.spec import Dependency, FrameworkSpec


class TemplateError(ValueError):
    """The template is not valid for a Pod; the message names the field."""


@dataclass(frozen=True)
class RoleAttempt:
    """One TaskRole in one Framework attempt: what its Pods have in common."""

    namespace: str
    framework: str
    framework_uid: str
    framework_attempt_id: int
    config_map_uid: str
    role: str
    role_uid: str

    @property
    def values(self) -> dict[str, str]:
        """The values by the names of the Pods' annotations and variables."""
        return {
            names.FRAMEWORK_NAMESPACE: self.namespace,
            names.FRAMEWORK_NAME: self.framework,
            names.TASKROLE_NAME: self.role,
            names.CONFIGMAP_NAME: names.config_map_name(self.framework),
            names.FRAMEWORK_UID: self.framework_uid,
            names.FRAMEWORK_ATTEMPT_ID: str(self.framework_attempt_id),
            names.FRAMEWORK_ATTEMPT_INSTANCE_UID: names.attempt_instance_uid(
                self.framework_attempt_id, self.config_map_uid
            ),
            names.CONFIGMAP_UID: self.config_map_uid,
            names.TASKROLE_UID: self.role_uid,
        }


class PodTemplate:
    """The prepared Pod template of one role.

    Raises:
        TemplateError: the template is not valid for a Pod.
    """

    def __init__(self, template: bytes, attempt: RoleAttempt) -> None:
        self.attempt = attempt
        shared = attempt.values
        text = _substitute(template.decode(), {name: shared[name] for name in names.PLACEHOLDERS if name in shared})
        # The user's {{FC_TASK_INDEX}} and {{FC_POD_NAME}} serve as marks as they are. The other marks contain the
        # Framework's UID, which no user knows when writing the template.
        marks = {name: f"{{{{{name}}}}}" for name in (names.TASK_INDEX, names.POD_NAME)}
        marks |= {name: f"{{{{{attempt.framework_uid}:{name}}}}}" for name in (names.TASK_UID, names.TASK_ATTEMPT_ID)}
        try:
            pod = _object(msgspec.json.decode(text), "template")
            _complete(pod, shared | marks, attempt)
            encoded = msgspec.json.encode(pod).decode()
        except RecursionError as error:
            reason = "pod template is nested too deeply"
            raise TemplateError(reason) from error
        by_mark = {mark: name for name, mark in marks.items()}
        pieces = re.split("(" + "|".join(re.escape(mark) for mark in by_mark) + ")", encoded)
        self._literals = [piece.encode() for piece in pieces[::2]]
        self._names = [by_mark[piece] for piece in pieces[1::2]]

    def render(self, index: int, task_uid: str, task_attempt_id: int) -> bytes:
        """Return the JSON of one Task's Pod."""
        values = {
            names.TASK_INDEX: str(index).encode(),
            names.POD_NAME: names.pod_name(self.attempt.framework, self.attempt.role, index).encode(),
            names.TASK_UID: task_uid.encode(),
            names.TASK_ATTEMPT_ID: str(task_attempt_id).encode(),
        }
        parts = [self._literals[0]]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            parts += (values[name], literal)
        return b"".join(parts)


def _substitute(text: str, values: dict[str, str]) -> str:
    # Names, UIDs and numbers need no escaping in JSON, so they can replace text in the encoded template.
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _complete(pod: dict[str, Any], values: dict[str, str], attempt: RoleAttempt) -> None:
    """Add what makes the template a Pod of this Framework attempt."""
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    metadata = _object(_own(pod, "metadata", {}), "metadata")
    metadata["name"] = values[names.POD_NAME]
    metadata["namespace"] = attempt.namespace
    metadata.pop("generateName", None)
    owners = _array(_own(metadata, "ownerReferences", []), "metadata.ownerReferences")
    owners.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": values[names.CONFIGMAP_NAME],
            "uid": attempt.config_map_uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    )
    annotations = _object(_own(metadata, "annotations", {}), "metadata.annotations")
    annotations |= {name: values[name] for name in names.POD_ANNOTATIONS}
    annotations[names.CONTROLLER_VERSION] = __version__
    labels = _object(_own(metadata, "labels", {}), "metadata.labels")
    # With it, the caches would not show the Pod.
    labels.pop(names.RETAINED_LABEL, None)
    labels |= {name: values[name] for name in names.POD_LABELS}
    spec = _object(_own(pod, "spec", {}), "spec")
    predefined: list[dict[str, Any]] = [{"name": name, "value": values[name]} for name in names.POD_ANNOTATIONS]
    predefined += [
        {"name": names.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {
            "name": names.TASK_ATTEMPT_INSTANCE_UID,
            "value": f"{values[names.TASK_ATTEMPT_ID]}_$({names.POD_UID})",
        },
    ]
    for kind in ("initContainers", "containers"):
        for number, entry in enumerate(_array(_or_empty(spec.get(kind)), f"spec.{kind}")):
            where = f"spec.{kind}[{number}]"
            container = _object(entry, where)
            container["env"] = predefined + _array(_or_empty(container.get("env")), f"{where}.env")
            if not container.get("terminationMessagePolicy"):
                container["terminationMessagePolicy"] = "FallbackToLogsOnError"


def _own(parent: dict[str, Any], key: str, empty: dict[str, Any] | list[Any]) -> object:
    """Return the value at `key`; set it to `empty` first if it is absent or null."""
    if parent.get(key) is None:
        parent[key] = empty
    return parent[key]


def _or_empty(value: object) -> object:
    """Return an empty list for a value that is absent or null."""
    return [] if value is None else value


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        reason = f"pod {where} must be an object, not {type(value).__name__}"
        raise TemplateError(reason)
    return value


def _array(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        reason = f"pod {where} must be a list, not {type(value).__name__}"
        raise TemplateError(reason)
    return value


class _Variable(msgspec.Struct, frozen=True):
    name: str = ""
    value: str | None = None


class _Resources(msgspec.Struct, frozen=True):
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    image: str | None = None
    env: tuple[_Variable, ...] | None = ()
    command: tuple[str, ...] | None = ()
    args: tuple[str, ...] | None = ()
    resources: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def gpus(self) -> int:
        """The GPUs that it asks for; resources that cannot be read count as none."""
        try:
            asked = msgspec.json.decode(self.resources, type=_Resources | None)
        except (msgspec.MsgspecError, RecursionError):
            return 0
        limits = (asked.limits if asked else None) or {}
        return sum(
            int(number)
            for name, number in limits.items()
            if name.endswith(names.GPU_SUFFIX) and re.fullmatch("[0-9]{1,6}", str(number))
        )

    @property
    def is_barrier(self) -> bool:
        words = (self.name, self.image or "", *(self.command or ()))
        return any(names.BARRIER_CONTAINER in word for word in words)

    @property
    def asks_for_arrival(self) -> bool:
        words = (*(self.command or ()), *(self.args or ()))
        return container_asks_for_arrival(self.name, words, ((one.name, one.value) for one in self.env or ()))


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    service_account_name: str | None = None
    init_containers: tuple[_Container, ...] | None = ()
    containers: tuple[_Container, ...] | None = ()


class _Meta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None


@dataclass(frozen=True)
class TemplateFacts:
    """What the controller needs from the Pod templates before there is a Pod."""

    service_accounts: tuple[str, ...]
    """The service accounts of the Pods that have a barrier, sorted."""
    waits_for_arrival: bool
    """A template asks, by annotation or in a barrier of its own, to wait until all Tasks have arrived."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that each Pod of a role asks for, of the roles that do."""
    restart_policy: Policy | None = None
    """Of a gang that restarts in place."""
    restart_problem: str = ""
    """Why it cannot be as the templates ask for, "" if it can."""


def _has_barrier(template: _Template) -> bool:
    """Report whether the injector will add a barrier to the Pod, or its template has one of its own."""
    labels = (template.metadata.labels if template.metadata else None) or {}
    pod = template.spec or _PodSpec()
    containers = (*(pod.init_containers or ()), *(pod.containers or ()))
    return labels.get(names.BARRIER_LABEL) == "enabled" or any(container.is_barrier for container in containers)


def facts_of(spec: FrameworkSpec) -> TemplateFacts:
    """Read the templates. One that cannot be decoded is skipped; its error is reported when its Pods are created."""
    accounts, arrival, gpus = set(), False, dict[str, int]()
    with_barrier: list[tuple[str, Mapping[str, str]]] = []
    begins: list[tuple[str, tuple[Dependency, ...]]] = []
    for role in spec.task_roles or ():
        try:
            template = msgspec.json.decode(role.task.pod, type=_Template)
        except (msgspec.MsgspecError, RecursionError):
            continue
        pod = template.spec or _PodSpec()
        annotations = (template.metadata.annotations if template.metadata else None) or {}
        if _has_barrier(template):
            accounts.add(pod.service_account_name or "default")
            with_barrier.append((role.name, annotations))
            begins.append((role.name, role.depends_on or ()))
        if count := sum(container.gpus for container in pod.containers or ()):
            gpus[role.name] = count
        arrival = (
            arrival
            or annotations_ask_for_arrival(annotations)
            or any(container.asks_for_arrival for container in pod.init_containers or ())
        )
    policy, problem = read_policy(with_barrier)
    if policy is not None and (problem := read_starts(begins)):
        policy = None
    return TemplateFacts(tuple(sorted(accounts)), arrival or policy is not None, gpus, policy, problem)
