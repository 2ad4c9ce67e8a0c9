"""From a role's Pod template to the Pods of its Tasks (source: the Framework API, section 4).

A template is worked on once per Framework attempt and role: decoded, completed with owner, labels, annotations and
environment, encoded again and cut at the places where a Task's own values go. A Task's Pod is then a join of bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from frameworkcontroller.api import names

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkSpec

# Everything that differs between the Tasks of a role in one Framework attempt.
PER_TASK: Final = (names.TASK_INDEX, names.POD_NAME, names.TASK_UID, names.TASK_ATTEMPT_ID)


class TemplateError(ValueError):
    """The template cannot become a Pod; the message names the field."""


@dataclass(frozen=True)
class AttemptNames:
    """What all Pods of a role share in one Framework attempt."""

    namespace: str
    framework: str
    framework_uid: str
    framework_attempt_id: int
    config_map_uid: str
    role: str
    role_uid: str

    @property
    def values(self) -> dict[str, str]:
        """By the names under which Pods know them."""
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
    """The Pod of one role, ready to be made for any of its Tasks."""

    def __init__(self, template: bytes, attempt: AttemptNames) -> None:
        self._attempt = attempt
        shared = attempt.values
        text = _substitute(template.decode(), {name: shared[name] for name in names.PLACEHOLDERS if name in shared})
        # The user's {{FC_TASK_INDEX}} and {{FC_POD_NAME}} serve as marks as they are; ours cannot be written by a user,
        # because nobody knows the Framework's UID when writing its template.
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
        """The JSON of one Task's Pod."""
        values = {
            names.TASK_INDEX: str(index).encode(),
            names.POD_NAME: names.pod_name(self._attempt.framework, self._attempt.role, index).encode(),
            names.TASK_UID: task_uid.encode(),
            names.TASK_ATTEMPT_ID: str(task_attempt_id).encode(),
        }
        parts = [self._literals[0]]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            parts += (values[name], literal)
        return b"".join(parts)


def _substitute(text: str, values: dict[str, str]) -> str:
    # Names, UIDs and numbers need no escaping in JSON, so the encoded text can be worked on as it is.
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _complete(pod: dict[str, Any], values: dict[str, str], attempt: AttemptNames) -> None:
    """Add everything that makes the template a Pod of this Framework attempt."""
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
    labels = _object(_own(metadata, "labels", {}), "metadata.labels")
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
    """The value at ``key``, made if it is absent or null."""
    if parent.get(key) is None:
        parent[key] = empty
    return parent[key]


def _or_empty(value: object) -> object:
    """A list that is absent or null is empty; anything else is what it is."""
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


class _InitContainer(msgspec.Struct, frozen=True):
    name: str = ""
    env: tuple[_Variable, ...] | None = ()
    command: tuple[str, ...] | None = ()
    args: tuple[str, ...] | None = ()

    @property
    def waits_for_arrival(self) -> bool:
        """Whether it is a barrier that was told, by flag or variable, to wait until its peers have arrived."""
        if self.name != names.BARRIER_CONTAINER:
            return False
        words = (*(self.command or ()), *(self.args or ()))
        flag = names.BARRIER_WAIT_FOR_FLAG
        return (
            f"{flag}={names.ARRIVED}" in words
            or (flag, names.ARRIVED) in pairwise(words)
            or any(one.name == names.BARRIER_WAIT_FOR and one.value == names.ARRIVED for one in self.env or ())
        )


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    service_account_name: str | None = None
    init_containers: tuple[_InitContainer, ...] | None = ()


class _Meta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None


@dataclass(frozen=True)
class TemplateFacts:
    """What the Pod templates of a Framework say that is of use before there is a Pod."""

    service_accounts: tuple[str, ...]
    """That its Pods run as, sorted."""
    waits_for_arrival: bool
    """One of its Pods asks, by annotation or in a barrier of its own, that all have arrived."""


def facts_of(spec: FrameworkSpec) -> TemplateFacts:
    """Read the templates; one that cannot be read says nothing here, and says why when its Pods are created."""
    accounts, arrival = set(), False
    for role in spec.task_roles or ():
        try:
            template = msgspec.json.decode(role.task.pod, type=_Template)
        except (msgspec.MsgspecError, RecursionError):
            continue
        pod = template.spec or _PodSpec()
        accounts.add(pod.service_account_name or "default")
        annotations = (template.metadata.annotations if template.metadata else None) or {}
        arrival = (
            arrival
            or annotations.get(names.BARRIER_WAIT_FOR_ANNOTATION) == names.ARRIVED
            or any(container.waits_for_arrival for container in pod.init_containers or ())
        )
    return TemplateFacts(tuple(sorted(accounts)), arrival)
