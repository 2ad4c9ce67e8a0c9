"""The barrier container and its volumes, as JSON: what a Pod's settings and annotations become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frameworkcontroller.api import names as fc
from frameworkinjector import names
from frameworkinjector.config import EnvFiles
from frameworkinjector.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frameworkinjector.config import Config
    from frameworkinjector.pod import Pod
    from frameworkinjector.settings import Settings

JSON = dict[str, Any]

# The image's own user. Never root: a Pod that runs as root says nothing about the barrier.
DEFAULT_UID: Final = 65532
TOKEN_SECONDS: Final = 3600
# FC's default (BARRIER_CHECK_TIMEOUT_SEC); the startup probe of a sidecar must outlast it.
DEFAULT_TIMEOUT_SECONDS: Final = 600
PROBE_PERIOD_SECONDS: Final = 1
PROBE_SLACK_SECONDS: Final = 60


def framework_name(pod: Pod) -> str:
    """The Framework that made the Pod, "" if none did."""
    return pod.annotations.get(fc.FRAMEWORK_NAME) or pod.labels.get(fc.FRAMEWORK_NAME, "")


def container(pod: Pod, namespace: str, settings: Settings, config: Config, env_files: EnvFiles) -> JSON:
    """The barrier container, whole. ``namespace`` is that of the request: the Pod need not carry its own."""
    built: JSON = {
        "name": names.CONTAINER,
        "image": settings.image or config.barrier_image,
        "imagePullPolicy": config.pull_policy.value,
        "env": [*_identity(pod, namespace), *_options(settings, env_files)],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        # FallbackToLogsOnError: the controller reads the last line from the Pod's status either way.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _uid(pod),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": names.VOLUME, "mountPath": names.OUTPUT_DIR},
            {"name": names.TOKEN_VOLUME, "mountPath": names.TOKEN_DIR, "readOnly": True},
        ],
    }
    if settings.template:
        mount = {"name": names.TEMPLATE_VOLUME, "mountPath": names.TEMPLATE_DIR, "readOnly": True}
        built["volumeMounts"].append(mount)
    if settings.mode is Mode.SIDECAR:
        built["restartPolicy"] = "Always"
        built["startupProbe"] = _startup_probe(settings)
    return built


def volumes(settings: Settings) -> tuple[JSON, ...]:
    """The volumes that the barrier needs."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
    found: list[JSON] = [
        {"name": names.VOLUME, "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": names.TOKEN_VOLUME, "projected": {"sources": [token, authority, namespace]}},
    ]
    if settings.template:
        found.append({"name": names.TEMPLATE_VOLUME, "configMap": {"name": settings.template}})
    return tuple(found)


def _uid(pod: Pod) -> int:
    security = pod.spec.security_context
    return (security.run_as_user if security else None) or DEFAULT_UID


def _literal(name: str, value: str) -> JSON:
    # The kubelet expands $(NAME) in values; what comes from annotations must stay what it is.
    return {"name": name, "value": value.replace("$", "$$")}


def _field(name: str, path: str) -> JSON:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _identity(pod: Pod, namespace: str) -> Iterator[JSON]:
    """Who this Pod is: the same variables that a controller puts into the containers of its templates.

    The barrier is added after the controller wrote the Pod, so they are taken from the annotations, which say the same.
    """
    framework = framework_name(pod)
    if not framework:
        yield _literal(fc.FRAMEWORK_NAMESPACE, namespace)
        yield _field(fc.POD_NAME, "metadata.name")
        yield _field(fc.POD_UID, "metadata.uid")
        return
    derived = {
        fc.FRAMEWORK_NAMESPACE: namespace,
        fc.FRAMEWORK_NAME: framework,
        fc.CONFIGMAP_NAME: fc.config_map_name(framework),
    }
    for name in fc.POD_ANNOTATIONS:
        value = pod.annotations.get(name) or pod.labels.get(name) or derived.get(name)
        if value:
            yield _literal(name, value)
    yield _field(fc.POD_UID, "metadata.uid")
    attempt = pod.annotations.get(fc.TASK_ATTEMPT_ID)
    if attempt:
        prefix = _literal(fc.TASK_ATTEMPT_INSTANCE_UID, attempt)
        yield {**prefix, "value": fc.attempt_instance_uid(prefix["value"], f"$({fc.POD_UID})")}


def _options(settings: Settings, env_files: EnvFiles) -> Iterator[JSON]:
    """The barrier's own settings; what the Pod did not say is left to the barrier's defaults."""
    syntax = "" if env_files is EnvFiles.NONE else env_files.value
    values: tuple[tuple[str, object], ...] = (
        ("FB_MODE", settings.mode.value),
        ("FB_PRESET", ",".join(settings.preset)),
        ("FB_WAIT_FOR", settings.wait_for),
        ("FB_PORTS", _pairs(settings.ports)),
        ("FB_SELECTOR", settings.selector),
        ("FB_ROLES", _pairs(settings.roles)),
        ("FB_ROLE_LABEL", settings.role_label),
        ("FB_SLOTS", settings.slots),
        ("FB_NPROC_PER_NODE", settings.nproc_per_node),
        ("FB_TEMPLATE_DIR", names.TEMPLATE_DIR if settings.template else ""),
        ("FB_ENV_SYNTAX", syntax),
        ("FB_LOG_FORMAT", settings.log_format),
        ("BARRIER_CHECK_TIMEOUT_SEC", settings.timeout),
    )
    for name, value in values:
        if value is not None and value != "":
            yield _literal(name, str(value))


def _pairs(pairs: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{role}={number}" for role, number in pairs)


def _startup_probe(settings: Settings) -> JSON:
    """Holds the application back until the gate is open, which is when the file ``generation`` is there."""
    wait = (settings.timeout or DEFAULT_TIMEOUT_SECONDS) + PROBE_SLACK_SECONDS
    return {
        "exec": {"command": ["test", "-s", f"{names.OUTPUT_DIR}/generation"]},
        "periodSeconds": PROBE_PERIOD_SECONDS,
        "failureThreshold": wait // PROBE_PERIOD_SECONDS,
    }
