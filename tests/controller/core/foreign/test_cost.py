"""What gangs of other controllers cost: an event as much among many Pods as among few, whatever their labels say.

It is counted in calls of Python functions, so that neither the machine nor the time decides.
"""

import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from frameworkcontroller.api.meta import Meta, Partial
from frameworkcontroller.core.effects import Done, FindOwner, Found
from frameworkcontroller.core.foreign.gang import JUDGED_A_SECOND, JUDGED_AT_ONCE, ForeignGang, Paces
from frameworkcontroller.core.foreign.members import Members
from frameworkcontroller.core.foreign.owners import RoleSize, Size, size_of
from frameworkcontroller.core.foreign.pods import FOREIGN_POD_DECODER, ForeignPods, Member
from frameworkcontroller.core.gang.publisher import Phase
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from tests.controller.core.foreign.foreign_world import START, World
from tests.controller.core.reconcile.test_cost import calls
from tests.support.beside import foreign_pods as make

FEW_CALLS = 100
"""Of one event of a Pod, which no namespace is charged for, and of the decision after it."""

CONFIG_MAP = Partial(Meta(name="gang-attempt", uid="u", resource_version="7", creation_timestamp=START))


def member(keep: ForeignPods, pod: dict[str, Any]) -> Member:
    found = keep(FOREIGN_POD_DECODER.decode(msgspec.json.encode(pod)))
    assert isinstance(found, Member)
    return found


def gathering(number: int) -> tuple[ForeignGang, Callable[[int], Member]]:
    """A gang of a Job whose Pods are all there and wait for their addresses."""
    keep = ForeignPods(slim := SlimPods(), slim.share)
    gang = ForeignGang("default", "gang-job.train.uid-of-train", lambda: 0.5, Paces(), grants=True)
    for index in range(number):
        gang.members.replace(None, member(keep, make.of_job(index)))
    (effect,) = gang.decide(START, None).effects
    assert isinstance(effect, FindOwner)
    owner = make.owner({"parallelism": number, "completions": number})
    meta = member(keep, make.of_job(0)).metadata
    gang.apply_outcome(effect, Found(meta, document=msgspec.json.encode(owner)), START)
    gang.decide(START, None)
    return gang, lambda index: member(keep, make.of_job(index, ip="10.1.0.1"))


def test_an_event_costs_the_same_among_few_and_many_pods() -> None:
    costs = []
    for number in (10, 1000):
        gang, addressed = gathering(number)
        pod, before = addressed(5), next(one for one in gang.members.all() if one.place.index == 5)

        def event(gang: ForeignGang = gang, before: Member = before, pod: Member = pod) -> None:
            gang.members.replace(before, pod)
            gang.decide(START, None)

        costs.append(calls(event))
    assert costs[1] <= costs[0] + 10, costs


def hostile_lws(number: int) -> dict[str, Any]:
    """Workers and leaders of any age and size, by any account."""
    return make.of_lws(0, number % 7, number, pod=f"p{number}", account=f"a{number}", created=number % 60)


def waits_for_barriers(number: int) -> dict[str, Any]:
    """One waits for barriers, so all do, until it is gone."""
    waits = {f"{make.ANNOTATION}wait-for": "arrived"} if number == 0 else {}
    return make.of_job(number, ip="10.1.0.1", annotations=waits, account=f"a{number}")


HOSTILE: dict[str, Callable[[int], dict[str, Any]]] = {
    "one place": lambda number: make.of_job(0, pod=f"p{number}", created=number % 60, account=f"a{number}"),
    "any place": lambda number: make.of_job(number * 7919 % 99_999, pod=f"p{number}", ip="10.1.0.1"),
    "any size": lambda number: make.bare("worker", number % 9999, f"worker={number}", pod=f"p{number}"),
    "any role": lambda number: make.bare(f"r{number}", 0, f"r{number}=1", pod=f"p{number}"),
    "any worker": hostile_lws,
    "one that waits for barriers": waits_for_barriers,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_event_of_a_gang_of_contradicting_pods_takes_long(kind: str) -> None:
    keep, pod = ForeignPods(slim := SlimPods(), slim.share), HOSTILE[kind]
    members = [member(keep, pod(number)) for number in range(10_000)]
    gang = ForeignGang("default", members[0].claim.gang, lambda: 0.5, Paces(), grants=True)
    for one in members:
        gang.members.replace(None, one)
    draw = random.Random(7)
    for one in [members[0], *draw.sample(members, 3)]:
        changed = msgspec.structs.replace(one, gpus=1)
        assert calls(lambda one=one, changed=changed: gang.members.replace(one, changed)) < FEW_CALLS
        for effect in gang.decide(START, None).effects:
            meta = one.metadata
            gang.apply_outcome(effect, Found(meta, document=msgspec.json.encode(make.owner({"completions": 5}))), START)
        assert calls(lambda: gang.decide(START, CONFIG_MAP)) < FEW_CALLS
        assert calls(lambda changed=changed: gang.members.replace(changed, None)) < FEW_CALLS


def test_pods_of_a_gang_that_can_never_be_complete_are_not_judged() -> None:
    """40,000 Pods of which one waits for barriers, and does not, took 150 ms each time."""
    keep, members = ForeignPods(slim := SlimPods(), slim.share), Members()
    for number in range(500):
        members.replace(None, member(keep, waits_for_barriers(number)))
    for never, is_cheap in (("it has too many Pods", True), ("", False)):
        members.resize(Size("uid", {} if never else {"Job": RoleSize(1, 500)}, never))
        assert (calls(members.summary) < FEW_CALLS) is is_cheap


def test_a_gang_is_judged_by_new_rules_once_a_second_however_often_one_pod_brings_one() -> None:
    """Each edit of one of 10,000 Pods took 9 ms."""
    gang, addressed = gathering(500)
    before, costs = next(one for one in gang.members.all() if one.place.index == 0), []
    for step in range(100):
        waits = msgspec.structs.replace(addressed(0).claim, by_arrival=step % 2 == 0)
        gang.members.replace(before, before := msgspec.structs.replace(addressed(0), claim=waits))
        now = START + timedelta(seconds=step / 20)
        costs.append(calls(lambda now=now: gang.decide(now, CONFIG_MAP)))
    assert JUDGED_AT_ONCE <= sum(cost > 500 for cost in costs) <= JUDGED_AT_ONCE + 5 * JUDGED_A_SECOND


FLIPS: dict[str, dict[str, Any]] = {
    "another size": make.bare("worker", 0, "worker=499", ip="10.1.0.1"),
    "a role that there is not": make.bare("x", 0, "worker=500", ip="10.1.0.1", pod="mine-worker-0"),
    "a place that there is not": make.bare("worker", 900, "worker=500", ip="10.1.0.1", pod="mine-worker-0"),
}


@pytest.mark.parametrize("flip", FLIPS)
def test_one_pod_that_says_this_and_that_has_its_gang_looked_through_once_a_second(flip: str) -> None:
    """Each edit of one of 10,000 took 6 ms: all were counted by another size, or listed to find them unchanged."""
    keep = ForeignPods(slim := SlimPods(), slim.share)
    members = [member(keep, make.bare("worker", number, "worker=500", ip="10.1.0.1")) for number in range(500)]
    gang = ForeignGang("default", members[0].claim.gang, lambda: 0.5, Paces(), grants=False)
    for one in members:
        gang.members.replace(None, one)

    def decide(now: datetime) -> None:
        for effect in gang.decide(now, CONFIG_MAP).effects:
            gang.apply_outcome(effect, Done("u", "7"), now)

    decide(START)
    assert gang.status is not None
    assert gang.status.phase is Phase.COMPLETE
    before, costs, said = members[0], [], [member(keep, FLIPS[flip]), members[0]]
    for step in range(200):
        gang.members.replace(before, before := said[step % 2])
        now = START + timedelta(seconds=10 + step / 20)
        costs.append(calls(lambda now=now: decide(now)))
    assert sum(cost > 500 for cost in costs) <= JUDGED_AT_ONCE + 2 * 10 * (JUDGED_A_SECOND + 1)


@pytest.mark.parametrize("number", [256, 12_000])
def test_gpus_are_counted_of_as_many_containers_as_a_pod_of_a_framework_may_have(number: int) -> None:
    """Each event of a Pod of 12,000 containers took 46 ms."""
    keep, pod = ForeignPods(slim := SlimPods(), slim.share), make.of_job(0, gpus=8)
    pod["spec"]["containers"] *= number
    found = FOREIGN_POD_DECODER.decode(msgspec.json.encode(pod))
    kept = keep(found)
    assert isinstance(kept, Member)
    assert kept.gpus == (8 * number if number == 256 else 0)
    assert calls(lambda: keep(found)) < 10 * 256


def leader(number: int) -> dict[str, Any]:
    """One of many that say they are the leader."""
    return make.of_lws(0, 0, 3, pod=f"p{number}", created=number % 60)


@pytest.mark.parametrize("pod", [HOSTILE["one place"], leader])
def test_of_many_pods_at_one_place_the_youngest_counts_and_each_costs_little(
    pod: Callable[[int], dict[str, Any]],
) -> None:
    keep, members = ForeignPods(slim := SlimPods(), slim.share), Members()
    left = [member(keep, pod(number)) for number in range(400)]
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
    now = START
    for _ in range(20):
        decision = gang.decide(now, CONFIG_MAP)
        for effect in decision.effects:
            gang.apply_outcome(effect, Done("u", "7"), now)
        if not decision.effects:
            if decision.wake_at is None:
                break
            now = decision.wake_at
    assert gang.status is not None
    assert gang.status.phase is Phase.LATE
    assert now - START < timedelta(seconds=40)


def test_a_text_about_the_size_takes_little_memory_whatever_it_is_of() -> None:
    """40,000 Pods with 1,024 emoji each took 380 MiB."""
    keep = ForeignPods(slim := SlimPods(), slim.share)
    kept = [
        member(keep, make.bare("worker", 0, text)).claim.size for text in ("\U0001f600" * 2000, "x" * 2000, "w\xe9=1")
    ]
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
    gang, asked = ForeignGang("default", "gang-pod.mine", lambda: 0.5, Paces(), grants=True), 0
    config_map = Partial(Meta(name="gang-pod.mine-attempt", uid="u", resource_version="7", deletion_timestamp=deleted))
    for seconds in range(0, 3600, 5):
        now = START + timedelta(seconds=seconds)
        for effect in gang.decide(now, config_map).effects:
            gang.apply_outcome(effect, Done("u", "7"), now)
            asked += 1
    assert bool(most) <= asked <= most
