"""No input that was costly once costs more than `bounds` says; `make fuzz` searches for others."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.cost.fuzzer import TARGETS, TooCostlyError, check, fuzz
from tests.cost.genes import Genes, Number
from tests.cost.meter import Bound, Genome, Play, Size

SEEDS = [
    pytest.param(target, genome, id=f"{target}: {name}")
    for target, one in TARGETS.items()
    for name, genome in one.seeds().items()
]


@pytest.mark.parametrize(("target", "genome"), SEEDS)
def test_an_input_that_was_costly_once_is_within_its_bound(target: str, genome: Genome) -> None:
    assert check(TARGETS[target], genome) is not None, "it is larger than any that gets in"


@dataclass
class Sorting:
    """A slow way to sort, and a wasteful one."""

    numbers: int
    is_wasteful: bool
    bound: str = "sorting"
    requests: int = 0

    @property
    def size(self) -> Size:
        return Size(8 * self.numbers)

    def play(self) -> Play:
        yield self._waste if self.is_wasteful else self._sort

    def _sort(self) -> int:
        rest = list(range(self.numbers))
        return sum(min(rest[at:]) for at in range(len(rest)))

    def _waste(self) -> int:
        return len(bytearray(self.numbers * 10_000))


class Sortings:
    """Numbers to sort; few of them are no problem."""

    name = "sorting"
    genes = Genes({"numbers": Number(1, 5000), "wasteful": Number(0, 1), "nothing": Number(0, 9)})

    def seeds(self) -> Mapping[str, Genome]:
        return {"one": {"numbers": 1}}

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        return self.genes.mutated(genome, draw) | {"wasteful": genome.get("wasteful", 0)}

    def case(self, genome: Genome) -> Sorting | None:
        found = self.genes.whole(genome)
        return Sorting(found["numbers"], bool(found["wasteful"]))


def test_the_search_finds_what_costs_more_than_its_size_allows_and_says_how_to_repeat_it() -> None:
    bounds = {"sorting": Bound(units=(5, 1, 0), peak=(2**40, 0, 0))}
    with pytest.raises(TooCostlyError) as found:
        fuzz(Sortings(), 60, 1, bounds)
    assert "units of CPU time in one step" in str(found.value)
    assert re.search(r"--target sorting --genome '\{\"numbers\": \d{3,}", str(found.value))


def test_memory_is_measured_at_its_peak_and_not_when_the_step_is_over() -> None:
    bounds = {"sorting": Bound(units=(2**40, 0, 0), peak=(1_000_000, 0, 0))}
    assert check(Sortings(), {"numbers": 50, "wasteful": 1}, bounds) is not None
    with pytest.raises(TooCostlyError, match="MiB of memory"):
        check(Sortings(), {"numbers": 1000, "wasteful": 1}, bounds)
