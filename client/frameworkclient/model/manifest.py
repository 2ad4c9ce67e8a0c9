"""Frameworks as people write them in Python: `Framework`, `Role` and their policies, to and from YAML.

The fields are those of docs/reference/framework-api.md, section 2, in the spelling of Python. The API server validates;
what is checked here is only what could not be written down.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

import msgspec

from frameworkclient.errors import ManifestError, nearest
from frameworkclient.model import functions, yaml_text
from frameworkclient.model.code import Code
from frameworkclient.model.pod_template import given, pod_template
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod_group import GangScheduling
from frameworkcontroller.api.spec import (
    CompletionPolicy,
    Dependency,
    FrameworkSpec,
    RetryPolicy,
    TaskRoleSpec,
    TaskSpec,
)

__all__ = ["CompletionPolicy", "Dependency", "Framework", "GangScheduling", "RetryPolicy", "Role"]

P = TypeVar("P", bound=Wire)

ARGUMENTS: Final = tuple(inspect.signature(pod_template).parameters)
"""Of `pod_template`."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Role:
    """A TaskRole: a number of Tasks that share one Pod template. Each Task is one Pod.

    Attributes:
        name: 1 to 63 lower-case letters and digits.
        task_number: Tasks, 0 to 10,000.
        pod: The PodTemplateSpec, as in YAML. `Role.container` and `Role.function` make one.
        retry_policy: When the end of a Task is retried; by default never.
        completion_policy: How many Tasks that end complete the attempt of the Framework; by default one that fails.
        pod_graceful_deletion_timeout_sec: Seconds after which a Pod under deletion is deleted by force, at the cost of
            the guarantee that no two instances of a Task run; None: never.
        depends_on: Roles that must be `Ready` or `Complete` before this one gets Pods.
        code: Files that its Pods find where they start; `create` brings them, and no manifest has them.
    """

    name: str
    task_number: int
    pod: Mapping[str, Any]
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    completion_policy: CompletionPolicy = field(default_factory=CompletionPolicy)
    pod_graceful_deletion_timeout_sec: int | None = None
    depends_on: Sequence[Dependency] = ()
    code: Code | None = None

    @classmethod
    def container(
        cls,
        name: str,
        task_number: int = 1,
        *,
        image: str,
        retry_policy: RetryPolicy | None = None,
        completion_policy: CompletionPolicy | None = None,
        depends_on: Sequence[Dependency] = (),
        code: Code | None = None,
        **pod: Any,
    ) -> Self:
        """Return a role whose Pods have one container.

        Args:
            name: Of the role.
            task_number: Tasks, 0 to 10,000.
            image: Of the container.
            retry_policy: When the end of a Task is retried; by default never.
            completion_policy: How many Tasks that end complete the attempt of the Framework.
            depends_on: Roles that must be `Ready` or `Complete` before this one gets Pods.
            code: Files of this machine, of `read_code`; the container starts where they are.
            **pod: What else `pod_template` takes: `command`, `args`, `packages`, `preset`, `env`, `cpu`, `memory`,
                `gpus`, `gpu_resource`, `volumes`, `shm`, `node_selector`, `tolerations`, `service_account`,
                `pull_secrets`, `working_dir`, `user`, `restricted`, `labels`, `annotations`.

        Raises:
            ManifestError: An argument is not valid, or there is none of this name; the message names it.
        """
        for key in pod:
            if key not in ARGUMENTS:
                raise ManifestError(f"{key}: there is no such argument; {nearest(key, ARGUMENTS)}")
        return cls(
            name,
            task_number,
            pod_template(image=image, code=code.name if code else "", **pod),
            retry_policy=retry_policy or RetryPolicy(),
            completion_policy=completion_policy or CompletionPolicy(),
            depends_on=depends_on,
            code=code,
        )

    @classmethod
    def function(
        cls,
        name: str,
        task_number: int,
        function: Callable[..., Any],
        arguments: Mapping[str, Any] | None = None,
        **container: Any,
    ) -> Self:
        """Return a role whose Pods call a Python function: its source is sent, so it imports what it uses itself.

        Args:
            name: Of the role.
            task_number: Tasks, 0 to 10,000.
            function: Defined by `def` at the top level of a module or of a notebook's cell.
            arguments: Keyword arguments of the function: numbers, text, lists and dictionaries.
            **container: What `Role.container` takes, `image` above all; the image needs `python3`, and `pip` with
                `packages`, which the function may import.

        Raises:
            ManifestError: The function or an argument cannot be sent; the message says why.
        """
        return cls.container(name, task_number, command=functions.command_of(function, arguments), **container)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `taskRoles`, without what is the default."""
        task = {
            "retryPolicy": _changed(self.retry_policy),
            "podGracefulDeletionTimeoutSec": self.pod_graceful_deletion_timeout_sec,
        }
        return {
            "name": self.name,
            "taskNumber": self.task_number,
            **given(frameworkAttemptCompletionPolicy=_changed(self.completion_policy)),
            **given(dependsOn=[msgspec.to_builtins(one) for one in self.depends_on]),
            "task": {**given(**task), "pod": dict(self.pod)},
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], where: str = "taskRoles[0]") -> Self:
        """Return the role of an entry of `taskRoles`.

        Args:
            entry: As decoded from JSON or YAML.
            where: The path of the entry, for messages.

        Raises:
            ManifestError: A field is missing, unknown, or of a wrong type.
        """
        role = _known(entry, TaskRoleSpec, where)
        task = _known(role.get("task"), TaskSpec, f"{where}.task")
        return cls(
            _required(role, "name", str, where),
            _optional(role, "taskNumber", int, where, 0),
            _required(task, "pod", dict, f"{where}.task"),
            retry_policy=_policy(task, "retryPolicy", RetryPolicy, f"{where}.task"),
            completion_policy=_policy(role, "frameworkAttemptCompletionPolicy", CompletionPolicy, where),
            pod_graceful_deletion_timeout_sec=_optional(
                task, "podGracefulDeletionTimeoutSec", int | None, f"{where}.task"
            ),
            depends_on=_optional(role, "dependsOn", tuple[Dependency, ...], where, ()),
        )


@dataclass(frozen=True)
class Framework:
    """A job: roles of Tasks that run, fail, retry and complete together.

    Attributes:
        name: 1 to 63 lower-case letters and digits.
        roles: Its TaskRoles; their Pods are created together unless `depends_on` says otherwise.
        namespace: "" for that of the client.
        labels: Of the Framework itself.
        annotations: Of the Framework itself.
        description: For people; None for none.
        execution_type: `Start` runs it; `Create` waits until somebody starts it; `Stop` ends it.
        retry_policy: When the end of an attempt of the whole Framework is retried; by default never.
        active_deadline_seconds: Seconds from its first running Task until it fails; None: no deadline.
        ttl_seconds_after_finished: Seconds from its end until it is deleted; None: the controller's setting.
        retain_pods: Which Pods stay after the end of their Task, with their logs: `Never`, `OnFailure` or `Always`.
        suspend: It waits, with no attempt, until it is resumed.
        gang_scheduling: In which groups a scheduler places its Pods; None: as the controller is configured.
    """

    name: str
    roles: Sequence[Role]
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    execution_type: str = "Start"
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    retain_pods: str = "Never"
    suspend: bool = False
    gang_scheduling: GangScheduling | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest, without what is the default."""
        metadata = given(namespace=self.namespace, labels=dict(self.labels), annotations=dict(self.annotations))
        spec = given(
            description=self.description,
            executionType="" if self.execution_type == "Start" else self.execution_type,
            retryPolicy=_changed(self.retry_policy),
            activeDeadlineSeconds=self.active_deadline_seconds,
            ttlSecondsAfterFinished=self.ttl_seconds_after_finished,
            retainPods="" if self.retain_pods == "Never" else self.retain_pods,
            suspend=self.suspend or None,
            gangScheduling=msgspec.to_builtins(self.gang_scheduling),
        )
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": self.name, **metadata},
            "spec": {**spec, "taskRoles": [role.to_dict() for role in self.roles]},
        }

    def to_yaml(self) -> str:
        """Return the manifest as YAML."""
        return yaml_text.dump(self.to_dict())

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> Self:
        """Return the Framework of a manifest; its status, and what the API server adds to metadata, is left out.

        Raises:
            ManifestError: It is no Framework, or a field is missing, unknown, or of a wrong type.
        """
        kind, version = manifest.get("kind"), manifest.get("apiVersion")
        if (version, kind) != (names.API_VERSION, names.KIND):
            raise ManifestError(
                f"apiVersion and kind: must be {names.API_VERSION} and {names.KIND}, not {version} and {kind}"
            )
        metadata = _object(manifest.get("metadata"), "metadata")
        spec = _known(manifest.get("spec"), FrameworkSpec, "spec")
        _known(spec.get("gangScheduling") or {}, GangScheduling, "spec.gangScheduling")
        roles = spec.get("taskRoles") or []
        if not isinstance(roles, list):
            raise ManifestError("spec.taskRoles: must be a list")
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop(LAST_APPLIED, None)
        return cls(
            _required(metadata, "name", str, "metadata"),
            tuple(Role.from_dict(role, f"spec.taskRoles[{number}]") for number, role in enumerate(roles)),
            namespace=metadata.get("namespace") or "",
            labels=dict(metadata.get("labels") or {}),
            annotations=annotations,
            description=_optional(spec, "description", str | None, "spec"),
            execution_type=_optional(spec, "executionType", str, "spec", "Start"),
            retry_policy=_policy(spec, "retryPolicy", RetryPolicy, "spec"),
            active_deadline_seconds=_optional(spec, "activeDeadlineSeconds", int | None, "spec"),
            ttl_seconds_after_finished=_optional(spec, "ttlSecondsAfterFinished", int | None, "spec"),
            retain_pods=_optional(spec, "retainPods", str, "spec", "Never"),
            suspend=_optional(spec, "suspend", bool, "spec", default=False),
            gang_scheduling=_optional(spec, "gangScheduling", GangScheduling | None, "spec"),
        )

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """Return the Framework of a manifest in YAML or JSON.

        Raises:
            ManifestError: It is not valid; the message names the line or the field.
        """
        found = list(yaml_text.documents(text, "the manifest"))
        if len(found) != 1:
            raise ManifestError(f"the manifest: has {len(found)} documents; give one")
        return cls.from_dict(_object(found[0], "the manifest"))


def _changed(policy: Wire) -> dict[str, Any]:
    """Return the fields of a policy that are not the default, by their names in the API."""
    default, found = msgspec.to_builtins(type(policy)()), msgspec.to_builtins(policy)
    return {key: value for key, value in found.items() if value != default[key]}


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError(f"{where}: {'is missing' if value is None else 'must be an object'}")
    return value


def _known(value: Any, kind: type[Wire], where: str) -> dict[str, Any]:
    """Return an object that has no other fields than a kind of the API."""
    found, fields = _object(value, where), [one.encode_name for one in msgspec.structs.fields(kind)]
    for key in found:
        if key not in fields:
            raise ManifestError(f"{where}.{key}: there is no such field; {nearest(str(key), fields)}")
    return found


def _policy(parent: Mapping[str, Any], key: str, kind: type[P], where: str) -> P:
    value = parent.get(key)
    _known({} if value is None else value, kind, f"{where}.{key}")
    found: P = _optional(parent, key, kind, where, kind())
    return found


def _required(parent: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if parent.get(key) is None:
        raise ManifestError(f"{where}.{key}: is missing")
    return _optional(parent, key, kind, where)


def _optional(parent: Mapping[str, Any], key: str, kind: Any, where: str, default: Any = None) -> Any:
    """Return a field, and the default in place of one that is missing or null."""
    if parent.get(key) is None:
        return default
    try:
        return msgspec.convert(parent[key], kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}.{key}: {error}") from error
