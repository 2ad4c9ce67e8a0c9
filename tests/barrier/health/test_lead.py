"""Who decides, and of whom he hears: sidecars of a gang in one process, whose answers may fail at any time."""

import asyncio
from dataclasses import replace

import pytest

from frameworkbarrier.health import lead
from frameworkbarrier.health.lead import MISSES, MUTE, Finding, Lead, Peer
from frameworkbarrier.health.verdict import Answer

MOVES = Answer(step=5, fastest=5, silent=1.0, limit=20.0, lived=1.0)
HANGS = replace(MOVES, silent=30.0)
FIRST = 600.0
LONG = replace(MOVES, silent=601.0)


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
        self.now = 0.0
        self.leads = {peer.task: self.lead(peer.task) for peer in self.peers}
        self.follow(0)

    def lead(self, task: str) -> Lead:
        return Lead(task, self._ask, FIRST, lambda: self.now)

    def follow(self, epoch: int, *, is_ending: bool = False) -> None:
        for one in self.leads.values():
            one.follow(self.peers, epoch, is_ending=is_ending)

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

    def culprits(self, says: Answer, by: str = "w-0") -> tuple[str, ...] | None:
        """Let all say the same in a round; return whom one of them finds to blame for a hang, None if there is none."""
        self.says = dict.fromkeys(self.says, says)
        hang = self.round()[by].hang
        return hang and hang.culprits


def test_the_first_leads_and_the_others_ask_him_alone() -> None:
    gang = Gang(50)
    assert [*gang.round()] == ["w-0"]
    assert gang.asked == 49 + 49


def test_the_next_leads_after_three_rounds_and_gives_way() -> None:
    gang = Gang(4)
    gang.round()
    gang.down = {"w-0"}
    assert [[*gang.round()] for _ in range(MISSES)] == [[]] * (MISSES - 1) + [["w-1"]]
    assert gang.culprits(HANGS, by="w-1") == ("w-0",), "it has answered before"
    gang.down = set()
    gang.round()
    assert [*gang.round()] == ["w-0"]


def test_who_has_stopped_answering_is_the_culprit_as_long_as_it_is_the_same() -> None:
    gang = Gang(4)
    gang.round()
    gang.down = {"w-2"}
    assert gang.culprits(HANGS) == ("w-2",)
    gang.peers[2] = replace(gang.peers[2], uid8="another")
    gang.follow(0)
    assert gang.culprits(HANGS) is None, "a Pod that has just come is waited for"


@pytest.mark.parametrize(
    ("says", "down", "is_ending", "later", "least"),
    [
        ({}, set(), False, 0.0, 0.0),
        ({}, {"w-3"}, False, 9999.0, FIRST),
        ({"w-3": None}, set(), False, 0.0, FIRST),
        ({"w-3": None}, set(), False, FIRST, 0.0),
        ({}, set(), True, 9999.0, FIRST),
    ],
    ids=["all speak", "one was never heard", "one begins", "one never speaks", "some have ended"],
)
def test_a_gang_that_is_not_all_at_work_is_waited_for(
    says: dict[str, Answer | None], down: set[str], is_ending: bool, later: float, least: float
) -> None:
    gang = Gang(4)
    gang.down, gang.now = down, later
    gang.follow(0, is_ending=is_ending)
    for silent in (HANGS, LONG):
        gang.says = dict.fromkeys(gang.says, silent) | says
        finding = gang.round()["w-0"]
        assert (finding.hang is not None) is (silent.silent > least)
        assert set(finding.silent) == says.keys() | down


def test_who_has_done_its_work_is_waited_for_too() -> None:
    gang = Gang(3)
    gang.round()
    gang.now = FIRST
    gang.says = {"w-0": HANGS, "w-1": None, "w-2": None}
    assert gang.round()["w-0"].hang is None


def test_who_reaches_nobody_any_more_decides_for_himself_and_takes_his_time() -> None:
    gang = Gang(3)
    gang.round()
    gang.down = {"w-1", "w-2"}
    for silent, culprits in ((HANGS, None), (LONG, ("w-0",))):
        assert gang.culprits(silent) == culprits


def test_who_is_not_in_the_roster_asks_nobody() -> None:
    gang = Gang(2)
    gang.leads = {"x-0": gang.lead("x-0")}
    gang.says["x-0"] = MOVES
    gang.follow(0)
    assert (gang.round(), gang.asked) == ({}, 0)


@pytest.mark.parametrize(("count", "seconds"), [(3, 5), (250, 5), (1000, 20), (10_000, 200)])
def test_a_gang_of_any_size_costs_fifty_requests_a_second(count: int, seconds: float) -> None:
    pytest.MonkeyPatch().undo()
    led = Lead("w-0", lambda _peer, _epoch: asyncio.sleep(0, None), FIRST)
    led.follow([Peer(f"w-{index}", "10.0.0.1", "u", "n") for index in range(count)], 0)
    lead.PER_SECOND = 50
    assert led.interval_sec == seconds


def test_one_that_is_lost_takes_as_long_as_it_was_to_take() -> None:
    """It saves a checkpoint, and its node is too busy to answer."""
    gang = Gang(3)
    gang.says["w-0"] = replace(MOVES, limit=FIRST, section="checkpoint")
    gang.round()
    gang.down = {"w-0"}
    for silent, is_hang in ((HANGS, False), (LONG, True)):
        gang.says = dict.fromkeys(gang.says, silent)
        found = [gang.round().get("w-1") for _ in range(MISSES)][-1]
        assert found is not None
        assert (found.hang is not None) is is_hang


def test_a_gang_that_changes_during_a_round_is_judged_in_the_next_one() -> None:
    gang = Gang(3)
    led = gang.leads["w-0"]

    async def changes(peer: Peer, _epoch: int) -> Answer:
        led.follow((), 0)
        return HANGS

    led._ask = changes
    assert asyncio.run(led.round(lambda: HANGS)) is None
    gang.follow(0)
    led._ask = gang._ask
    assert gang.culprits(HANGS) is not None
