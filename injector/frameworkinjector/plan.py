"""The decision: a Pod as received, its settings and the injector's config in, what to add out. No I/O, no clock."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frameworkinjector import barrier, names
from frameworkinjector.config import EnvFiles
from frameworkinjector.errors import RefusalError
from frameworkinjector.presets import variables
from frameworkinjector.reasons import Reason, Verdict, shown, verdict
from frameworkinjector.settings import Delivery, Hosts, Settings, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkinjector.barrier import JSON
    from frameworkinjector.config import Config
    from frameworkinjector.pod import Container, Pod

_LISTED_AT_MOST: Final = 10
_WRAPPER: Final = f"{names.OUTPUT_DIR}/run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """What one container gets.

    Attributes:
        index: Its place in ``spec.containers``.
        name: Its name.
        env: Variables, to stand before its own.
        mounts: Mounts, to stand after its own.
        command: The whole new command if it is wrapped.
        hosts: Whether its /etc/hosts is the barrier's.
        warning: What its author should hear.
    """

    index: int
    name: str
    env: tuple[JSON, ...]
    mounts: tuple[JSON, ...]
    command: tuple[str, ...] | None
    hosts: bool
    warning: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is added to a Pod."""

    barrier: JSON
    volumes: tuple[JSON, ...]
    containers: tuple[ContainerPlan, ...]
    status: JSON
    warnings: tuple[str, ...]


def decide(pod: Pod, namespace: str, config: Config, env_files: EnvFiles) -> Plan | Verdict:
    """What to add to a Pod that is being created in ``namespace``, or why it is left alone.

    Raises:
        RefusalError: The Pod asks for the barrier in a way that cannot work.
    """
    if (reason := _left_alone(pod)) is not None:
        return verdict(reason)
    settings = parse(pod.annotations)
    _refuse_what_cannot_work(pod, settings)
    chosen = _chosen(pod, settings)
    delivery = _delivery(settings, [one for _, one in chosen], env_files)
    plans = tuple(_container_plan(index, one, pod, settings, delivery) for index, one in chosen)
    return Plan(
        barrier=barrier.container(pod, namespace, settings, config, env_files),
        volumes=barrier.volumes(settings),
        containers=plans,
        status={
            "reason": Reason.INJECTED.slug,
            "version": config.version,
            "mode": settings.mode.value,
            "env": delivery.value,
            "containers": [one.name for one in plans],
            "hosts": [one.name for one in plans if one.hosts],
        },
        warnings=tuple(one.warning for one in plans if one.warning),
    )


def _left_alone(pod: Pod) -> Reason | None:
    if pod.labels.get(names.LABEL) != names.LABEL_VALUE:
        return Reason.NOT_OPTED_IN
    if names.MIRROR_ANNOTATION in pod.annotations:
        return Reason.MIRROR_POD
    everybody = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    if any(one.name == names.CONTAINER for one in everybody):
        return Reason.ALREADY_PRESENT
    return None


def _refuse_what_cannot_work(pod: Pod, settings: Settings) -> None:
    """What makes a barrier impossible whatever is in the containers."""
    spec = pod.spec
    if not spec.containers:
        raise RefusalError(verdict(Reason.MALFORMED_POD, problem="spec.containers is missing or empty"))
    selected_os = (spec.node_selector or {}).get(names.OS_LABEL)
    if "windows" in (spec.os.name if spec.os else "", selected_os):
        raise RefusalError(verdict(Reason.WINDOWS))
    if not settings.selector and not barrier.framework_name(pod):
        raise RefusalError(verdict(Reason.SELECTOR_MISSING, annotation=f"{names.PREFIX}selector"))
    if settings.selector and not settings.roles:
        raise RefusalError(verdict(Reason.ROLES_MISSING, annotation=f"{names.PREFIX}roles"))
    if settings.selector and len(settings.roles) > 1 and not settings.role_label:
        raise RefusalError(verdict(Reason.ROLE_LABEL_MISSING, annotation=f"{names.PREFIX}role-label"))
    taken = {volume.name for volume in spec.volumes or ()}
    for volume in barrier.volumes(settings):
        if volume["name"] in taken:
            raise RefusalError(verdict(Reason.VOLUME_TAKEN, volume=volume["name"]))


def _chosen(pod: Pod, settings: Settings) -> list[tuple[int, Container]]:
    """The application containers that the Pod names, all if it names none, in the Pod's order."""
    everybody = list(enumerate(pod.spec.containers or ()))
    if not settings.containers:
        return everybody
    known = [one.name for _, one in everybody]
    for name in settings.containers:
        if name not in known:
            details = {"annotation": f"{names.PREFIX}containers", "container": shown(name), "known": _listed(known)}
            raise RefusalError(verdict(Reason.CONTAINER_NOT_FOUND, **details))
    return [(index, one) for index, one in everybody if one.name in settings.containers]


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _LISTED_AT_MOST} more" if len(items) > _LISTED_AT_MOST else ""
    return ", ".join(items[:_LISTED_AT_MOST]) + more


def _delivery(settings: Settings, chosen: Sequence[Container], env_files: EnvFiles) -> Delivery:
    """How variables travel: as asked for, or for ``auto`` the first way that works here. Never ``AUTO``."""
    annotation = f"{names.PREFIX}env"
    bare = next((one.name for one in chosen if not one.command), None)
    match settings.env:
        case Delivery.FILE if not settings.preset:
            raise RefusalError(verdict(Reason.FILE_WITHOUT_PRESET, annotation=annotation))
        case Delivery.FILE if env_files is EnvFiles.NONE:
            raise RefusalError(verdict(Reason.FILE_UNSUPPORTED, annotation=annotation))
        case Delivery.WRAP if bare is not None:
            raise RefusalError(verdict(Reason.WRAP_WITHOUT_COMMAND, annotation=annotation, container=shown(bare)))
        case Delivery.AUTO if not settings.preset:
            # Nothing to set: the Pod asks for the gate and the files only, and must not depend on the server for that.
            return Delivery.NONE
        case Delivery.AUTO if env_files is not EnvFiles.NONE:
            return Delivery.FILE
        case Delivery.AUTO if bare is not None:
            raise RefusalError(verdict(Reason.NO_DELIVERY, annotation=annotation, container=shown(bare)))
        case Delivery.AUTO:
            return Delivery.WRAP
        case _:
            return settings.env


def _container_plan(index: int, one: Container, pod: Pod, settings: Settings, delivery: Delivery) -> ContainerPlan:
    mounts = [_output_mount(one)]
    hosts, warning = _hosts(pod, settings, one)
    if hosts:
        mounts.append({"name": names.VOLUME, "mountPath": names.HOSTS_PATH, "subPath": "hosts", "readOnly": True})
    return ContainerPlan(
        index=index,
        name=one.name,
        env=_env(settings, one) if delivery is Delivery.FILE else (),
        mounts=tuple(mounts),
        command=(_WRAPPER, *(one.command or ())) if delivery is Delivery.WRAP else None,
        hosts=hosts,
        warning=warning,
    )


def _env(settings: Settings, one: Container) -> tuple[JSON, ...]:
    """The preset's variables that the user has not set, each a reference into the barrier's file ``env``."""
    own = {variable.name for variable in one.env or ()}
    entries: list[JSON] = []
    for variable in variables(settings.preset):
        if variable.name in own:
            continue
        reference: JSON = {"volumeName": names.VOLUME, "path": "env", "key": variable.name}
        if variable.optional:
            reference["optional"] = True
        entries.append({"name": variable.name, "valueFrom": {"fileKeyRef": reference}})
    return tuple(entries)


def _mounts_at(one: Container, path: str) -> bool:
    return any(posixpath.normpath(mount.mount_path) == path for mount in one.volume_mounts or ())


def _output_mount(one: Container) -> JSON:
    if _mounts_at(one, names.OUTPUT_DIR):
        details = {"container": shown(one.name), "path": names.OUTPUT_DIR, "annotation": f"{names.PREFIX}containers"}
        raise RefusalError(verdict(Reason.PATH_TAKEN, **details))
    return {"name": names.VOLUME, "mountPath": names.OUTPUT_DIR, "readOnly": True}


def _hosts(pod: Pod, settings: Settings, one: Container) -> tuple[bool, str | None]:
    """Whether /etc/hosts of a container becomes the barrier's, and what its author should hear if it does not.

    Unasked, the mount gives way to whatever the user did to /etc/hosts; asked for, it refuses the conflict.
    """
    if settings.hosts is Hosts.NONE:
        return False, None
    asked, annotation = settings.hosts is Hosts.MOUNT, f"{names.PREFIX}hosts"
    if _mounts_at(one, names.HOSTS_PATH):
        if asked:
            details = {"container": shown(one.name), "path": names.HOSTS_PATH, "annotation": annotation}
            raise RefusalError(verdict(Reason.PATH_TAKEN, **details))
        return False, f"Container {shown(one.name)} keeps its own {names.HOSTS_PATH}: its peers are not in it."
    if pod.spec.host_aliases:
        if asked:
            raise RefusalError(verdict(Reason.HOST_ALIASES, annotation=annotation))
        return (
            False,
            f"Container {shown(one.name)} keeps the Pod's hostAliases: its peers are not in {names.HOSTS_PATH}.",
        )
    # Unasked, a Pod in the node's network keeps the node's own /etc/hosts, which has meaning there.
    return asked or not pod.spec.host_network, None
