"""What a spec says before there is a Pod. Each template is kept with its bytes, and read again only when these change.

A template is the text of a user, up to 1.5 MiB of anything. So containers are counted before they are decoded, what is
not asked for stays as it came, and whoever runs an event loop reads large ones (`unread`) somewhere else.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec
from msgspec import Raw, Struct

from frameworkcontroller.api import names
from frameworkcontroller.api.rank_topology import keys_of
from frameworkcontroller.api.spec import Dependency, FrameworkSpec
from frameworkcontroller.core.pods.template import MAX_POD_BYTES, TemplateError, container_count
from frameworkcontroller.core.policies import dependencies
from frameworkcontroller.core.restart.annotations import hang_limit, progress_port, read_limit, read_starts

LARGE_BYTES: Final = 64 * 1024
"""A larger template, or Pod, is read, prepared and rendered beside the event loop."""
MAX_CONTAINERS_OF_FRAMEWORK: Final = 10_000
"""`maxContainersOfFramework`: of all Pod templates of a Framework."""
# What the controller adds for each container and each placeholder, at most about.
CONTAINER_BYTES: Final = 2048
PLACEHOLDER_BYTES: Final = 128
MAX_TEXT: Final = 256
"""Characters of an annotation that are kept: a longer text than any that is right is wrong without its end, too."""
_NOTED: Final = (
    names.RESTART_ANNOTATION,
    names.RESTART_LIMIT_ANNOTATION,
    names.RANK_TOPOLOGY_ANNOTATION,
    names.EXIT_ANNOTATION,
    names.PROGRESS_ANNOTATION,
    names.HANG_ANNOTATION,
    names.HANG_LIMIT_ANNOTATION,
    names.PROGRESS_PORT_ANNOTATION,
)
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)
_GPUS: Final = re.compile(rb'"?([0-9]{1,6})"?')


class _Variable(Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = None


_WAIT_FOR_ARRIVAL: Final = _Variable(names.BARRIER_WAIT_FOR, names.ARRIVED)


class _Resources(Struct, frozen=True):
    # Each as it is written: to print a number like 1e308 takes 15 us, and a template may have 90,000.
    limits: dict[str, Raw] | None = None


def gpus_of(resources: bytes | Raw) -> int:
    """Return the GPUs that a container asks for; resources that cannot be read count as none."""
    if names.GPU_SUFFIX.encode() not in bytes(resources):
        return 0
    try:
        asked = msgspec.json.decode(resources, type=_Resources | None)
    except _UNREADABLE:
        return 0
    limits = (asked.limits if asked else None) or {}
    found = (_GPUS.fullmatch(number) for name, number in limits.items() if name.endswith(names.GPU_SUFFIX))
    return sum(int(number[1]) for number in found if number is not None)


class _Container(Struct, frozen=True):
    name: str = ""
    image: str | None = None
    env: Raw = Raw(b"null")
    command: tuple[str, ...] | None = ()
    args: tuple[str, ...] | None = ()
    resources: Raw = Raw(b"null")

    @property
    def is_barrier(self) -> bool:
        words = (self.name, self.image or "", *(self.command or ()))
        return any(names.BARRIER_CONTAINER in word for word in words)

    @property
    def asks_for_arrival(self) -> bool:
        if self.name != names.BARRIER_CONTAINER:
            return False
        environment = msgspec.json.decode(self.env, type=tuple[_Variable, ...] | None) or ()
        flag, words = names.BARRIER_WAIT_FOR_FLAG, (*(self.command or ()), *(self.args or ()))
        by_flag = f"{flag}={names.ARRIVED}" in words or (flag, names.ARRIVED) in pairwise(words)
        return by_flag or _WAIT_FOR_ARRIVAL in environment


class _PodSpec(Struct, frozen=True, rename="camel"):
    service_account_name: str | None = None
    init_containers: tuple[_Container, ...] | None = ()
    containers: tuple[_Container, ...] | None = ()


class _Meta(Struct, frozen=True):
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Template(Struct, frozen=True):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None


class RoleFacts(Struct, frozen=True):
    """What one template says. Of one that can make no Pod no more is known: its error is that of the first creation."""

    can_be: bool = True
    """It can make a Pod that the API server is asked for."""
    size: int = 0
    """Of a Pod, about, in bytes: what the API server takes at most counts for more."""
    containers: int = 0
    account: str | None = None
    """The service account of the Pods, if they have a barrier."""
    annotations: dict[str, str] = {}
    """Those of `_NOTED`, if the Pods have a barrier."""
    is_injected: bool = False
    """The injector gives them their barrier."""
    waits_for_arrival: bool = False
    """An annotation or a barrier of its own asks to wait until all Tasks have arrived."""
    gpus: int = 0
    """Of each Pod."""


def read(template: bytes | Raw) -> RoleFacts:
    """Read one template: pure, and safe in any thread."""
    text = bytes(template)
    size = len(text) + PLACEHOLDER_BYTES * text.count(b"{{FC_")
    try:
        number = container_count(text)
        found = msgspec.json.decode(text, type=_Template)
        pod, meta = found.spec or _PodSpec(), found.metadata or _Meta()
        first, annotations = pod.init_containers or (), meta.annotations or {}
        waits = annotations.get(names.BARRIER_WAIT_FOR_ANNOTATION) == names.ARRIVED
        waits = waits or any(container.asks_for_arrival for container in first)
    except (*_UNREADABLE, TemplateError):
        return RoleFacts(can_be=False, size=min(size, MAX_POD_BYTES))
    containers = (*first, *(pod.containers or ()))
    # The injector will add one, or the template has its own.
    is_asked = (meta.labels or {}).get(names.BARRIER_LABEL) == "enabled"
    has_own = any(container.is_barrier for container in containers)
    has_barrier = is_asked or has_own
    noted = _NOTED if has_barrier else ()
    return RoleFacts(
        size=min(size + CONTAINER_BYTES * (1 + number), MAX_POD_BYTES),
        containers=number,
        account=_short(pod.service_account_name or "default") if has_barrier else None,
        annotations={name: _short(annotations[name].strip()) for name in noted if name in annotations},
        is_injected=is_asked and not has_own,
        waits_for_arrival=waits,
        gpus=sum(gpus_of(container.resources) for container in pod.containers or ()),
    )


def _short(text: str) -> str:
    """Cut a text, a character of which takes a byte: one that is no ASCII would make each four, and is never right."""
    return text[:MAX_TEXT].encode("ascii", "backslashreplace").decode()[:MAX_TEXT]


def read_all(templates: Mapping[bytes, Raw]) -> dict[bytes, RoleFacts]:
    """Read templates for `Templates.learn`, in any thread."""
    return {key: read(template) for key, template in templates.items()}


@dataclass(frozen=True)
class SpecFacts:
    """What a spec says, its Pod templates together and its TaskRoles: read once, and then asked."""

    service_accounts: tuple[str, ...] = ()
    """The service accounts of the Pods that have a barrier, sorted."""
    waits_for_arrival: bool = False
    """A template asks, by annotation or in a barrier of its own, to wait until all Tasks have arrived."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that each Pod of a role asks for, of the roles that do."""
    restart_limit: int | None = None
    """How often exits may restart a gang in its Pods, 0 for no limit, None if it does not restart in place."""
    restart_problem: str = ""
    """Why it cannot be as the templates ask for, "" if it can."""
    members: frozenset[str] = frozenset()
    """The roles whose Pods have a barrier: only these restart in place."""
    rank_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The labels of nodes that the ranks of each of these roles are to follow, if they are."""
    rank_problem: str = ""
    """Why they cannot, "" if they can."""
    injected: frozenset[str] = frozenset()
    """Those whose barrier is the injector's."""
    end_together: frozenset[str] = frozenset()
    """The roles whose applications end when all of them want to end."""
    hang_limit: int | None = None
    """After how many hangs in a row the Framework ends, 0 for no limit, None if hangs restart nothing."""
    progress_ports: Mapping[str, int] = field(default_factory=dict)
    """Where the sidecars of each role say how far their applications are, of the roles that do."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of a Pod of each role, about, in bytes."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why roles can have no Pods, though each of their templates can make one."""
    graceful_timeouts: Mapping[str, int | None] = field(default_factory=dict)
    """`podGracefulDeletionTimeoutSec` of each role."""
    depends_on: tuple[tuple[str, tuple[Dependency, ...] | None], ...] = ()
    """Which roles wait for which, () if none does."""
    watched_roles: frozenset[str] = frozenset()
    """The roles for whose Pods to become Ready another role waits."""
    stuck_roles: Mapping[str, str] = field(default_factory=dict)
    """Why roles can never begin."""
    all_can_be: bool = True
    """Each template can make a Pod."""

    @property
    def is_hopeless(self) -> bool:
        """Whether some Tasks can only fail: the API server is not even asked for their Pods."""
        return bool(self.problems or self.stuck_roles or self.restart_problem or not self.all_can_be)

    @property
    def has_barriers(self) -> bool:
        """Whether a Pod template has a barrier."""
        return bool(self.members)


class Templates:
    """The templates of one Framework that were read, each known by its bytes; roles may have the same."""

    def __init__(self) -> None:
        self._read: dict[bytes, RoleFacts] = {}
        self._followed: tuple[bytes, ...] = ()
        self._wanted: tuple[bytes, ...] = ()

    def unread(self, spec: FrameworkSpec) -> dict[bytes, Raw]:
        """Return the templates that were not read, for `learn`, if they are large together."""
        pods = {_key(role.task.pod): role.task.pod for role in spec.task_roles or ()}
        self._wanted = tuple(pods)
        unread = {key: pod for key, pod in pods.items() if key not in self._read}
        return unread if sum(memoryview(pod).nbytes for pod in unread.values()) > LARGE_BYTES else {}

    def learn(self, facts: Mapping[bytes, RoleFacts]) -> None:
        """Keep what was read, but for what is neither followed nor wanted any more: states that were edited again."""
        known = self._read | dict(facts)
        self._read = {key: known[key] for key in (*self._followed, *self._wanted) if key in known}

    def facts(self, spec: FrameworkSpec) -> SpecFacts:
        """Return what the spec says, and read the templates that have changed."""
        roles = dict.fromkeys(role.name for role in spec.task_roles or ())
        keys = {name: _key(spec.by_name[name].task.pod) for name in roles}
        for name, key in keys.items():
            if key not in self._read:
                self._read[key] = read(spec.by_name[name].task.pod)
        self._followed = tuple(keys.values())
        self._read = {key: self._read[key] for key in self._followed}
        found = {name: self._read[key] for name, key in keys.items()}
        members = {name: one for name, one in found.items() if one.account is not None}
        limit, problem = read_limit((name, one.annotations) for name, one in members.items())
        if limit is not None:
            problem = read_starts((name, spec.by_name[name].depends_on or ()) for name in members)
            limit = None if problem else limit
        rank_keys, rank_problem = _rank_keys(members)
        annotations = [one.annotations for one in members.values()]
        wanted = spec.by_name.values()
        return SpecFacts(
            service_accounts=tuple(sorted({one.account or "" for one in members.values()})),
            waits_for_arrival=limit is not None or any(one.waits_for_arrival for one in found.values()),
            gpus={name: one.gpus for name, one in found.items() if one.gpus},
            restart_limit=limit,
            restart_problem=problem,
            members=frozenset(members),
            rank_keys=rank_keys,
            rank_problem=rank_problem,
            injected=frozenset(name for name, one in members.items() if one.is_injected),
            end_together=frozenset(
                name
                for name, one in members.items()
                if one.annotations.get(names.EXIT_ANNOTATION, "").strip() == names.TOGETHER
            ),
            hang_limit=next((one for one in map(hang_limit, annotations) if one is not None), None),
            progress_ports={
                name: progress_port(one.annotations)
                for name, one in members.items()
                if names.PROGRESS_ANNOTATION in one.annotations
            },
            sizes={name: one.size for name, one in found.items()},
            problems=dict(_too_many(found)),
            graceful_timeouts={one.name: one.task.pod_graceful_deletion_timeout_sec for one in wanted},
            depends_on=tuple((one.name, one.depends_on) for one in wanted)
            if any(one.depends_on for one in wanted)
            else (),
            watched_roles=dependencies.watched_roles(spec),
            stuck_roles=dependencies.problems_of(spec),
            all_can_be=all(one.can_be for one in found.values()),
        )


def _key(pod: Raw) -> bytes:
    return hashlib.blake2b(pod, digest_size=16).digest()


def _rank_keys(members: Mapping[str, RoleFacts]) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the labels that the ranks of each role are to follow, and why they cannot, "" if they can."""
    keys: dict[str, tuple[str, ...]] = {}
    for name, one in members.items():
        try:
            if (text := one.annotations.get(names.RANK_TOPOLOGY_ANNOTATION)) is not None:
                keys[name] = keys_of(text)
        except ValueError as error:
            return {}, f"TaskRole {name}: annotation {names.RANK_TOPOLOGY_ANNOTATION} must be {error}"
    without = next((name for name in members if name not in keys), None)
    if keys and without is not None:
        why = f"has a barrier, and no annotation {names.RANK_TOPOLOGY_ANNOTATION} as others have"
        return {}, f"TaskRole {without} {why}"
    return keys, ""


def _too_many(roles: Mapping[str, RoleFacts]) -> Iterable[tuple[str, str]]:
    """Yield the roles beyond the most containers that a Framework may have, and what is wrong with each."""
    total = 0
    for name, facts in roles.items():
        total += facts.containers
        if total > MAX_CONTAINERS_OF_FRAMEWORK:
            why = (
                f"the Pod templates of the TaskRoles up to {name} have {total} containers, and those of a Framework "
                f"may have {MAX_CONTAINERS_OF_FRAMEWORK} (maxContainersOfFramework): use fewer, or several Frameworks"
            )
            yield name, why


def facts_of(spec: FrameworkSpec) -> SpecFacts:
    """Read all templates once."""
    return Templates().facts(spec)
