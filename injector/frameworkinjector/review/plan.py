"""Decides what to add to a Pod, from the Pod as received, its settings and the injector's config.

`review` and `render` call `decide` with a decoded Pod. It promises a plan, a reason to leave the Pod alone, or a
refusal of settings that cannot work: no Pod starts half injected. It does no I/O and reads no clock.
Source: docs/reference/injector.md, sections 1 and 2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from frameworkbarrier.presets import model as presets
from frameworkinjector import names
from frameworkinjector.review import barrier, eligibility, sidecar, variables, workload
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.eligibility import Skew
from frameworkinjector.review.pod import JSON, Container, Pod
from frameworkinjector.review.reasons import Reason, RefusalError, Verdict, shown
from frameworkinjector.review.settings import Delivery, Hosts, PodSettings, parse

# Each container costs up to 4 KiB of the patch, and the API server sends Pods before it validates them.
MAX_CONTAINERS: Final = 100
# Each container of a Pod, each entry of the chosen ones and each character of metadata or a path costs time, in which
# nobody else is answered. The first is what the controller accepts in a template, those of annotations what the API
# server does.
MAX_CONTAINERS_OF_POD: Final = 256
MAX_ENTRIES: Final = 10_000
MAX_ANNOTATIONS: Final = 262_144
MAX_LABELS: Final = 65_536
MAX_PATHS: Final = 262_144
MAX_NAME: Final = 63
_LISTED_AT_MOST: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """What one container gets."""

    index: int
    """Its place in `spec.containers`."""
    name: str
    env: tuple[JSON, ...]
    """To add before its own; `mounts` and `rules` (of restartPolicyRules) after its own."""
    mounts: tuple[JSON, ...]
    command: tuple[str, ...] | None
    """The whole new command if it is wrapped, else None."""
    hosts: bool
    """Whether the barrier's hosts file is mounted at its /etc/hosts."""
    warning: str | None
    """A sentence for the user."""
    rules: tuple[JSON, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is added to a Pod: `volumes` and `pull_secrets` after its own."""

    barrier: JSON
    volumes: tuple[JSON, ...]
    pull_secrets: tuple[JSON, ...]
    containers: tuple[ContainerPlan, ...]
    status: JSON
    """The value of the status annotation."""
    reads: str
    """The value of the annotation that says what the barrier reads; "" for no such annotation."""
    warnings: tuple[str, ...]
    """Sentences for the user, in the answer of the API server."""
    skew: Skew | None
    """The versions of controller and barrier, if they are too far apart."""


def decide(pod: Pod, config: Config, env_files: EnvFiles) -> Plan | Verdict:
    """Return what to add to a Pod that is being created, or why it is left alone.

    Raises:
        RefusalError: The Pod asks for the barrier with settings that cannot work.
    """
    if (reason := _left_alone(pod)) is not None:
        return Verdict(reason)
    _refuse_what_costs_too_much(pod)
    settings = parse(pod.annotations, config.presets)
    _refuse_what_cannot_work(pod, settings, config)
    sidecar.refuse(pod, settings, config)
    chosen = _chosen(pod, settings)
    _refuse_what_takes_too_much(chosen)
    containers = [one for _, one in chosen]
    way = variables.way_of(settings, containers, env_files)
    variables.refuse_too_many(settings, containers, way, config.presets)
    plans = tuple(_container_plan(index, one, pod, settings, way, config.presets) for index, one in chosen)
    names_resolve = all(one.hosts for one in plans)
    image = settings.image or config.barrier_image
    apart = eligibility.skew_of(pod, image, config.version)
    return Plan(
        barrier=barrier.container(pod, settings, config, env_files, names_resolve=names_resolve),
        volumes=barrier.volumes(settings),
        pull_secrets=barrier.pull_secrets(pod, config),
        containers=plans,
        status={
            "reason": Reason.INJECTED.slug,
            "version": config.version,
            "mode": settings.barrier.mode,
            "env": way.value,
            "containers": [one.name for one in plans],
            "hosts": [one.name for one in plans if one.hosts],
            **({"restart": settings.barrier.restart} if settings.barrier.restart else {}),
        },
        # Another image may have an older barrier, which would count ranks by index.
        reads=names.READS_ORDER if settings.rank_topology and image == config.barrier_image else "",
        warnings=(
            *_warnings(pod, settings),
            *(one.warning for one in plans if one.warning),
            *_unresolved(plans, settings),
            *_killed_by_probes(pod, settings),
            *((apart.sentence,) if apart else ()),
        ),
        skew=apart,
    )


def _warnings(pod: Pod, settings: PodSettings) -> Iterator[str]:
    """Yield what may surprise the user of a Pod that no controller of Frameworks looks after.

    Of the Pods of a Framework, the controller judges the barrier itself, whatever the kubelet does with it.
    """
    if pod.framework_name:
        return
    is_sidecar = settings.barrier.mode == "sidecar"
    if is_sidecar or pod.restart_policy != sidecar.NEVER:
        why = "it is a sidecar" if is_sidecar else f"restartPolicy is {shown(pod.restart_policy)} and not Never"
        yield (
            "A barrier that gives up (exit code 201 or 210) does not fail this Pod: "
            f"{why}, so the kubelet restarts the barrier, and it waits again."
        )


def _unresolved(plans: Sequence[ContainerPlan], settings: PodSettings) -> list[str]:
    """Warn of containers that get names of peers in variables but no hosts file that lists them."""
    if settings.barrier.addresses != "name":
        return []
    return [
        f"Container {shown(one.name)} gets names of its peers in variables ({names.PREFIX}addresses), but its "
        f"{names.HOSTS_PATH} does not list them."
        for one in plans
        if not one.hosts
    ]


def _killed_by_probes(pod: Pod, settings: PodSettings) -> Iterator[str]:
    """Warn of liveness probes by which a restart of the gang may end the Pod's sandbox."""
    each = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    found = [one.name for one in each if one.liveness_probe and one.liveness_probe.failure_threshold == 1]
    if found and settings.barrier.restart:
        yield (
            f"The livenessProbe of {_listed(found)} has failureThreshold 1: a restart of the gang during a probe may "
            "count as its failure, by which the Pod gets another address. Set failureThreshold to 3, the default."
        )


def _left_alone(pod: Pod) -> Reason | None:
    if pod.labels.get(names.LABEL) != names.LABEL_VALUE:
        return Reason.NOT_OPTED_IN
    if names.MIRROR_ANNOTATION in pod.annotations:
        return Reason.MIRROR_POD
    containers = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    if any(one.name == names.CONTAINER for one in containers):
        return Reason.ALREADY_PRESENT
    return None


def _refuse_what_costs_too_much(pod: Pod) -> None:
    """Bound the time of all that follows.

    Raises:
        RefusalError: The Pod has too many containers, or annotations or labels that are too long in total.
    """
    spec = pod.spec
    if sum(len(each or ()) for each in (spec.containers, spec.init_containers)) > MAX_CONTAINERS_OF_POD:
        limit = f"{MAX_CONTAINERS_OF_POD} containers in spec.containers and spec.initContainers: use fewer"
        raise RefusalError(Reason.POD_TOO_LARGE, limit=limit)
    for field, texts, most in (("annotations", pod.annotations, MAX_ANNOTATIONS), ("labels", pod.labels, MAX_LABELS)):
        if sum(len(key) + len(text) for key, text in texts.items()) > most:
            limit = f"{most} characters in metadata.{field}: shorten them"
            raise RefusalError(Reason.POD_TOO_LARGE, limit=limit)


def _refuse_what_cannot_work(pod: Pod, settings: PodSettings, config: Config) -> None:
    """Check everything that does not depend on the chosen containers.

    Raises:
        RefusalError: The Pod has no container, is for Windows, lacks a setting, or uses a name of a barrier's volume.
    """
    spec = pod.spec
    if not spec.containers:
        raise RefusalError(Reason.MALFORMED_POD, problem="spec.containers is missing or empty")
    if eligibility.needs_windows(spec):
        raise RefusalError(Reason.WINDOWS)
    if settings.barrier.selector or not pod.framework_name:
        workload.refuse_without_peers(pod, settings, config)
    barrier.refuse_reserved_folder(settings)
    taken = {volume.name for volume in spec.volumes or ()}
    for volume in barrier.volumes(settings):
        if volume["name"] in taken:
            raise RefusalError(Reason.VOLUME_TAKEN, volume=volume["name"])


def _chosen(pod: Pod, settings: PodSettings) -> list[tuple[int, Container]]:
    """Return the application containers that the Pod names, all of its author if it names none, with their positions.

    Raises:
        RefusalError: The Pod names a container that it does not have.
    """
    if not settings.containers:
        return eligibility.authors_containers(pod)
    candidates = list(enumerate(pod.spec.containers or ()))
    known, asked = [one.name for _, one in candidates], frozenset(settings.containers)
    missing = asked.difference(known)
    if missing:
        name = next(one for one in settings.containers if one in missing)
        raise RefusalError(Reason.CONTAINER_NOT_FOUND, container=shown(name), known=_listed(known))
    return [(index, one) for index, one in candidates if one.name in asked]


def _refuse_what_takes_too_much(chosen: Sequence[tuple[int, Container]]) -> None:
    """Bound the patch before it is made, and what is read for it.

    Raises:
        RefusalError: There are too many chosen containers, they have too many entries or too long paths, or the name of
            one is longer than Kubernetes allows.
    """
    if len(chosen) > MAX_CONTAINERS:
        raise RefusalError(Reason.TOO_MANY_CONTAINERS, count=len(chosen), limit=MAX_CONTAINERS)
    if sum(len(each or ()) for _, one in chosen for each in (one.env, one.env_from, one.volume_mounts)) > MAX_ENTRIES:
        limit = (
            f"{MAX_ENTRIES} entries in env, envFrom and volumeMounts of the containers to change: use fewer, or name "
            f"those that need the barrier in annotation {names.PREFIX}containers"
        )
        raise RefusalError(Reason.POD_TOO_LARGE, limit=limit)
    if sum(len(mount.mount_path) for _, one in chosen for mount in one.volume_mounts or ()) > MAX_PATHS:
        limit = f"{MAX_PATHS} characters in mountPath of volumeMounts of the containers to change: shorten them"
        raise RefusalError(Reason.POD_TOO_LARGE, limit=limit)
    for index, one in chosen:
        if len(one.name) > MAX_NAME:
            problem = f"spec.containers[{index}].name has more than {MAX_NAME} characters"
            raise RefusalError(Reason.MALFORMED_POD, problem=problem)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _LISTED_AT_MOST} more" if len(items) > _LISTED_AT_MOST else ""
    return ", ".join(shown(item)[1:-1] for item in items[:_LISTED_AT_MOST]) + more


def _container_plan(
    index: int, one: Container, pod: Pod, settings: PodSettings, way: Delivery, own_presets: presets.Presets
) -> ContainerPlan:
    files = {"name": names.VOLUME, "mountPath": settings.barrier.output_dir, "readOnly": True}
    mounts: list[JSON] = [files, *barrier.writable_mounts(settings)]
    barrier.refuse_overlap(one, [mount["mountPath"] for mount in mounts])
    hosts, warning = _hosts(pod, settings, one)
    if hosts:
        mounts.append({"name": names.VOLUME, "mountPath": names.HOSTS_PATH, "subPath": "hosts", "readOnly": True})
    return ContainerPlan(
        index=index,
        name=one.name,
        env=(*variables.variables_of(settings, one, way, own_presets), *sidecar.variables_of(settings, one)),
        mounts=tuple(mounts),
        command=(f"{settings.barrier.output_dir}/run", *(one.command or ())) if way is Delivery.WRAP else None,
        hosts=hosts,
        warning=warning,
        rules=sidecar.rules_of(one, pod, settings),
    )


def _hosts(pod: Pod, settings: PodSettings, one: Container) -> tuple[bool, str | None]:
    """Return whether the barrier's hosts file is mounted at a container's /etc/hosts, and a warning if not.

    By default the mount yields to what the user does with /etc/hosts; with `hosts: mount` a conflict is refused.

    Raises:
        RefusalError: The Pod asks for the mount, and has hostAliases or a mount of its own there.
    """
    if settings.hosts is Hosts.NONE:
        return False, None
    asked = settings.hosts is Hosts.MOUNT
    if any(mount.path == names.HOSTS_PATH for mount in one.volume_mounts or ()):
        if asked:
            raise RefusalError(Reason.PATH_TAKEN, container=shown(one.name))
        return False, f"Container {shown(one.name)} keeps its own {names.HOSTS_PATH}, which does not list its peers."
    if pod.has_host_aliases:
        if asked:
            raise RefusalError(Reason.HOST_ALIASES)
        return (
            False,
            f"Container {shown(one.name)} keeps the Pod's hostAliases: {names.HOSTS_PATH} does not list its peers.",
        )
    # By default a Pod in the node's network keeps the node's /etc/hosts, whose names are valid there.
    return asked or not pod.spec.host_network, None
