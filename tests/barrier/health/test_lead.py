"""Who decides, and of whom he hears: sidecars of a gang in one process, whose answers may fail at any time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from frameworkbarrier.health import lead
from frameworkbarrier.health.lead import MISSES, MUTE, Finding, Lead, Peer
from frameworkbarrier.health.verdict import Answer

MOVES = Answer(step=5, fastest=5, silent=1.0, limit=20.0, lived=1.0)
HANGS = replace(MOVES, silent=30.0)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead, "PER_SECOND", 1_000_000)


class Gang:
    """The sidecars of some Tasks."""

    def __init__(self, count: int) -> None:
        self.peers = [Peer(f"w-{index}", f"10.0.0.{index}", f"uid-{index}", f"n-{index}") for index in range(count)]
        self.says: dict[str, Answer | None] = {peer.task: MOVES for peer in self.peers}
        self.down: set[str] = set()
        self.asked = 0
        self.leads = {peer.task: Lead(peer.task, self._ask) for peer in self.peers}
        self.follow(0)

    def follow(self, epoch: int) -> None:
        for one in self.leads.values():
            one.follow(self.peers, epoch)

    async def _ask(self, peer: Peer, _epoch: int) -> Answer | None:
        self.asked += 1
        return None if peer.task in self.down else self.says[peer.task] or MUTE

    def round(self) -> dict[str, Finding]:
        """Let each have a round; return what those that lead have found."""
        found = {
            task: asyncio.run(one.round(lambda task=task: self.says[task]))  # type: ignore[misc]
            for task, one in self.leads.items()
            if task not in self.down
        }
        return {task: one for task, one in found.items() if one is not None}


def test_the_first_leads_and_the_others_ask_him_alone() -> None:
    gang = Gang(50)
    assert [*gang.round()] == ["w-0"]
    assert gang.asked == 49 + 49


def test_the_next_leads_after_three_rounds_and_gives_way() -> None:
    gang = Gang(4)
    gang.round()
    gang.down = {"w-0"}
    assert [[*gang.round()] for _ in range(MISSES)] == [[]] * (MISSES - 1) + [["w-1"]]
    gang.says = dict.fromkeys(gang.says, HANGS)
    hang = gang.round()["w-1"].hang
    assert hang is not None
    assert hang.culprits == ("w-0",), "it has answered before"
    gang.down = set()
    gang.round()
    assert [*gang.round()] == ["w-0"]


def test_who_has_stopped_answering_is_the_culprit_and_who_never_did_is_left_out() -> None:
    gang = Gang(4)
    gang.says["w-3"], gang.down = None, {"w-3"}
    assert gang.round()["w-0"].silent == ("w-3",)
    gang.says = {task: said and HANGS for task, said in gang.says.items()}
    gang.down = {"w-2", "w-3"}
    finding = gang.round()["w-0"]
    assert finding.hang is not None
    assert (finding.hang.culprits, finding.silent) == (("w-2",), ("w-3",))
    gang.follow(1)
    assert (found := gang.round()["w-0"].hang) is not None
    assert found.culprits == (), "in a new epoch nothing is known of him"


def test_who_reaches_nobody_any_more_decides_for_himself() -> None:
    gang = Gang(3)
    gang.round()
    gang.says = dict.fromkeys(gang.says, HANGS)
    gang.down = {"w-1", "w-2"}
    finding = gang.round()["w-0"]
    assert finding.hang is not None
    assert (finding.hang.culprits, finding.hang.why) == (("w-0",), "is alone")


def test_who_is_not_in_the_roster_asks_nobody() -> None:
    gang = Gang(2)
    gang.leads = {"x-0": Lead("x-0", gang._ask)}
    gang.says["x-0"] = MOVES
    gang.follow(0)
    assert (gang.round(), gang.asked) == ({}, 0)


@pytest.mark.parametrize(("count", "seconds"), [(3, 5), (250, 5), (1000, 20), (10_000, 200)])
def test_a_gang_of_any_size_costs_fifty_requests_a_second(count: int, seconds: float) -> None:
    pytest.MonkeyPatch().undo()
    led = Lead("w-0", lambda _peer, _epoch: asyncio.sleep(0, None))
    led.follow([Peer(f"w-{index}", "10.0.0.1", "u", "n") for index in range(count)], 0)
    lead.PER_SECOND = 50
    assert led.interval_sec == seconds
