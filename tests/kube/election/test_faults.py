"""Hundreds of failovers under random faults: no candidate ever works while another holds the Lease."""

import asyncio
import os
import random

import pytest

from tests.kube.election.electorate import FAULTS, Candidate, Election, Fault, late

SEEDS = int(os.environ.get("ELECTION_SEEDS", "6"))
EVENTS = 25
NAMES = ("a", "b", "c")


class Faults:
    """Draws what goes wrong, and the lives of three replicas."""

    def __init__(self, world: Election, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.fault_rate = self.random.choice((0.0, 0.1, 0.4))
        self.rates = {name: self.random.uniform(1.0, 1.15) for name in NAMES}
        self.running: dict[str, Candidate] = {}
        world.random_fault = self.fault

    def fault(self, _name: str) -> Fault | None:
        if self.random.random() >= self.fault_rate:
            return None
        return self.random.choice((*FAULTS.values(), late(self.random.uniform(0, 20))))

    def start(self, name: str) -> None:
        candidate = self.world.candidate(name, rate=self.rates[name], draw=self.random.random)
        candidate.stubborn_seconds = self.random.choice((0.0, 0.0, 1.0, 3.0, 100.0))
        self.running[name] = candidate.start()

    async def event(self) -> None:
        # The holder is where it hurts.
        name = self.random.choice((self.world.holder or "a", *NAMES))
        match self.random.choice(("kill", "stop", "cut off", "touch")):
            case _ if name not in self.running:
                pass
            case "kill":
                self.running[name].kill()
            case "stop":
                await self.running[name].stop()
            case "cut off":
                self.world.cut_off(name)
            case "touch":
                self.world.annotate(touched="yes")
        await asyncio.sleep(self.random.uniform(0, 30))
        self.world.faults.clear()
        for name, candidate in list(self.running.items()):
            if candidate.task.done() or not candidate.alive:
                candidate.kill()
                self.start(name)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_candidate_works_while_another_holds_the_lease(world: Election, seed: int) -> None:
    faults = Faults(world, seed)
    for name in NAMES:
        faults.start(name)
    await asyncio.sleep(30)
    for _ in range(EVENTS):
        await faults.event()
    faults.fault_rate = 0.0
    await asyncio.sleep(45)
    recent = {seen.by for seen in world.work() if seen.at > world.server.clock() - 1}
    assert recent == {world.holder}
    assert len(world.terms()) > 1


@pytest.mark.parametrize(("holder", "candidate"), [(1.0, 1.4), (1.4, 1.0), (0.5, 0.7), (2.0, 1.5)])
async def test_clocks_of_other_rates_make_no_two_leaders(world: Election, holder: float, candidate: float) -> None:
    await world.leader(rate=holder, wall_clock=lambda: 10**9 + world.server.clock())
    world.candidate("b", rate=candidate, wall_clock=lambda: 2 * 10**9 + world.server.clock()).start()
    await asyncio.sleep(100)
    assert world.terms() == ["a"]
    world.cut_off("a")
    await asyncio.sleep(60)
    assert world.terms() == ["a", "b"]
