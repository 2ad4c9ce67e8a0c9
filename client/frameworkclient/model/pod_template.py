"""Pod templates of one container, made from what people say about a job: image, command, resources, volumes.

`Role.container` and the command `run` use it. Who needs more writes the template: `Role(pod=...)`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from frameworkclient.errors import ManifestError
from frameworkclient.model.functions import with_packages
from frameworkcontroller.api import names

CONTAINER: Final = "main"
PRESET_ANNOTATION: Final = f"barrier.{names.GROUP}/preset"
DEFAULT_GPU: Final = "nvidia.com/gpu"
_QUANTITY: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?(m|k|Ki|[MGTPE]i?)?")
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_TOLERATION: Final = re.compile(
    r"(?P<key>[^=:\s]+)(=(?P<value>[^=:\s]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)
_CLAIM: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def pod_template(
    *,
    image: str,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    packages: Sequence[str] = (),
    code: str = "",
    preset: str = "",
    env: Mapping[str, str] | None = None,
    cpu: str = "",
    memory: str = "",
    gpus: int = 0,
    gpu_resource: str = DEFAULT_GPU,
    volumes: Sequence[str] = (),
    shm: str = "",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[str] = (),
    service_account: str = "",
    pull_secrets: Sequence[str] = (),
    working_dir: str = "",
    user: int | None = None,
    restricted: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a PodTemplateSpec with one container, `main`, which is not restarted in place.

    Args:
        image: Of the container.
        command: Instead of the image's entry point.
        args: Its arguments.
        packages: What `pip install` gets before the command starts: names, or `-r` and a file of the code.
        code: A ConfigMap with files that the command finds where it starts, as `Code.config_map` makes one.
        preset: Of the barrier, such as `pytorch`: the Pods wait for one another and get its variables. "" for no
            barrier.
        env: Variables.
        cpu: Cores, such as `2` or `500m`; requested, and the limit.
        memory: Such as `4Gi`; requested, and the limit.
        gpus: GPUs of each Pod.
        gpu_resource: What the cluster calls a GPU.
        volumes: PersistentVolumeClaims and where they are mounted: `claim:/path`, or `claim:/path:ro`.
        shm: Size of /dev/shm, such as `8Gi`, which counts as memory of the Pod; "" for the runtime's, often 64 MiB.
        node_selector: Labels that a node must have.
        tolerations: Taints of nodes that do not matter: `key`, `key=value`, each with `:NoSchedule` or another effect.
        service_account: Of the Pods; "" for the namespace's default.
        pull_secrets: Secrets for the registry of the image.
        working_dir: In which the command starts; "" for the image's.
        user: Number of the user that runs the command; None for the image's.
        restricted: Whether the Pods keep to the *restricted* Pod Security Standard.
        labels: Of the Pods.
        annotations: Of the Pods.

    Raises:
        ManifestError: An argument is not valid; the message names it.
    """
    if not image.strip():
        raise ManifestError("image: must not be empty")
    variables = [{"name": _variable(name), "value": value} for name, value in (env or {}).items()]
    resources = _resources(cpu, memory, gpus, gpu_resource)
    claims = [_claim(volume) for volume in volumes]
    distinct = dict.fromkeys(claim for claim, _, _ in claims)
    name_of = {claim: f"volume{number}" for number, claim in enumerate(distinct)}
    mounts = [
        given(name=name_of[claim], mountPath=path, readOnly=read_only or None) for claim, path, read_only in claims
    ]
    mounted = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in name_of.items()]
    if shm:
        if not _QUANTITY.fullmatch(shm):
            raise ManifestError(f"shm: {shm!r} is not an amount; write it like 8Gi")
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 -- where programs look for it
        mounted.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}})
    container = given(
        name=CONTAINER,
        image=image,
        command=with_packages(packages, command) if packages else list(command),
        args=list(args),
        workingDir=working_dir or (names.CODE_DIR if code else ""),
        env=variables,
        resources=given(requests=dict(resources), limits=dict(resources)),
        volumeMounts=mounts,
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}} if restricted else {},
    )
    security = given(runAsUser=user, runAsNonRoot=restricted or None)
    spec = given(
        restartPolicy="Never",
        containers=[container],
        volumes=mounted,
        nodeSelector=dict(node_selector or {}),
        tolerations=[_toleration(one) for one in tolerations],
        serviceAccountName=service_account,
        imagePullSecrets=[{"name": name} for name in pull_secrets],
        securityContext=security | ({"seccompProfile": {"type": "RuntimeDefault"}} if restricted else {}),
    )
    all_labels, all_annotations = dict(labels or {}), dict(annotations or {})
    if preset or code:
        all_labels[names.BARRIER_LABEL] = "enabled"
        all_annotations |= given(**{PRESET_ANNOTATION: preset, names.CODE_ANNOTATION: code})
    return given(metadata=given(labels=all_labels, annotations=all_annotations), spec=spec)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not empty; 0 is not."""
    return {key: value for key, value in fields.items() if value not in (None, "", {}, [])}


def _resources(cpu: str, memory: str, gpus: int, gpu_resource: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, amount in (("cpu", cpu), ("memory", memory)):
        if amount:
            if not _QUANTITY.fullmatch(amount):
                raise ManifestError(f"{name}: {amount!r} is not an amount; write it like 2, 500m or 4Gi")
            found[name] = amount
    if gpus < 0:
        raise ManifestError(f"gpus: must be 0 or more, not {gpus}")
    if gpus:
        found[gpu_resource] = gpus
    return found


def _toleration(text: str) -> dict[str, str]:
    found = _TOLERATION.fullmatch(text)
    if found is None:
        raise ManifestError(f"toleration: {text!r} must be KEY or KEY=VALUE, and :EFFECT if not all effects are meant")
    key, value, effect = found["key"], found["value"], found["effect"]
    return given(key=key, operator="Exists" if value is None else "Equal", value=value, effect=effect)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ManifestError(f"env: {name!r} is not the name of a variable; use letters, digits and _")
    return name


def _claim(volume: str) -> tuple[str, str, bool]:
    claim, _, rest = volume.partition(":")
    path, _, mode = rest.partition(":")
    if not _CLAIM.fullmatch(claim) or not path.startswith("/") or mode not in {"", "ro"}:
        raise ManifestError(
            f"volume: {volume!r} must be CLAIM:/path or CLAIM:/path:ro, where CLAIM is a PersistentVolumeClaim"
        )
    return claim, path, mode == "ro"
