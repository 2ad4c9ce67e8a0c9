"""Count the false alarms of the watch over a gang, and how soon it finds hangs, in made traces under a virtual clock.

Gangs of eight work in lockstep, as synchronous training does; their real pulses hear what a look each second shows, and
the real `judge` decides each five seconds. The traces are made since public ones are too short, or averages.
"""

import copy
import multiprocessing
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import ceil, inf
from random import Random

from bench.results import flags
from frameworkbarrier.health.lead import INTERVAL_SEC
from frameworkbarrier.health.pulse import Limits, Pulse
from frameworkbarrier.health.report import Report
from frameworkbarrier.health.verdict import Answer, Hang, judge
from frameworkrelease.generate.pages import table

FACTORS_AND_FLOORS = (8, 120), (2, 120), (4, 120), (16, 120), (32, 120), (8, 10), (8, 30), (8, 60), (8, 300)
DEFAULT, *OTHERS = (Limits(least, factor, 1800) for factor, least in FACTORS_AND_FLOORS)
RANKS, HANGS, HOUR = 8, 50, 3600.0
OTHERS_LIMITS, NVRX_FACTOR = (600.0, 1800.0, 2700.0, 0.0), 5.0
"""What users have otherwise: a probe of 10 min, the time-out of gloo, NVRx's default and what it learns (0)."""
MODES = "dead", "elsewhere", "network", "behind", "silent"
"""How ranks hang: by stacks one is elsewhere, or all wait for the network; others have ended a step, or begun it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Traces of one kind: runs of a program, each with new pulses and a first step of 2 to 25 minutes."""

    name: str
    is_marked: bool = True  # what is long is, by a section or signs of life; or nothing is long
    medians: tuple[float, ...] = (1.0, 4.0, 15.0, 60.0)  # seconds of a step, one of them in each run
    length: Callable[[Random, float], float] = lambda *_: 1.0  # of a step in medians, by the seconds of the run so far
    pause: tuple[float, float] = (0.0, 0.0)  # from and to which seconds something else takes, each 10 min to 2 h
    section: str = ""  # of the pause
    beat: float = 0.0  # seconds between signs of life in the pause; without one, of a thread that goes on in a hang
    steps: int = 1  # that each word tells of
    hours: tuple[float, float] = (12.0, 36.0)  # of a run

    def parts(self, random: Random) -> Iterator[tuple[float, int, str, float]]:
        """Yield the parts of a run: seconds, what is made and begins then, and the seconds between signs of life."""
        median, now, (least, most) = random.choice(self.medians) * self.steps, random.uniform(120, 1500), self.pause
        each = max(round(random.uniform(600, 7200) / median), 2)
        pause = least * (most / least) ** random.random() if least else 0.0
        yield now, 1, "", 0 if most else self.beat
        for number in count(2):
            seconds = median * self.length(random, now) * random.uniform(0.97, 1.06)
            long = min(pause * random.lognormvariate(0, 0.3), most) if number % each == 0 else 0.0
            now += seconds + long
            if long and self.section:
                yield seconds, self.steps, self.section, 0
                yield long, 0, "", self.beat
            else:
                yield seconds + long, self.steps, "", self.beat if long or not most else 0


ALL = (
    Kind("steady, 0.2 s", medians=(0.2,), steps=5),
    Kind("steady, 1 s", medians=(1.0,)),
    Kind("steady, 20 s", medians=(20.0,)),
    Kind("steady, 5 min", medians=(300.0,)),
    Kind("a word each 100 steps", medians=(0.5, 2.0, 5.0), steps=100),
    Kind("5 times slower in 6 h, anew", length=lambda _, now: 1 + 4 * (now / HOUR % 6 / 6)),
    Kind("a rank 3 times slower for 2 of 6 h", length=lambda _, now: 3.0 if now / HOUR % 6 > 4 else 1.0),
    Kind("steps lognormal (sigma 1)", is_marked=False, length=lambda random, _: random.lognormvariate(0, 1)),
    Kind("steps Pareto (2.5)", is_marked=False, length=lambda random, _: min(random.paretovariate(2.5) / 1.32, 50)),
    Kind("changes of size", hours=(0.2, 3.0)),
    Kind("checkpoint, section", pause=(30, 1200), section="checkpoint"),
    Kind("checkpoint, neither", is_marked=False, pause=(30, 1200)),
    Kind("evaluation, section", pause=(300, 1500), section="evaluate"),
    Kind("evaluation, signs of life", pause=(300, 1500), beat=5.0),
    Kind("evaluation, neither", is_marked=False, pause=(300, 1500)),
    Kind("evaluation, section, 30 to 60 min", is_marked=False, pause=(1800, 3600), section="evaluate"),
    Kind("a thread touches", beat=10.0),
)
KINDS = {kind.name: kind for kind in ALL}


class Gang:
    """The pulses of a gang, which hear at the next look of each sidecar."""

    def __init__(self, random: Random, now: float) -> None:
        self.phases = [random.random() for _ in range(RANKS)]
        self.pulses = [Pulse(DEFAULT, now) for _ in range(RANKS)]
        self.hear(Report(0), now)

    def hear(self, word: Report | None, now: float, culprit: int = -1) -> None:
        """Let all but a culprit say something, or give a sign of life."""
        for rank, phase in enumerate(self.phases):
            if rank != culprit:
                pulse, seen = self.pulses[rank], ceil(now - phase) + phase
                pulse.hear(word, seen) if word else pulse.live(seen)

    def judge(self, limits: Limits, now: float, mode: str = "", culprit: int = -1) -> Hang | None:
        """Decide as the lead does."""
        answers = {}
        for rank, pulse in enumerate(self.pulses):
            pulse.limits, last = limits, pulse.last
            stack = "/app/data.py" if (mode, rank) == ("elsewhere", culprit) else "/torch/distributed/"
            times = pulse.silent(now), pulse.limit(), now - pulse.lived_at
            answers[str(rank)] = Answer(
                last.step, last.step, *times, last.section, (stack,) if mode in MODES[:3] else ()
            )
        return judge(answers, [str(culprit)] if mode == "dead" and answers.pop(str(culprit)) else [])


@dataclass(slots=True)
class Outcome:
    """What came of the traces of one kind with some limits, in seconds."""

    alarms: int = 0
    after: list[float] = field(default_factory=list)  # from the last progress to the verdict about each hang
    late: float = 0.0  # the latest verdict after the limit had passed
    culprits: Counter[str] = field(default_factory=Counter)


def run(name: str, hours: float, hangs: int, others: tuple[Limits, ...] = ()) -> dict[Limits, Outcome]:
    """Follow runs of one kind for so many hours, with so many hangs, each in a copy of the gang as it is then."""
    kind, random, now = KINDS[name], Random(name), 0.0  # noqa: S311 -- the same traces each time
    outcomes = {limits: Outcome() for limits in (DEFAULT, *others)}
    hung = sorted(random.uniform(0, hours * HOUR) for _ in range(hangs))
    while now < hours * HOUR:
        gang, step, ends = Gang(random, now), 0, now + random.uniform(*kind.hours) * HOUR
        for seconds, grown, section, beat in kind.parts(random):
            if now > ends:
                break
            word, then = Report(step := step + grown, section), now + seconds
            while hung and hung[0] < then:
                hung.pop(0)
                mode, stopped = MODES[len(hung) % len(MODES)], copy.deepcopy(gang)
                culprit = -1 if mode == "network" else random.randrange(RANKS)
                said = word if mode == "behind" else None
                stopped.hear(said, then if said else now + seconds / 10, culprit)
                _hang(stopped, mode, culprit, 0 if kind.pause[1] else kind.beat, outcomes)
            if seconds > 9:  # what is shorter is too long with none of the limits
                _wait(gang, now, then, beat, outcomes)
            gang.hear(word, then)
            now = then
    return outcomes


def _wait(gang: Gang, now: float, then: float, beat: float, outcomes: dict[Limits, Outcome]) -> None:
    """Count who is alarmed until something is said. A silence grows, so the last round in it decides."""
    calm = set(outcomes)
    while now < then:
        now = min(now + beat, then) if beat else then
        polled = min(ceil(now - phase) + phase for phase in gang.phases) // INTERVAL_SEC * INTERVAL_SEC
        silent = min(pulse.silent(polled) for pulse in gang.pulses)
        for limits in [one for one in calm if silent > one.floor and gang.judge(one, polled)]:
            calm.remove(limits)
            outcomes[limits].alarms += 1
        gang.hear(None, now)


def _hang(gang: Gang, mode: str, culprit: int, touches: float, outcomes: dict[Limits, Outcome]) -> None:
    since, lived = max(pulse.moved_at for pulse in gang.pulses), max(pulse.lived_at for pulse in gang.pulses)
    for limits, outcome in outcomes.items():
        hang, hung = gang.judge(limits, since), copy.deepcopy(gang)
        passed = lived + max(pulse.limit() for pulse in gang.pulses)
        polled = passed // INTERVAL_SEC * INTERVAL_SEC
        while hang is None:
            polled += INTERVAL_SEC
            if touches:
                hung.hear(None, polled - 1 - polled % touches)
            hang = hung.judge(limits, polled, mode, culprit)
        is_right = hang.culprits == ((str(culprit),) if culprit >= 0 else ())
        outcome.culprits["right" if is_right else "wrong" if hang.culprits else "unknown"] += 1
        outcome.after.append(polled - since)
        outcome.late = max(outcome.late, polled - max(passed, since + limits.first if touches else 0))


def by_others(name: str, hours: float) -> list[tuple[int, float]]:
    """Return how often each of `OTHERS_LIMITS` ends a run falsely, and after how many seconds it finds a hang.

    They see steps alone. A learned limit holds from the second hour of a run on; it is found by a median here.
    """
    kind, random, now, alarms = KINDS[name], Random(name), 0.0, [0] * len(OTHERS_LIMITS)  # noqa: S311 -- as in `run`
    learned = []
    while now < hours * HOUR:
        begun, longest, ends = now, 0.0, now + random.uniform(*kind.hours) * HOUR
        for number, (seconds, *_) in enumerate(kind.parts(random)):
            if now > ends:
                break
            now += seconds
            if number and now < begun + HOUR:
                longest = max(longest, seconds)
            limits = (limit or (NVRX_FACTOR * longest if now >= begun + HOUR else inf) for limit in OTHERS_LIMITS)
            for place, limit in enumerate(limits):
                alarms[place] += number > 0 and seconds > limit
        learned.append(NVRX_FACTOR * longest)
    return [(count, limit or statistics.median(learned)) for count, limit in zip(alarms, OTHERS_LIMITS, strict=True)]


def main() -> None:
    """Run from the command line."""
    parser = flags(__doc__)
    parser.add_argument("--hours", type=float, default=1000.0, help="of each kind (default: %(default)s)")
    hours = parser.parse_args().hours
    with multiprocessing.Pool() as pool:
        found = pool.map(partial(run, hours=hours, hangs=HANGS, others=tuple(OTHERS)), KINDS, 1)
        others = pool.map(partial(by_others, hours=hours), KINDS, 1)
    named = "right", "unknown", "wrong"
    rows = [["trace", "hours", "marked", "alarms / 1,000 h", "found after s, median", "worst", "s after limit", *named]]
    more = [["alarms per 1,000 h / median s", *(f"{factor}, {floor} s" for factor, floor in FACTORS_AND_FLOORS)]]
    beside = [
        ["alarms per 1,000 h / found after s", "defaults", *(f"{one} s" if one else "learned" for one in OTHERS_LIMITS)]
    ]
    for name, outcomes, otherwise in zip(KINDS, found, others, strict=True):
        of, marked = outcomes[DEFAULT], "yes" if KINDS[name].is_marked else "no"
        cells = [f"{one.alarms * 1000 / hours:.3g} / {statistics.median(one.after):.0f}" for one in outcomes.values()]
        worst = f"{max(of.after):.0f}", f"{of.late:.0f}", *(str(of.culprits[one]) for one in named)
        rows.append([name, f"{hours:.0f}", marked, *cells[0].split(" / "), *worst])
        more.append([name, *cells])
        beside.append([name, cells[0], *(f"{count * 1000 / hours:.3g} / {after:.0f}" for count, after in otherwise)])
    for head, *body in (rows, more, beside):
        print("", *table(head, body), sep="\n")


if __name__ == "__main__":
    main()
