"""A cluster in memory for gangs of other controllers: an API server, caches that may be late, controllers that die.

The controller's part is that of `engine.foreign`, without its loop. Barriers are real ones as far as they decide: they
read rosters by `frameworkbarrier` and open by its `Gatekeeper`.
"""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from frameworkbarrier.errors import GoneError
from frameworkbarrier.gate.gang import Gang, Task
from frameworkbarrier.gate.gate import Gatekeeper, Observation, Released
from frameworkbarrier.settings import OwnTask
from frameworkbarrier.source import roster
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Labels, Meta, OwnerReference, Partial
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    DeleteConfigMap,
    Done,
    Effect,
    Failed,
    FindConfigMap,
    FindOwner,
    Found,
    Missing,
    NameTaken,
    Outcome,
    Refused,
    WriteRoster,
)
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.foreign.gang import ForeignGang, Paces
from frameworkcontroller.core.foreign.pods import FOREIGN_POD_DECODER, ForeignPods, Member
from frameworkcontroller.core.policies.shares import Pace
from frameworkcontroller.core.status.reports import Milestone
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from tests.support.beside import foreign_pods as make
from tests.support.beside.foreign_pods import Json

START = datetime(2026, 1, 1, tzinfo=UTC)


Kind = TypeVar("Kind", bound=Effect)


class Killed(BaseException):
    """The controller is killed: before it sends a request, or before it has the answer."""


class World:
    """One namespace; `answer` decides what becomes of each request.

    It is `ok`, `failed`, `lost` (done, no answer), or the controller is `killed before` it or `killed after` it.
    """

    def __init__(self, answer: Callable[[], str] = lambda: "ok") -> None:
        self.now, self._answer = START, answer
        self._versions = itertools.count(1)
        self.pods: dict[str, dict[str, Any]] = {}
        self.owners: dict[tuple[str, str], dict[str, Any]] = {}
        self.config_maps: dict[str, tuple[Partial, str]] = {}
        """ConfigMaps with their rosters."""
        self.opened: dict[str, list[Task]] = {}
        """The Tasks in the roster by which each Pod's barrier has opened, by the Pod's UID."""
        self.is_full = False
        """Whether a quota refuses ConfigMaps."""
        self.is_frozen = False
        """Whether a policy refuses to change them."""
        self.told: list[str] = []
        self.requests: list[Effect] = []
        self.events: list[str] = []
        self.milestones: list[str] = []
        self.restart()

    def restart(self) -> None:
        """Replace the controller by one that knows nothing but what the API server shows."""
        self._keep = ForeignPods(slim := SlimPods(), slim.share)
        self._gangs: dict[str, ForeignGang] = {}
        self._paces = Paces(begins=Pace(1000, 1000))
        self._cached: dict[str, Member] = {}
        self.sync()

    def sync(self) -> None:
        """Let the controller's caches see everything."""
        for name in {*self.pods, *self._cached}:
            found, known = self.pods.get(name), self._cached.get(name)
            if found and known and found["metadata"]["resourceVersion"] == known.metadata.resource_version:
                continue
            seen = None if found is None else self._keep(FOREIGN_POD_DECODER.decode(msgspec.json.encode(found)))
            new, old = seen if isinstance(seen, Member) else None, self._cached.pop(name, None)
            for gang in {one.claim.gang for one in (old, new) if one is not None}:
                was, now = (one if one is not None and one.claim.gang == gang else None for one in (old, new))
                self.gang(gang).members.replace(was, now)
            if new is not None:
                self._cached[name] = new
        self._seen = {name: found for name, (found, _) in self.config_maps.items() if found.metadata.labels.gang}
        for name in self._seen:
            self.gang(name.removesuffix("-attempt"))

    def gang(self, name: str) -> ForeignGang:
        """Return the gang of this name."""
        return self._gangs.setdefault(name, ForeignGang("default", name, lambda: 0.5, self._paces, grants=True))

    @property
    def gangs(self) -> list[str]:
        """The names of the gangs that the controller knows."""
        return [*self._gangs]

    def put(self, *pods: dict[str, Any]) -> None:
        """Create or replace Pods."""
        for pod in pods:
            pod["metadata"]["resourceVersion"] = str(next(self._versions))
            self.pods[pod["metadata"]["name"]] = pod

    def squat(self, name: str) -> None:
        """Create somebody else's ConfigMap, which the controller's cache does not show."""
        self.config_maps[name] = Partial(_meta(name, str(next(self._versions)))), '{"waitingFor": []}'

    def step(self) -> None:
        """Let the controller decide once on each gang, with what its caches show, and perform what it wants."""
        try:
            self._decide()
        except Killed:
            self.restart()
        self._open()

    def _decide(self) -> None:
        for name, gang in [*self._gangs.items()]:
            config_map = self._seen.get(names.config_map_name(name))
            decision = gang.decide(self.now, config_map)
            self.events += [f"{one.reason}: {one.message}" for one in decision.reports if isinstance(one, KubeEvent)]
            self.milestones += [one.phase for one in decision.reports if isinstance(one, Milestone)]
            for effect in decision.effects:
                self.requests.append(effect)
                outcome = self._perform(names.config_map_name(name), gang, effect)
                gang.apply_outcome(effect, outcome, self.now)
            if config_map is None and gang.is_over:
                del self._gangs[name]

    def settle(self, seconds: int, *, every: int = 1) -> None:
        """Let time pass in which nothing happens but the controller's work and late news."""
        for _ in range(0, seconds, every):
            self.sync()
            self.step()
            self.now += timedelta(seconds=every)

    def _perform(self, config_map: str, gang: ForeignGang, effect: Effect) -> Outcome:
        answer = self._answer()
        if answer == "killed before":
            raise Killed
        if answer == "failed":
            return Failed("injected")
        outcome = self._do(config_map, gang, effect)
        if answer == "killed after":
            raise Killed
        return Failed("lost") if answer == "lost" else outcome

    def _do(self, name: str, gang: ForeignGang, effect: Effect) -> Outcome:
        found = self.config_maps.get(name)
        version = str(next(self._versions))
        match effect:
            case FindOwner(kind, owner):
                known = self.owners.get((kind, owner))
                return Missing() if known is None else Found(_meta(owner, version), document=msgspec.json.encode(known))
            case CreateConfigMap():
                if found is not None:
                    return NameTaken("there is one")
                if self.is_full:
                    return Refused(403, "exceeded quota")
                meta = _meta(name, version, uid=f"uid-{version}", created=self.now, gang=gang)
                self.config_maps[name] = Partial(meta), effect.roster.decode()
                return Done(meta.uid, version)
            case FindConfigMap():
                return Missing() if found is None else Found(found[0].metadata)
            case DeleteConfigMap() if found is not None and found[0].metadata.uid == effect.uid:
                del self.config_maps[name]
            case WriteRoster() if self.is_frozen:
                return Failed("a policy", refused=True)
            case WriteRoster() if found is not None and found[0].metadata.uid == effect.config_map_uid:
                was, notes = found[0].metadata, {names.ROSTER_ANNOTATION: effect.annotation}
                meta = _meta(name, version, uid=was.uid, created=was.creation_timestamp, gang=gang)
                meta = msgspec.structs.replace(meta, annotations=notes)
                self.config_maps[name] = Partial(meta), effect.document.decode()
            case DeleteConfigMap() | WriteRoster():
                return Missing()
        return Done("", version)

    def collect(self) -> None:
        """Delete ConfigMaps whose owners are gone, as Kubernetes does."""
        there = {one["metadata"]["uid"] for one in (*self.owners.values(), *self.pods.values())}
        for name, (found, _) in [*self.config_maps.items()]:
            owners = found.metadata.owner_references
            if owners and there.isdisjoint(owner.uid for owner in owners):
                del self.config_maps[name]

    def _open(self) -> None:
        """Let all barriers look."""
        for pod in self.pods.values():
            meta = pod["metadata"]
            seen = self._keep(FOREIGN_POD_DECODER.decode(msgspec.json.encode(pod)))
            if not isinstance(seen, Member) or meta["uid"] in self.opened or meta.get("deletionTimestamp"):
                continue
            config_map = self.config_maps.get(names.config_map_name(seen.claim.gang))
            if config_map is None or not config_map[0].metadata.labels.gang:
                continue
            try:
                gang = roster.decode(config_map[1])
            except GoneError as never:
                self.told.append(str(never))
                continue
            own = OwnTask(None, None, meta["uid"], meta["name"])
            decision = Gatekeeper(own).decide(Observation(gang, config_map[1]))
            if isinstance(decision, Released):
                self.opened[meta["uid"]] = [task for role in decision.gang.roles for task in role.tasks]

    def complete(self) -> dict[str, dict[str, list[str]]]:
        """Return the Pods of each role by gang, of all complete rosters."""
        decoded = {name.removesuffix("-attempt"): roster.decode(text) for name, (_, text) in self.config_maps.items()}
        return {
            name: {role.name: [task.pod for task in role.tasks] for role in gang.roles}
            for name, gang in decoded.items()
            if gang.complete
        }

    def waiting(self) -> Iterator[str]:
        """Yield what rosters say of those that are missing."""
        for _, text in self.config_maps.values():
            yield from (f"{one['task']} {one['why']}" for one in msgspec.json.decode(text)["waitingFor"])


def _meta(
    name: str, version: str, *, uid: str = "u", created: datetime | None = None, gang: ForeignGang | None = None
) -> Meta:
    subject = None if gang is None else gang.subject
    return Meta(
        name=name,
        uid=uid,
        resource_version=version,
        namespace="default",
        creation_timestamp=created,
        labels=Labels(gang=None if subject is None else subject.object.kind),
        owner_references=() if subject is None else tuple(OwnerReference(uid=one.uid) for one in subject.gang),
    )


def replicas(number: int) -> Json:
    return make.owner({"replicas": number, "podManagementPolicy": "Parallel"})


# For each kind: its owner, what that says of a size, and what makes the Pod of an index.
KINDS: dict[str, tuple[tuple[str, str], Callable[[int], Json], Callable[..., Json]]] = {
    "jobset": (
        ("JobSet", "train"),
        lambda number: make.jobset([make.replicated_job("worker", 1, number)]),
        lambda index, **more: make.of_jobset("worker", 0, index, **more),
    ),
    "job": (("Job", "train"), lambda number: make.owner({"parallelism": number, "completions": number}), make.of_job),
    "statefulset": (("StatefulSet", "train"), replicas, make.of_stateful_set),
    "lws": (
        ("LeaderWorkerSet", "serve"),
        lambda _number: make.owner({}, name="serve"),
        lambda index, size=3, **more: make.of_lws(0, index, size, **more),
    ),
    "pods": (
        ("", ""),
        lambda _number: make.owner({}),
        lambda index, size=3, **more: make.bare("worker", index, str(size), **more),
    ),
}


class Three(World):
    """A gang of three."""

    def __init__(self, kind: str = "job", answer: Callable[[], str] = lambda: "ok") -> None:
        super().__init__(answer)
        self.key, self.owner, self.pod = KINDS[kind]
        self.owners[self.key] = self.owner(3)

    def run(self, *indexes: int, seconds: int = 3, uid: str = "", **more: Any) -> None:
        """Pods of these indexes, all three by default, have addresses and UIDs; and so much time passes."""
        for index in indexes or (0, 1, 2):
            self.put(self.pod(index, **{"ip": f"10.1.0.{index}"} | ({"uid": f"{uid}{index}"} if uid else {}) | more))
        self.settle(seconds)

    @property
    def members(self) -> list[list[str]]:
        """The workers in complete rosters."""
        return [roles["worker"] for roles in self.complete().values()]

    @property
    def lacks(self) -> tuple[int, int]:
        """What the metrics say: how many have no Pod, and how many of the Pods are not ready."""
        (status,) = (gang.status for gang in self._gangs.values())
        assert status is not None
        return status.not_created, status.not_ready

    @property
    def roster(self) -> Gang:
        ((_, text),) = self.config_maps.values()
        return roster.decode(text)

    def asked(self, kind: type[Kind]) -> list[Kind]:
        """The requests of this kind."""
        return [one for one in self.requests if isinstance(one, kind)]

    def told_reasons(self) -> list[str]:
        """The reasons of all Events."""
        return [event.partition(":")[0] for event in self.events]

    def change(self, text: str | None = None, **changes: Any) -> None:
        """Somebody changes the metadata of the ConfigMap, and the roster if there is a new one."""
        ((name, (found, before)),) = self.config_maps.items()
        meta = msgspec.structs.replace(found.metadata, resource_version=str(next(self._versions)), **changes)
        self.config_maps[name] = Partial(meta), before if text is None else text
