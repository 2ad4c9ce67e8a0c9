"""Genomes of numbers and words, and how they are mutated."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cost.meter import Genome


@dataclass(frozen=True)
class Number:
    """A gene: a whole number from `least` to `most`."""

    least: int
    most: int

    def drawn(self, value: Any, draw: random.Random) -> int:
        """Return another value: most steps are a factor, because costs are."""
        match draw.randrange(6):
            case 0:
                value = draw.choice((self.least, self.most))
            case 1:
                value = draw.randint(self.least, self.most)
            case 2:
                value += draw.choice((-1, 1))
            case 3:
                value //= 2
            case _:
                value = value * 2 + 1
        return min(max(int(value), self.least), self.most)


@dataclass(frozen=True)
class Word:
    """A gene: one of several values."""

    values: tuple[object, ...]

    def drawn(self, _value: Any, draw: random.Random) -> object:
        """Return another value."""
        return draw.choice(self.values)


class Genes:
    """The genes of a target; a genome may leave out those that have their least value, or their first."""

    def __init__(self, genes: Mapping[str, Number | Word]) -> None:
        self._genes = genes

    def whole(self, genome: Genome) -> dict[str, Any]:
        """Return a genome with all of its genes."""
        unknown = genome.keys() - self._genes.keys()
        assert not unknown, f"there is no gene {', '.join(unknown)}"
        plain = {name: gene.least if isinstance(gene, Number) else gene.values[0] for name, gene in self._genes.items()}
        return plain | dict(genome)

    def mutated(self, genome: Genome, draw: random.Random) -> dict[str, Any]:
        """Return a genome with some genes changed."""
        changed = self.whole(genome)
        for name in draw.sample(sorted(self._genes), draw.choice((1, 1, 2, 3))):
            changed[name] = self._genes[name].drawn(changed[name], draw)
        return changed


Pieces = list[tuple[str, int]]
"""Text as pieces and how often each is repeated, one after the other."""


def mutated_pieces(pieces: Sequence[Any], alphabet: Sequence[str], draw: random.Random, most: int) -> Pieces:
    """Return the pieces with one of them changed, added, removed or moved; a piece is repeated `most` times at most."""
    changed: Pieces = [(str(text), int(count)) for text, count in pieces]
    place = draw.randrange(len(changed)) if changed else 0
    counts = Number(1, most)
    match draw.randrange(6):
        case 0 if len(changed) > 1:
            del changed[place]
        case 1 if changed:
            changed[place] = (changed[place][0] + draw.choice(alphabet), changed[place][1])
        case 2 if changed:
            changed[place] = (draw.choice(alphabet), changed[place][1])
        case 3 if len(changed) < 8:
            changed.insert(draw.randint(0, len(changed)), (draw.choice(alphabet), draw.choice((1, 1, 100, 10_000))))
        case _ if changed:
            changed[place] = (changed[place][0], counts.drawn(changed[place][1], draw))
    return [(text[:200], count) for text, count in changed] or [(draw.choice(alphabet), 1)]


def joined(pieces: Sequence[Any], limit: int) -> str | None:
    """Return the text, None if it is longer than this."""
    if sum(len(text) * count for text, count in pieces) > limit:
        return None
    return "".join(text * count for text, count in pieces)
