"""The barrier container and its volumes, as JSON: what a Pod's settings and annotations become.

The folder of the barrier's files is a volume of its own, mounted read only, and must not meet what a container has at
the same path. A volume of the user above it would get a directory for the mount point, or would keep the container from
starting if it is read only; the mount point of a volume below it cannot be made.
Source: docs/reference/injector.md, section 1.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from frameworkbarrier import values
from frameworkbarrier.presets import model as presets
from frameworkbarrier.settings import DEFAULT_TERMINATION_LOG, EXIT_HELD, SETTINGS
from frameworkcontroller.api import names as fc
from frameworkinjector import names
from frameworkinjector.review import resources, sidecar, workload
from frameworkinjector.review.config import DEFAULT_UID, Config, EnvFiles
from frameworkinjector.review.pod import JSON, Container, Pod
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.resources import Claims
from frameworkinjector.review.settings import PodSettings

TOKEN_SECONDS: Final = 3600
PROBE_PERIOD_SECONDS: Final = 1
PROBE_WAIT_SECONDS: Final = 50
HELD_PERIOD_SECONDS: Final = 2
"""Two looks later the kubelet knows that the application wants to end."""
# The startup probe of a sidecar must outlast the barrier's timeout.
PROBE_SLACK_SECONDS: Final = 60
_FOLDER_ANNOTATION: Final = f"{names.PREFIX}{SETTINGS['output_dir'].annotation}"
# Where the barrier's image, any image, the kernel or the kubelet has files. `/var` and `/` are above some of them.
RESERVED_FOLDERS: Final = (
    "/app", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var/run",
)  # fmt: skip


def container(pod: Pod, settings: PodSettings, config: Config, env_files: EnvFiles, *, names_resolve: bool) -> JSON:
    """Build the whole barrier container; `names_resolve` if the hosts file is mounted in every chosen container."""
    read_only = {names.TOKEN_VOLUME: names.TOKEN_DIR}
    if settings.template:
        read_only[names.TEMPLATE_VOLUME] = names.TEMPLATE_DIR
    if settings.code:
        read_only[names.ARCHIVE_VOLUME] = names.ARCHIVE_DIR
    built: JSON = {
        "name": names.CONTAINER,
        "image": settings.image or config.barrier_image,
        "imagePullPolicy": config.pull_policy.value,
        "env": [
            *_identity(pod),
            *_peers(pod, settings, config),
            *_options(settings, env_files, names_resolve=names_resolve),
            *_definitions(settings, config),
        ],
        "resources": resources.decide(
            pod,
            Claims(settings.requests, settings.limits),
            resources.with_collector(config.resources) if settings.barrier.progress else config.resources,
            sidecar=settings.barrier.mode == "sidecar",
        ),
        # The controller reads the last line from the Pod's status either way.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            **({} if (uid := _uid(pod, config)) is None else {"runAsUser": uid}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": names.VOLUME, "mountPath": settings.barrier.output_dir},
            *({"name": name, "mountPath": path, "readOnly": True} for name, path in read_only.items()),
            *writable_mounts(settings),
        ],
    }
    if settings.barrier.mode == "sidecar":
        built["restartPolicy"] = "Always"
        built["startupProbe"] = _startup_probe(settings)
    if settings.barrier.exit:
        built["readinessProbe"] = {
            "exec": {"command": ["test", "!", "-e", f"{settings.barrier.output_dir}/{EXIT_HELD}"]},
            "periodSeconds": HELD_PERIOD_SECONDS,
            "timeoutSeconds": PROBE_PERIOD_SECONDS * 10,
            "failureThreshold": 2,
        }
    if settings.barrier.restart:
        built["restartPolicyRules"] = list(sidecar.BARRIER_RULES)
    return built


def writable_mounts(settings: PodSettings) -> list[JSON]:
    """Build the mounts of the folders in which both write: the application's code, and how far it is."""
    found: list[JSON] = []
    if settings.code:
        found.append({"name": names.CODE_VOLUME, "mountPath": settings.barrier.code_dir})
    if settings.barrier.progress:
        found.append({"name": names.PROGRESS_VOLUME, "mountPath": settings.barrier.progress_dir})
    return found


def volumes(settings: PodSettings) -> tuple[JSON, ...]:
    """Build the volumes that the barrier needs."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
    found: list[JSON] = [
        {"name": names.VOLUME, "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": names.TOKEN_VOLUME, "projected": {"sources": [token, authority, namespace]}},
    ]
    if settings.template:
        found.append({"name": names.TEMPLATE_VOLUME, "configMap": {"name": settings.template}})
    if settings.code:
        found.append({"name": names.CODE_VOLUME, "emptyDir": {}})
        found.append({"name": names.ARCHIVE_VOLUME, "configMap": {"name": settings.code}})
    if settings.barrier.progress:
        found.append({"name": names.PROGRESS_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}})
    return tuple(found)


def pull_secrets(pod: Pod, config: Config) -> tuple[JSON, ...]:
    """Build the entries of imagePullSecrets that the Pod lacks; those of its service account are in it already."""
    own = {one.name for one in pod.spec.image_pull_secrets or ()}
    return tuple({"name": name} for name in dict.fromkeys(config.pull_secrets) if name not in own)


def refuse_reserved_folder(settings: PodSettings) -> None:
    """Refuse a folder that would hide files which the barrier or the application needs.

    Raises:
        RefusalError: The folder is one of these, or above or below one.
    """
    path = settings.barrier.output_dir
    taken = [*RESERVED_FOLDERS, *(mount["mountPath"] for mount in writable_mounts(settings))]
    for reserved in taken:
        if _overlap(path, reserved):
            expected = f"a path outside of {', '.join(taken)}"
            raise RefusalError(Reason.BAD_VALUE, annotation=_FOLDER_ANNOTATION, value=shown(path), expected=expected)


def refuse_overlap(one: Container, folders: Sequence[str]) -> None:
    """Refuse a container that has a mount of its own at, above or below one of the folders.

    Raises:
        RefusalError: It has one.
    """
    for mount in one.volume_mounts or ():
        own = mount.path
        for folder in folders:
            if _overlap(folder, own):
                raise RefusalError(
                    Reason.FOLDER_OVERLAPS, container=shown(one.name), path=shown(mount.mount_path), folder=folder
                )


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other.rstrip('/')}/") or f"{other}/".startswith(f"{one}/")


def _uid(pod: Pod, config: Config) -> int | None:
    """Return the user of the barrier: never root, also in a Pod that runs as root."""
    own = pod.spec.security_context.run_as_user if pod.spec.security_context else None
    return config.uid if own is None else own or DEFAULT_UID


def _literal(name: str, value: str) -> JSON:
    # The kubelet expands $(NAME) in values; text of annotations must stay as it is.
    return {"name": name, "value": value.replace("$", "$$")}


def _field(name: str, path: str) -> JSON:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _identity(pod: Pod) -> Iterator[JSON]:
    """Yield who this Pod is: the variables that the controller sets in the containers of its Pod templates.

    The barrier is added after the controller has built the Pod, so they come from the annotations, which say the same.
    """
    framework = pod.framework_name
    if not framework:
        # `render` puts it into a template, which may be applied to any namespace.
        yield _field(fc.FRAMEWORK_NAMESPACE, "metadata.namespace")
        yield _field(fc.POD_NAME, "metadata.name")
        yield _field(fc.POD_UID, "metadata.uid")
        return
    derived = {fc.FRAMEWORK_NAME: framework, fc.CONFIGMAP_NAME: fc.config_map_name(framework)}
    for name in fc.POD_ANNOTATIONS:
        value = pod.annotations.get(name) or pod.labels.get(name) or derived.get(name)
        if value:
            yield _literal(name, value)
        elif name == fc.FRAMEWORK_NAMESPACE:
            yield _field(name, "metadata.namespace")
    yield _field(fc.POD_UID, "metadata.uid")
    attempt = pod.annotations.get(fc.TASK_ATTEMPT_ID)
    if attempt:
        prefix = _literal(fc.TASK_ATTEMPT_INSTANCE_UID, attempt)
        yield {**prefix, "value": fc.attempt_instance_uid(prefix["value"], f"$({fc.POD_UID})")}


def _peers(pod: Pod, settings: PodSettings, config: Config) -> Iterator[JSON]:
    """Yield where the barrier finds a gang that the labels of the Pod name, if no annotation does."""
    if pod.framework_name:
        return
    gang, labels = workload.peers_of(pod, settings, config)
    for variable, label in labels.items():
        yield _field(variable, f"metadata.labels['{label}']")
    if gang:
        yield {"name": SETTINGS["roster"].env, "value": fc.config_map_name(gang)}
    elif labels:
        selector = ",".join(f"{label}=$({variable})" for variable, label in labels.items())
        yield {"name": SETTINGS["selector"].env, "value": selector}


def _options(settings: PodSettings, env_files: EnvFiles, *, names_resolve: bool) -> Iterator[JSON]:
    """Yield the barrier's settings; what neither the Pod nor the injector sets is left to the barrier's defaults.

    Names survive the retry of a peer, because a sidecar keeps the hosts file up to date, so they are better there.
    """
    others: dict[str, str] = {}
    if settings.template:
        others["template_dir"] = names.TEMPLATE_DIR
    if settings.code:
        others["code_archive"] = f"{names.ARCHIVE_DIR}/{fc.CODE_KEY}"
    if env_files is not EnvFiles.NONE:
        others["env_syntax"] = env_files.value
    if names_resolve and settings.barrier.mode == "sidecar":
        others["addresses"] = "name"
    for name, setting in SETTINGS.items():
        if name == "mode" or setting.annotation in settings.given:
            yield _literal(setting.env, values.as_text(getattr(settings.barrier, name)))
        elif name in others:
            yield _literal(setting.env, others[name])


def _definitions(settings: PodSettings, config: Config) -> Iterator[JSON]:
    """Yield the definitions of the operator's presets that the Pod has chosen: the barrier knows no others."""
    chosen = [config.presets[name] for name in settings.barrier.presets if name in config.presets]
    if chosen:
        yield _literal(SETTINGS["preset_definitions"].env, presets.encode(chosen))


def _startup_probe(settings: PodSettings) -> JSON:
    """Build the probe that holds the application back until the file `generation` shows that the gate is open.

    The barrier locks its folder while it waits. The probe waits for the lock, so that it needs one process in many
    seconds, and succeeds in the moment in which the gate opens. A probe of a port would meet other Pods in the node's
    network, and the proxies of meshes.
    """
    folder = settings.barrier.output_dir
    wait = settings.barrier.timeout_sec + PROBE_SLACK_SECONDS
    test = ["-s", f"{folder}/generation"]
    if settings.barrier.restart:
        # The file of the epoch before is there until the barrier runs. The kubelet makes a new termination log with
        # each start of a container.
        test = [f"{folder}/generation", "-nt", DEFAULT_TERMINATION_LOG]
    return {
        "exec": {"command": ["flock", "-s", "-w", str(PROBE_WAIT_SECONDS), folder, "test", *test]},
        "periodSeconds": PROBE_PERIOD_SECONDS,
        "timeoutSeconds": PROBE_WAIT_SECONDS + PROBE_PERIOD_SECONDS * 10,
        # As if each probe ended at once, as it does until the barrier has the lock.
        "failureThreshold": wait // PROBE_PERIOD_SECONDS,
    }
