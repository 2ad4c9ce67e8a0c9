"""Who is in a gang of another controller, counted as its Pods change: each change costs what it changes.

A Pod is ready by the rules of `policies.readiness`: it stays, it has an address and, where the gang waits for that, its
barrier runs. Of several Pods at one place the youngest counts. Source: docs/reference/barrier.md, sections 1 and 2.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from frameworkcontroller.api import foreign
from frameworkcontroller.core.effects import Readiness
from frameworkcontroller.core.foreign.owners import Size
from frameworkcontroller.core.foreign.pods import Claim, Member, Place
from frameworkcontroller.core.gang.roster import Missing
from frameworkcontroller.core.policies import readiness

FAILED: Final = "Failed"
_ENDED: Final = frozenset({FAILED, "Succeeded"})
_LEADER: Final = 0
_NOTHING: Final = Size("", {})
_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)


class Members:
    """The Pods of one gang by their places."""

    def __init__(self) -> None:
        self._at: dict[Place, list[Member]] = {}
        """The Pods at each place, the youngest last, which costs little however many claim one."""
        self._seen: dict[Place, tuple[str, str]] = {}
        """UID and address of each Pod that is ready."""
        self._size = _NOTHING
        self._ready = self._placed = 0
        """Those of them, and those of all, that the gang has a place for."""
        self._revision = 0
        self._leader_since = _UNKNOWN
        """When the leader of a LeaderWorkerSet was created, which creates all workers."""
        self.has_new_rule = False
        """Whether something has changed by which all are judged: a gang of 10,000 at once, so not in `replace`."""
        self.claims: Counter[Claim] = Counter()
        self.roles: Counter[str] = Counter()
        """How often Pods name each role, as each account and each size below."""
        self.accounts: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self.may_run = 0
        """How many Pods have not ended, and are not to go."""
        self._by_arrival = 0
        """How many Pods wait until all barriers run; if one does, the gang does."""

    def __bool__(self) -> bool:
        return bool(self._at)

    def replace(self, old: Member | None, new: Member | None) -> None:
        """Take in that a Pod was added, has changed or is gone."""
        before, places = (self.by_arrival, self._leader_since), {one.place for one in (old, new) if one is not None}
        if old is not None:
            self._count(old, -1)
            del self._at[old.place][bisect_left(self._at[old.place], _age(old), key=_age)]
            if not self._at[old.place]:
                del self._at[old.place]
                self._placed -= self._has(old.place)
        if new is not None:
            self._count(new, 1)
            self._placed += new.place not in self._at and self._has(new.place)
            insort(self._at.setdefault(new.place, []), new, key=_age)
        for one in (old, new):
            if one is not None and one.claim.kind == foreign.LWS.kind and one.place.index == _LEADER:
                leader = self.current(one.place)
                self._leader_since = _UNKNOWN if leader is None else _age(leader)[0]
        self._judge(places)
        self.has_new_rule |= before != (self.by_arrival, self._leader_since)

    def _count(self, pod: Member, number: int) -> None:
        """Count what a Pod says; what nobody says any more is forgotten."""
        claim = pod.claim
        self.claims[claim] += number
        if not self.claims[claim]:
            del self.claims[claim]
        for counts, said in (self.roles, pod.place.role), (self.accounts, claim.account), (self.sizes, claim.size):
            counts[said] += number
            if not counts[said]:
                del counts[said]
        self._by_arrival += number * claim.by_arrival
        self.may_run += number * (pod.status.phase not in _ENDED and pod.metadata.deletion_timestamp is None)

    def resize(self, size: Size | None) -> None:
        """Take in what the owner says."""
        self._size = size or _NOTHING
        # There are no roles, and so no places, of a gang that can never be complete.
        self._placed, self._ready = (
            sum(map(self._has, where)) if self._size.roles else 0 for where in (self._at, self._seen)
        )
        self._revision += 1

    def current(self, place: Place) -> Member | None:
        """Return the Pod that counts at a place."""
        return self._at[place][-1] if place in self._at else None

    @property
    def by_arrival(self) -> bool:
        """Whether a Pod waits until all barriers run."""
        return self._by_arrival > 0

    @property
    def fits(self) -> bool:
        """Whether the owner said the size that its Pods show: each has a place, and each place a Pod.

        Not while there is a Pod and its size is not known, or the gang can never be complete.
        """
        return self._placed == len(self._at) == self._size.total

    @property
    def not_created(self) -> int:
        """How many places have no Pod."""
        return self._size.total - self._placed

    @property
    def not_ready(self) -> int:
        """How many places have Pods that peers cannot reach yet."""
        return self._placed - self._ready

    def all(self) -> Iterator[Member]:
        """Yield all Pods."""
        for found in self._at.values():
            yield from found

    def summary(self) -> Readiness:
        """Return how far the gang is."""
        if self.has_new_rule and self._size.roles:  # there are none of a gang that can never be complete
            self.has_new_rule = False
            self._judge([*self._at])
        total = self._size.total
        return Readiness(ready=self._ready, total=total, by_arrival=self.by_arrival, member_revision=self._revision)

    def rows(self, _summary: Readiness) -> list[dict[str, Any]]:
        """Return the members of a complete gang, as its roster lists them, with the names of their Pods."""
        found = []
        for role, places in self._places():
            pods = [pod for place in places if (pod := self.current(place)) is not None]
            gpus = max((pod.gpus for pod in pods), default=0)
            tasks = [
                [index, pod.status.pod_ip, pod.metadata.uid[:8], 0, pod.spec.node_name, pod.status.host_ip]
                for index, pod in enumerate(pods)
            ]
            names = [pod.metadata.name for pod in pods]
            found.append({"name": role, **({"gpus": gpus} if gpus else {}), "tasks": tasks, "pods": names})
        return found

    def missing(self) -> Iterator[Missing]:
        """Yield those that were not ready at the last summary, and why."""
        for role, places in self._places():
            for index, place in enumerate(places):
                if place not in self._seen:
                    yield f"{role}-{index}", self._why(self.current(place))

    def _places(self) -> Iterator[tuple[str, Iterable[Place]]]:
        for role, size in self._size.roles.items():
            first = size.first
            yield role, (Place(role, job, first + index) for job in range(size.jobs) for index in range(size.each))

    def _has(self, place: Place) -> bool:
        role = self._size.roles.get(place.role)
        return role is not None and role.index(place) is not None

    def _judge(self, places: Iterable[Place]) -> None:
        for place in places:
            pod, was = self.current(place), self._seen.get(place)
            now = (pod.metadata.uid, pod.status.pod_ip) if pod is not None and not self._why(pod) else None
            if now == was:
                continue
            self._revision += 1
            self._ready += self._has(place) * ((now is not None) - (was is not None))
            if now is None:
                del self._seen[place]
            else:
                self._seen[place] = now

    def _why(self, pod: Member | None) -> str:
        """Return why a Pod is not ready, "" if it is."""
        if pod is None:
            return "has no Pod yet"
        if pod.metadata.deletion_timestamp is not None:
            return readiness.DELETING.phrase
        if pod.status.phase == FAILED:
            return "its Pod has failed"
        if _age(pod)[0] < self._leader_since:
            return "its Pod is older than the leader, and of an earlier start"
        is_there = bool(pod.status.pod_ip) and (not self.by_arrival or readiness.has_arrived(pod))
        return "" if is_there else readiness.why_not_ready(pod.status).phrase


def _age(pod: Member) -> tuple[datetime, str, str]:
    return pod.metadata.creation_timestamp or _UNKNOWN, pod.metadata.uid, pod.metadata.name
