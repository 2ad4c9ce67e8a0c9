"""What gangs of other controllers cost: an event as much among many Pods as among few, whatever their labels say.

It is counted in calls of Python functions, so that neither the machine nor the time decides.
"""

import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import pytest

from frameworkcontroller.api.meta import Meta, Partial
from frameworkcontroller.core.effects import Done, Effect, FindOwner, Found
from frameworkcontroller.core.foreign.gang import JUDGED_A_SECOND, JUDGED_AT_ONCE, ForeignGang, Paces
from frameworkcontroller.core.foreign.members import Members
from frameworkcontroller.core.foreign.owners import RoleSize, Size, size_of
from frameworkcontroller.core.foreign.pods import FOREIGN_POD_DECODER, ForeignPods, Member
from frameworkcontroller.core.gang.publisher import Phase
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from tests.controller.core.foreign.foreign_world import START, World
from tests.controller.core.reconcile.test_cost import calls
from tests.controller.core.values import known
from tests.support.beside import foreign_pods as make
from tests.support.beside.foreign_pods import Json

FEW_CALLS = 100
"""Of one event of a Pod, which no namespace is charged for, and of the decision after it."""

CONFIG_MAP = Partial(Meta(name="gang-attempt", uid="u", resource_version="7", creation_timestamp=START))


def as_members(*pods: Json) -> list[Member]:
    """These Pods as the cache keeps them."""
    keep = ForeignPods(slim := SlimPods(), slim.share)
    found = [keep(FOREIGN_POD_DECODER.decode(msgspec.json.encode(pod))) for pod in pods]
    assert all(isinstance(one, Member) for one in found)
    return [one for one in found if isinstance(one, Member)]


def gang_of(members: list[Member]) -> ForeignGang:
    gang = ForeignGang("default", members[0].claim.gang, lambda: 0.5, Paces(), grants=True)
    for one in members:
        gang.members.replace(None, one)
    return gang


def answer(gang: ForeignGang, effects: list[Effect], now: datetime, owner: Json | None = None) -> None:
    """All goes well; who looks for the owner finds this one."""
    for effect in effects:
        found = Found(CONFIG_MAP.metadata, document=msgspec.json.encode(owner))
        gang.apply_outcome(effect, found if isinstance(effect, FindOwner) else Done("u", "7"), now)


def gathering(number: int) -> tuple[ForeignGang, Member]:
    """A gang of a Job whose Pods are all there and wait for their addresses, and the one of them that comes first."""
    gang = gang_of(as_members(*(make.of_job(index) for index in range(number))))
    owner = make.owner({"parallelism": number, "completions": number})
    answer(gang, gang.decide(START, None).effects, START, owner)
    gang.decide(START, None)
    return gang, next(one for one in gang.members.all() if one.place.index == 0)


def test_an_event_costs_the_same_among_few_and_many_pods() -> None:
    costs = []
    for number in (10, 1000):
        gang, before = gathering(number)
        (addressed,) = as_members(make.of_job(0, ip="10.1.0.1"))

        def event(gang: ForeignGang = gang, before: Member = before, addressed: Member = addressed) -> None:
            gang.members.replace(before, addressed)
            gang.decide(START, None)

        costs.append(calls(event))
    assert costs[1] <= costs[0] + 10, costs


def hostile_lws(number: int) -> Json:
    """Workers and leaders of any age and size, by any account."""
    return make.of_lws(0, number % 7, number, pod=f"p{number}", account=f"a{number}", created=number % 60)


def waits_for_barriers(number: int) -> Json:
    """One waits for barriers, so all do, until it is gone."""
    waits = {f"{make.ANNOTATION}wait-for": "arrived"} if number == 0 else {}
    return make.of_job(number, ip="10.1.0.1", annotations=waits, account=f"a{number}")


HOSTILE: dict[str, Callable[[int], Json]] = {
    "one place": lambda number: make.of_job(0, pod=f"p{number}", created=number % 60, account=f"a{number}"),
    "any place": lambda number: make.of_job(number * 7919 % 99_999, pod=f"p{number}", ip="10.1.0.1"),
    "any size": lambda number: make.bare("worker", number % 9999, f"worker={number}", pod=f"p{number}"),
    "any role": lambda number: make.bare(f"r{number}", 0, f"r{number}=1", pod=f"p{number}"),
    "any worker": hostile_lws,
    "one that waits for barriers": waits_for_barriers,
}


@pytest.mark.parametrize("pod", HOSTILE.values(), ids=HOSTILE)
def test_no_event_of_a_gang_of_contradicting_pods_takes_long(pod: Callable[[int], Json]) -> None:
    members = as_members(*(pod(number) for number in range(10_000)))
    gang = gang_of(members)
    for one in [members[0], *random.Random(7).sample(members, 3)]:
        changed = msgspec.structs.replace(one, gpus=1)
        assert calls(lambda one=one, changed=changed: gang.members.replace(one, changed)) < FEW_CALLS
        answer(gang, gang.decide(START, None).effects, START, make.owner({"completions": 5}))
        assert calls(lambda: gang.decide(START, CONFIG_MAP)) < FEW_CALLS
        assert calls(lambda changed=changed: gang.members.replace(changed, None)) < FEW_CALLS


def test_pods_of_a_gang_that_can_never_be_complete_are_not_judged() -> None:
    """40,000 Pods of which one waits for barriers, and does not, took 150 ms each time."""
    members = gang_of(as_members(*(waits_for_barriers(number) for number in range(500)))).members
    for never, is_cheap in (("it has too many Pods", True), ("", False)):
        members.resize(Size("uid", {} if never else {"Job": RoleSize(1, 500)}, never))
        assert (calls(members.summary) < FEW_CALLS) is is_cheap


def looks_through_all(gang: ForeignGang, before: Member, said: list[Member], turns: int) -> int:
    """How often the gang looks at each of its 500 Pods, while one says this and that twenty times a second."""
    costs = []
    for turn in range(turns):
        gang.members.replace(before, before := said[turn % 2])
        now = START + timedelta(seconds=10 + turn / 20)
        costs.append(calls(lambda now=now: answer(gang, gang.decide(now, CONFIG_MAP).effects, now)))
    return sum(cost > 500 for cost in costs)


def test_a_gang_is_judged_by_new_rules_once_a_second_however_often_one_pod_brings_one() -> None:
    """Each edit of one of 10,000 Pods took 9 ms."""
    gang, before = gathering(500)
    (one,) = as_members(make.of_job(0, ip="10.1.0.1"))
    said = [
        msgspec.structs.replace(one, claim=msgspec.structs.replace(one.claim, by_arrival=is_so))
        for is_so in (True, False)
    ]
    looks = looks_through_all(gang, before, said, 100)
    assert JUDGED_AT_ONCE <= looks <= JUDGED_AT_ONCE + 5 * JUDGED_A_SECOND


FLIPS: dict[str, Json] = {
    "another size": make.bare("worker", 0, "worker=499", ip="10.1.0.1"),
    "a role that there is not": make.bare("x", 0, "worker=500", ip="10.1.0.1", pod="mine-worker-0"),
    "a place that there is not": make.bare("worker", 900, "worker=500", ip="10.1.0.1", pod="mine-worker-0"),
}


@pytest.mark.parametrize("flip", FLIPS.values(), ids=FLIPS)
def test_one_pod_that_says_this_and_that_has_its_gang_looked_through_once_a_second(flip: Json) -> None:
    """Each edit of one of 10,000 took 6 ms: all were counted by another size, or listed to find them unchanged."""
    members = as_members(*(make.bare("worker", number, "worker=500", ip="10.1.0.1") for number in range(500)))
    gang = gang_of(members)
    answer(gang, gang.decide(START, CONFIG_MAP).effects, START)
    assert known(gang.status).phase is Phase.COMPLETE
    looks = looks_through_all(gang, members[0], [*as_members(flip), members[0]], 200)
    assert looks <= JUDGED_AT_ONCE + 2 * 10 * (JUDGED_A_SECOND + 1)


@pytest.mark.parametrize(("number", "gpus"), [(256, 8 * 256), (12_000, 0)])
def test_gpus_are_counted_of_as_many_containers_as_a_pod_of_a_framework_may_have(number: int, gpus: int) -> None:
    """Each event of a Pod of 12,000 containers took 46 ms."""
    pod = make.of_job(0, gpus=8)
    pod["spec"]["containers"] *= number
    kept: list[Member] = []
    assert calls(lambda: kept.extend(as_members(pod))) < 10 * 256
    assert kept[0].gpus == gpus


def leader(number: int) -> Json:
    """One of many that say they are the leader."""
    return make.of_lws(0, 0, 3, pod=f"p{number}", created=number % 60)


@pytest.mark.parametrize("pod", [HOSTILE["one place"], leader])
def test_of_many_pods_at_one_place_the_youngest_counts_and_each_costs_little(
    pod: Callable[[int], Json],
) -> None:
    members, left = Members(), as_members(*(pod(number) for number in range(400)))
    random.Random(7).shuffle(left)
    costs = [calls(lambda one=one: members.replace(None, one)) for one in left]
    while left:
        youngest = max(left, key=lambda one: (one.metadata.creation_timestamp or START, one.metadata.uid))
        assert members.current(youngest.place) is youngest
        gone = left.pop()
        costs.append(calls(lambda gone=gone: members.replace(gone, None)))
    assert not members
    assert max(costs) < FEW_CALLS


def test_a_gang_that_waits_and_nothing_changes_is_not_looked_at_again() -> None:
    """Each was every 5 s: 6,000 gangs of one Pod took a tenth of a core."""
    gang, _ = gathering(10)
    now: datetime | None = START
    while now is not None:
        assert now - START < timedelta(seconds=40)
        decision = gang.decide(now, CONFIG_MAP)
        answer(gang, decision.effects, now)
        now = now if decision.effects else decision.wake_at
    assert known(gang.status).phase is Phase.LATE


def test_a_text_about_the_size_takes_little_memory_whatever_it_is_of() -> None:
    """40,000 Pods with 1,024 emoji each took 380 MiB."""
    texts = ("\U0001f600" * 2000, "x" * 2000, "w\xe9=1")
    kept = [one.claim.size for one in as_members(*(make.bare("worker", 0, text) for text in texts))]
    assert all(sys.getsizeof(one) < 1100 for one in kept)
    assert kept[2] == "w\\xe9=1"


class Name(str):
    """One that counts comparisons."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_replicated_jobs_are_not_compared_with_each_role_that_pods_name() -> None:
    jobs = [make.replicated_job(f"w{number}", 1, 1) for number in range(100)]
    size_of("JobSet", msgspec.json.encode(make.jobset(jobs)), [Name(f"r{number}") for number in range(100)], [""])
    assert Name.compared < 100


def test_owners_that_are_gone_are_asked_for_seldom() -> None:
    world = World()
    world.put(*(make.of_job(0, name=f"job{number}") for number in range(100)))
    world.settle(600, every=5)
    assert len(world.requests) <= 100 * 12
    assert not world.config_maps


@pytest.mark.parametrize(("deleted", "most"), [(None, 20), (START, 0)])
def test_the_deletion_of_a_roster_that_stays_is_asked_for_seldom_and_not_once_it_is_deleted(
    deleted: datetime | None, most: int
) -> None:
    (mine,) = as_members(make.bare("worker", 0, "1"))
    gang, asked = gang_of([mine]), 0
    gang.members.replace(mine, None)
    meta = msgspec.structs.replace(CONFIG_MAP.metadata, deletion_timestamp=deleted)
    for now in (START + timedelta(seconds=seconds) for seconds in range(0, 3600, 5)):
        effects = gang.decide(now, Partial(meta)).effects
        answer(gang, effects, now)
        asked += len(effects)
    assert bool(most) <= asked <= most
