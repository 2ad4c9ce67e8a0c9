"""A fuzzer that keeps what was slow or large, as coverage fuzzers keep what was new.

    python -m tests.cost.fuzzer [--seconds 60] [--seed N] [--target pass]
    python -m tests.cost.fuzzer --target pass --genome '{"roles": 1000}'

Each input is made of a genome, and an input whose cost is among the largest of its kind, absolutely or for its size, is
kept and mutated further. An input that costs more than `bounds` says is printed with the command that repeats it, and
the run fails. The second form plays one genome.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.cost import outputs, passes, reviews, rosters, templates
from tests.cost.bounds import BOUNDS
from tests.cost.meter import Bound, Genome, Measured, Target, measure

OF_THE_CONTROLLER: tuple[Target, ...] = (passes.Passes(), passes.Edits(), templates.Templates(), rosters.Rosters())
OF_OTHERS: tuple[Target, ...] = (reviews.Reviews(), rosters.ForeignRosters(), outputs.Outputs())
TARGETS: Mapping[str, Target] = {one.name: one for one in (*OF_THE_CONTROLLER, *OF_OTHERS)}
KEPT = 6
"""So many inputs are kept for each way to be costly."""
WAYS: Mapping[str, Callable[[Measured], float]] = {
    "slow": lambda one: one.cost.units,
    "slow for its size": lambda one: one.cost.units / one.bound.units,
    "large": lambda one: one.cost.peak,
    "large for its size": lambda one: one.cost.peak / one.bound.peak,
    "many requests": lambda one: one.cost.requests / max(1, one.bound.requests),
}


class TooCostlyError(AssertionError):
    """An input costs more than it may."""


@dataclass
class Corpus:
    """The costliest inputs so far, by the way in which they are."""

    kept: dict[str, list[tuple[float, Genome]]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def offer(self, genome: Genome, found: Measured) -> bool:
        """Keep an input if it is among the costliest in any way; return whether it is."""
        is_kept = False
        for way, cost_of in WAYS.items():
            kept, cost = self.kept[way], cost_of(found)
            if len(kept) < KEPT or cost > kept[-1][0]:
                kept.append((cost, genome))
                kept.sort(key=lambda one: one[0], reverse=True)
                del kept[KEPT:]
                is_kept = True
        return is_kept

    def pick(self, draw: random.Random) -> Genome:
        """Return one of the inputs."""
        return draw.choice(self.kept[draw.choice(sorted(WAYS))])[1]


def check(target: Target, genome: Genome, bounds: Mapping[str, Bound] = BOUNDS) -> Measured | None:
    """Play an input and return what it cost, None if it is larger than any that gets in.

    Raises:
        TooCostlyError: It costs more than it may; the text has the command that repeats it.
    """
    case = target.case(genome)
    if case is None:
        return None
    found = measure(case, bounds)
    if found.faults:
        command = f"python -m tests.cost.fuzzer --target {target.name} --genome '{json.dumps(genome)}'"
        raise TooCostlyError(f"{target.name}: {'; '.join(found.faults)} ({found})\nagain: {command}")
    return found


def fuzz(target: Target, seconds: float, seed: int, bounds: Mapping[str, Bound] = BOUNDS) -> tuple[int, Corpus]:
    """Mutate the costliest inputs for so many seconds of CPU time; return how many were played, and the costliest.

    Raises:
        TooCostlyError: An input costs more than it may.
    """
    draw, corpus, count, begun = random.Random(seed), Corpus(), 0, time.process_time()
    seeds = list(target.seeds().values())
    # In any order: where the time is short, each run has the chance of another beginning.
    for genome in draw.sample(seeds, len(seeds)):
        found = check(target, genome, bounds)
        assert found is not None, f"this seed of {target.name} is larger than any input: {genome}"
        corpus.offer(genome, found)
        count += 1
        if time.process_time() - begun > seconds / 2:
            break
    while time.process_time() - begun < seconds:
        genome = target.mutated(corpus.pick(draw), draw)
        found = check(target, genome, bounds)
        if found is not None:
            corpus.offer(genome, found)
            count += 1
    return count, corpus


def main() -> None:
    """Fuzz all targets in turn, or play one genome."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU time, for each target")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    parser.add_argument("--target", choices=sorted(TARGETS))
    parser.add_argument("--genome", type=json.loads, help="play this one, as a violation prints it")
    options = parser.parse_args()
    targets = [TARGETS[options.target]] if options.target else list(TARGETS.values())
    if options.genome is not None:
        print(check(targets[0], options.genome))
        return
    for target in targets:
        print(f"{target.name}: seed {options.seed}", flush=True)
        count, corpus = fuzz(target, options.seconds, options.seed)
        print(f"{target.name}: {count} inputs")
        for way, kept in corpus.kept.items():
            cost, genome = kept[0]
            print(f"  {way}: {cost:,.2f} {json.dumps(genome)[:300]}", flush=True)


if __name__ == "__main__":
    main()
