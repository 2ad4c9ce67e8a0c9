"""Count the false alarms of the watch over a gang, and how soon it finds hangs, in made traces under a virtual clock.

`make bench-hangs` prints the tables. Gangs of eight work in lockstep, as synchronous training does; their real pulses
hear what a look each second shows, and the real `judge` decides each five seconds. Public traces of steps are too short
for this, or averages, so these are made: each kind has one thing that makes training silent, as long as there.
"""

import copy
import multiprocessing
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from random import Random

from bench.results import flags
from frameworkbarrier.health.lead import INTERVAL_SEC
from frameworkbarrier.health.pulse import Limits, Pulse
from frameworkbarrier.health.report import Report
from frameworkbarrier.health.verdict import Answer, Hang, judge

DEFAULT = Limits(120, 8, 1800)
PAIRS = (2, 120), (4, 120), (16, 120), (32, 120), (8, 10), (8, 30), (8, 60), (8, 300)
OTHERS = [Limits(floor, factor, 1800) for factor, floor in PAIRS]
RANKS, HANGS, HOUR = 8, 50, 3600.0
CALM_SEC = 9.0
"""No shorter pause between words is too long with any of these."""
MODES = "dead", "elsewhere", "network", "behind", "silent"
"""How ranks hang. Stacks show that one is elsewhere, and for a network that none is; of one that is behind, the others
have ended the step; of a silent one they have begun it, which nothing else shows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Traces of one kind: runs of a program, each with new pulses and a first step of 2 to 25 minutes."""

    name: str
    is_marked: bool = True  # what is long is, by a section or signs of life; or nothing is long
    medians: tuple[float, ...] = (1.0, 4.0, 15.0, 60.0)  # seconds of a step, one of them in each run
    length: Callable[[Random, float], float] = lambda *_: 1.0  # of a step in medians, by the seconds of the run so far
    pause: tuple[float, float] = (0.0, 0.0)  # from and to which seconds something else takes
    section: str = ""  # of the pause
    beat: float = 0.0  # seconds between signs of life in the pause
    touches: float = 0.0  # seconds between those of a thread that goes on in a hang
    steps: int = 1  # that each word tells of
    hours: tuple[float, float] = (12.0, 36.0)  # of a run

    def parts(self, random: Random) -> Iterator[tuple[float, int, str, float]]:
        """Yield parts of a run: seconds, steps made then, the section that begins then, seconds between signs of life.

        A pause comes each 10 minutes to 2 hours, with a length of its own in each run.
        """
        median, now = random.choice(self.medians) * self.steps, random.uniform(120, 1500)
        each = max(round(random.uniform(600, 7200) / median), 2)
        least, most = self.pause
        pause = least * (most / least) ** random.random() if least else 0.0
        yield now, 1, "", self.touches
        for number in count(2):
            seconds = median * self.length(random, now) * random.uniform(0.97, 1.06)
            long = min(pause * random.lognormvariate(0, 0.3), most) if number % each == 0 else 0.0
            now += seconds + long
            if long and self.section:
                yield seconds, self.steps, self.section, 0
                yield long, 0, "", self.beat
            else:
                yield seconds + long, self.steps, "", self.beat if long else self.touches


CHECKPOINT, EVALUATION = (30.0, 1200.0), (300.0, 1500.0)
_KINDS = (
    Kind("steady, 0.2 s", medians=(0.2,)),
    Kind("steady, 1 s", medians=(1.0,)),
    Kind("steady, 20 s", medians=(20.0,)),
    Kind("steady, 5 min", medians=(300.0,)),
    Kind("a word each 100 steps", medians=(0.5, 2.0, 5.0), steps=100),
    Kind("5 times slower in 6 h, anew", length=lambda _, now: 1 + 4 * (now / HOUR % 6 / 6)),
    Kind("a rank 3 times slower for 2 of 6 h", length=lambda _, now: 3.0 if now / HOUR % 6 > 4 else 1.0),
    Kind("steps lognormal (sigma 1)", is_marked=False, length=lambda random, _: random.lognormvariate(0, 1)),
    Kind(
        "steps Pareto (2.5, cut at 50)",
        is_marked=False,
        length=lambda random, _: min(random.paretovariate(2.5) / 1.32, 50),
    ),
    Kind("changes of size", hours=(0.2, 3.0)),
    Kind("checkpoint, section", pause=CHECKPOINT, section="checkpoint"),
    Kind("checkpoint, neither", is_marked=False, pause=CHECKPOINT),
    Kind("evaluation, section", pause=EVALUATION, section="evaluate"),
    Kind("evaluation, signs of life", pause=EVALUATION, beat=5.0),
    Kind("evaluation, neither", is_marked=False, pause=EVALUATION),
    Kind("evaluation, section, 30 to 60 min", is_marked=False, pause=(1800.0, 3600.0), section="evaluate"),
    Kind("a thread touches", touches=10.0),
)
KINDS = {kind.name: kind for kind in _KINDS}


class Gang:
    """The pulses of a gang, and what each sidecar has seen at its last look."""

    def __init__(self, random: Random, now: float) -> None:
        self.phases = [random.random() for _ in range(RANKS)]
        self.pulses = [Pulse(DEFAULT, now) for _ in range(RANKS)]
        self._seen, self._reports = [now] * RANKS, [Report(0)] * RANKS

    def say(self, report: Report, now: float) -> None:
        """Let all say something. Of what is said between two looks, the last is heard."""
        for rank, phase in enumerate(self.phases):
            if (seen := ceil(now - phase) + phase) != self._seen[rank]:
                self.pulses[rank].hear(self._reports[rank], self._seen[rank])
                self._seen[rank] = seen
            self._reports[rank] = report

    def listen(self) -> None:
        """Let the sidecars hear the last word."""
        for pulse, report, seen in zip(self.pulses, self._reports, self._seen, strict=True):
            pulse.hear(report, seen)

    def live(self, now: float) -> None:
        """Let all give a sign of life."""
        for pulse, phase in zip(self.pulses, self.phases, strict=True):
            pulse.live(ceil(now - phase) + phase)

    def judge(self, limits: Limits, now: float, mode: str = "", culprit: int = -1) -> Hang | None:
        """Decide as the lead does."""
        answers = {}
        for rank, pulse in enumerate(self.pulses):
            pulse.limits, last = limits, pulse.last
            stack = "/app/data.py" if (mode, rank) == ("elsewhere", culprit) else "/torch/distributed/"
            known = (last.section, (stack,) if mode in MODES[:3] else ())
            silent, lived = pulse.silent(now), now - pulse.lived_at
            answers[str(rank)] = Answer(last.step, last.step, silent, pulse.limit(), lived, *known)
        return judge(answers, [str(culprit)] if mode == "dead" and answers.pop(str(culprit)) else [])


@dataclass(slots=True)
class Outcome:
    """What came of the traces of one kind with some limits, in seconds."""

    alarms: int = 0
    after: list[float] = field(default_factory=list)  # from the last progress to the verdict about each hang
    late: float = 0.0  # the latest verdict after the limit had passed
    culprits: Counter[str] = field(default_factory=Counter)


def run(name: str, hours: float, hangs: int, *others: Limits) -> dict[Limits, Outcome]:
    """Follow runs of one kind for so many hours, with so many hangs, each in a copy of the gang as it is then."""
    kind, random, now = KINDS[name], Random(name), 0.0  # noqa: S311 -- the same traces each time
    outcomes = {limits: Outcome() for limits in (DEFAULT, *others)}
    hung = sorted(random.uniform(0, hours * HOUR) for _ in range(hangs))
    while now < hours * HOUR:
        gang, step, ends = Gang(random, now), 0, now + random.uniform(*kind.hours) * HOUR
        for seconds, grown, section, beat in kind.parts(random):
            if now > ends:
                break
            step, then = step + grown, now + seconds
            word = Report(step, section)
            while hung and hung[0] < then:
                hung.pop(0)
                mode, culprit = MODES[len(hung) % len(MODES)], random.randrange(RANKS)
                since = _stop(
                    stopped := copy.deepcopy(gang), mode, culprit, word, now + random.uniform(0, 0.1) * seconds, then
                )
                for limits, outcome in outcomes.items():
                    _find(stopped, mode, culprit, since, kind.touches, limits, outcome)
            if seconds > CALM_SEC:
                gang.listen()
                _wait(gang, now, then, beat, outcomes)
            gang.say(word, then)
            now = then
    return outcomes


def _wait(gang: Gang, now: float, then: float, beat: float, outcomes: dict[Limits, Outcome]) -> None:
    """Count who is alarmed until something is said. A silence grows, so the last round in it decides."""
    calm = set(outcomes)
    while calm and now < then:
        now = min(now + beat, then) if beat else then
        polled = min(ceil(now - phase) + phase for phase in gang.phases) // INTERVAL_SEC * INTERVAL_SEC
        silent = min(pulse.silent(polled) for pulse in gang.pulses)
        alarmed = {limits for limits in calm if silent > limits.floor and gang.judge(limits, polled)}
        for limits in alarmed:
            outcomes[limits].alarms += 1
        calm -= alarmed
        if now < then:
            gang.live(now)


def _stop(gang: Gang, mode: str, culprit: int, word: Report, begun: float, ended: float) -> float:
    """Let a gang hang in a part that the others have begun or ended, and return when it has moved last."""
    gang.listen()
    for rank in {*range(RANKS)} - {culprit}:
        if mode == "behind":
            gang.pulses[rank].hear(word, ceil(ended))
        elif mode == "silent":
            gang.pulses[rank].live(ceil(begun))
    return max(pulse.moved_at for pulse in gang.pulses)


def _find(
    stopped: Gang, mode: str, culprit: int, since: float, touches: float, limits: Limits, outcome: Outcome
) -> None:
    """Wait for the verdict."""
    gang = copy.deepcopy(stopped)
    hang = gang.judge(limits, since)
    passed = max(pulse.lived_at for pulse in gang.pulses) + max(pulse.limit() for pulse in gang.pulses)
    polled = passed // INTERVAL_SEC * INTERVAL_SEC
    while hang is None:
        polled += INTERVAL_SEC
        if touches:
            gang.live(polled - 1 - polled % touches)
        hang = gang.judge(limits, polled, mode, culprit)
    is_right = hang.culprits == (() if mode == "network" else (str(culprit),))
    outcome.culprits["right" if is_right else "wrong" if hang.culprits else "unknown"] += 1
    outcome.after.append(polled - since)
    outcome.late = max(outcome.late, polled - max(passed, since + limits.first if touches else 0))


def _measure(name: str, hours: float) -> dict[Limits, Outcome]:
    return run(name, hours, HANGS, *OTHERS)


def main() -> int:
    """Run from the command line."""
    parser = flags(__doc__)
    parser.add_argument("--hours", type=float, default=1000.0, help="of each kind (default: %(default)s)")
    hours = parser.parse_args().hours
    with multiprocessing.Pool() as pool:
        found = pool.starmap(_measure, [(name, hours) for name in KINDS], chunksize=1)
    verdicts = "right", "unknown", "wrong"
    _row("trace", "hours", "marked", "alarms per 1,000 h", "found after s: median", "worst", "late s", *verdicts)
    for name, outcomes in zip(KINDS, found, strict=True):
        of = outcomes[DEFAULT]
        figures = [f"{figure:.0f}" for figure in (statistics.median(of.after), max(of.after), of.late)]
        marked, often = "yes" if KINDS[name].is_marked else "no", f"{of.alarms * 1000 / hours:.3g}"
        _row(name, f"{hours:.0f}", marked, often, *figures, *(of.culprits[one] for one in verdicts))
    print("\nBy factor and floor: alarms per 1,000 h / median seconds until a hang is found.\n")
    _row("trace", *(f"{limits.factor}, {limits.floor} s" for limits in (DEFAULT, *OTHERS)))
    for name, outcomes in zip(KINDS, found, strict=True):
        _row(name, *(f"{of.alarms * 1000 / hours:.3g} / {statistics.median(of.after):.0f}" for of in outcomes.values()))
    return 0


def _row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|")
    if cells[0] == "trace":
        _row(*["---"] * len(cells))


if __name__ == "__main__":
    sys.exit(main())
