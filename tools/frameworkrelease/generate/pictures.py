"""The pictures of the manual, `docs/pictures/*.svg`: of the code's own tables, and of what is said here."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from frameworkcontroller.api.states import NEXT, LedgerState, State
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.generate.drawing import Drawing, sign

FOLDER: Final = REPOSITORY / "docs" / "pictures"
_MEANINGS: Final = {
    State.CREATION_PENDING: ("no ConfigMap: it begins, is queued or suspended", "no Pod"),
    State.CREATION_REQUESTED: ("the ConfigMap is created, its UID is known", "the Pod is created, its UID is known"),
    State.PREPARING: ("Pods are created; no Task has run yet", "Pod Pending: no node yet, or it starts"),
    State.RUNNING: ("a Task runs, or has run", "Pod Running"),
    State.DELETION_PENDING: ("the end is decided, with its reason", "the Pod has ended, or is to end"),
    State.DELETION_REQUESTED: ("the deletion is requested", "the deletion is requested"),
    State.DELETING: ("the ConfigMap goes after its Pods", "the Pod has its grace period"),
    State.ATTEMPT_COMPLETED: ("all Pods are gone for good: retry or not?", "the Pod is gone for good: retry or not?"),
    State.COMPLETED: ("final: the result of the last attempt", "final: the result of the last attempt"),
}
"""What each state means for a Framework, and for a Task."""
_RAILS: Final = {
    State.DELETION_PENDING: ("running", "it ends before it runs"),
    State.DELETING: ("bad", "others delete the {}"),
    State.ATTEMPT_COMPLETED: ("quiet", "it is gone, or was never there"),
}
"""The arrows that leave out states, by where they lead: their colour, and why."""
_PERSISTED: Final = {State.CREATION_PENDING, State.DELETION_PENDING, State.ATTEMPT_COMPLETED}
"""Which decisions are persisted before the controller acts on them (docs/reference/framework-api.md, section 5)."""


def states(title: str, thing: str, column: int) -> str:
    """Draw the states of attempts about a thing, with the meanings of a column: each below the one before it.

    The arrows that leave out states are at the right, and the retry is at the left.
    """
    order, (left, width, height, top, pitch) = list(State), (88, 350, 46, 60, 66)
    middle, right = left + width / 2, left + width
    drawing = Drawing(title, 800, top + pitch * (len(order) - 1) + height + 24)
    place = {state: top + pitch * at for at, state in enumerate(order)}
    rails = {state: right + 28 + 26 * at for at, state in enumerate(_RAILS)}
    drawn: dict[State, list[tuple[str, list[tuple[float, float]]]]] = {state: [] for state in _RAILS}
    for state, to in ((state, to) for state in order for to in order if to in NEXT[state]):
        y, end, name = place[state], place[to], f"{state}-{to}"
        if end == y + pitch:
            drawing.line([(middle, y + height), (middle, end)], "l-accent thick", name=name)
        elif end < y:
            x, from_y, to_y = left - 36, y + height / 2, end + height / 2
            drawing.line([(left, from_y), (x, from_y), (x, to_y), (left, to_y)], "l-accent thick", name=name)
            drawing.text(x, (from_y + to_y) / 2, "retry", "s b halo", "middle")
        else:
            out, into = y + 16 + 10 * list(rails).index(to), end + 9
            drawn[to].append((name, [(right, out), (rails[to], out), (rails[to], into), (right, into)]))
    for to, arrows in drawn.items():
        for _, ways in arrows:
            drawing.line(ways, "gap", head=False)
        for name, ways in arrows:
            drawing.line(ways, f"l-{_RAILS[to][0]}", name=name)
    for state, y in place.items():
        kind = "running" if state is State.RUNNING else "gate" if state in _PERSISTED else "card"
        drawing.box(left, y, width, height, f"f-{kind}")
        drawing.text(middle, y + 19, state, "m b", "middle")
        drawing.text(middle, y + 37, _MEANINGS[state][column], "s q", "middle")
    x = max(rails.values()) + 36
    for row, (hue, why) in enumerate([("accent", "the usual way"), *_RAILS.values()]):
        drawing.line([(x, 82 + 26 * row), (x + 24, 82 + 26 * row)], f"l-{hue}")
        drawing.text(x + 34, 86.5 + 26 * row, why.format(thing))
    drawing.box(x, 178, 24, 16, "f-gate")
    drawing.text(x + 34, 190.5, "persisted before the next step")
    return drawing.svg()


class Actor(NamedTuple):
    """A column: its middle, where its line ends or its spans begin, and their ends with hue and lines of text."""

    name: str
    x: int
    row: float
    spans: Sequence[tuple[float, str, Sequence[str]]] = ()


class Story(NamedTuple):
    """A sequence: time goes down in rows.

    Arrows have a row, from which actor to which ones they go, and a text; notes have a row, an actor, a hue and lines.
    """

    title: str
    half: int  # of the width of a span, in pixels
    gate: float
    actors: Sequence[Actor]
    arrows: Sequence[tuple[float, int, Sequence[int], str]]
    notes: Sequence[tuple[float, int, str, Sequence[str]]]
    texts: Sequence[str]


_STARTS, _WAITS, _RUNS = ["starts"], (7.6, "gate", ["barrier", "waits"]), (9.8, "running", ["program", "runs"])
GANG_START: Final = Story(
    "A gang starts together", half=46, gate=7.6,
    actors=[Actor("you", 74, 0.9), Actor("controller", 220, 7.2), Actor("webhook", 356, 2),
            Actor("Pod 0", 500, 1.5, [(2.8, "starting", _STARTS), _WAITS, _RUNS]),
            Actor("Pod 1", 608, 1.5, [(3.7, "starting", _STARTS), _WAITS, _RUNS]),
            Actor("Pod 2", 716, 1.5, [(4.7, "scheduling", ["waits for", "a node"]), _WAITS, _RUNS])],
    arrows=[(0.6, 0, [1], "kubectl apply"), (1.2, 1, [2], "all Pods at once"), (1.8, 2, [3, 4, 5], "adds barrier"),
            (2.8, 3, [1], "address"), (3.7, 4, [1], "address"), (4.7, 5, [1], "the last address"),
            (6.8, 1, [3, 4, 5], "each barrier sees it")],
    notes=[(5.2, 1, "accent", ["the roster: who is where", "one ConfigMap for all"])],
    texts=["The gate opens for all at once", "No program starts before all its peers are there.",
           "Each finds them: TF_CONFIG, RANK, /etc/hosts, ..."],
)  # fmt: skip
_BEFORE, _AGAIN = ["program runs", "epoch 0"], ["containers", "start again"]
_BACK: Final = [(8.6, "gate", ["barrier", "waits"]), (10.6, "running", ["program runs", "epoch 1"])]
RESTART: Final = Story(
    "A gang restarts in its Pods", half=60, gate=8.6,
    actors=[Actor("controller", 172, 8.2),
            Actor("worker-0", 430, 0.3, [(3.7, "running", _BEFORE), (5.4, "restarting", _AGAIN), *_BACK]),
            Actor("worker-1", 566, 0.3, [(1.4, "running", _BEFORE), (2, "hung", ["exits with 1"]),
                                         (4.6, "restarting", _AGAIN), *_BACK]),
            Actor("worker-2", 702, 0.3, [(3.7, "running", _BEFORE), (6.2, "restarting", _AGAIN), *_BACK])],
    arrows=[(1.7, 2, [0], "a rank has ended"), (3.7, 0, [1, 3], "the others see it"), (4.6, 2, [0], "is back"),
            (5.4, 1, [0], "is back"), (6.2, 3, [0], "is back"), (8.2, 0, [1, 2, 3], "each barrier sees it")],
    notes=[(2, 0, "restarting", ["epoch 1: the gate is closed", "the roster says why"]),
           (6.55, 0, "accent", ["the roster: all are back", "each with its address"])],
    texts=["The gate opens again", "From the last checkpoint, in the same Pods:",
           "nodes, addresses, devices and volumes stay."],
)  # fmt: skip


def sequence(story: Story) -> str:
    """Draw a sequence."""
    half, actors = story.half, story.actors

    def at(row: float) -> float:
        return round(104 + 44 * row, 1)

    drawing = Drawing(story.title, 800, round(at(actors[-1].spans[-1][0])) + 24)
    for actor in actors:
        drawing.line([(actor.x, 92), (actor.x, at(actor.row))], "life", head=False)
    drawing.line([(24, at(story.gate)), (776, at(story.gate))], "l-running dash", head=False)
    for row, source, targets, text in story.arrows:
        xs = [actors[one].x for one in (source, *targets)]
        short = sign(xs[1] - xs[0]) * (half if actors[targets[0]].spans else 3)
        for x, to in itertools.pairwise(xs):
            drawing.line([(x, at(row)), (to - short, at(row))], "l-accent")
        edges = [one.x - half * bool(one.spans) for one in actors if one.spans or one.x in xs]
        drawing.text((min(xs) + min(x for x in edges if x > min(xs))) / 2, at(row) - 7, text, "s halo", "middle")
    for actor in actors:
        drawing.box(actor.x - 46, 58, 92, 34, "f-card")
        drawing.text(actor.x, 80, actor.name, "b", "middle")
        begin = actor.row
        for end, hue, lines in actor.spans:
            drawing.box(actor.x - half, at(begin), 2 * half, at(end) - at(begin), f"f-{hue}", lines)
            begin = end
    for row, one, hue, lines in story.notes:
        drawing.box(actors[one].x - 100, at(row), 200, 46, f"f-{hue}", lines)
    for number, text in enumerate(story.texts):
        drawing.text(24, at(story.gate) + 28 + 21 * number, text, "s" if number else "b")
    return drawing.svg()


def objects() -> str:
    """Draw what belongs to a Framework."""
    drawing = Drawing("What a Framework is made of", 800, 470)

    def named(x: float, y: float, width: float, height: float, hue: str, what: str, name: str) -> None:
        drawing.box(x, y, width, height, f"f-{hue}")
        drawing.text(x + 14, y + 24, what, "b")
        drawing.text(x + width - 14, y + 24, name, "m s", "end")

    named(24, 60, 290, 386, "card", "Framework", "training")
    drawing.text(38, 106, "spec: what you want", "s q")
    drawing.text(38, 125, "status: what has become of it", "s q")
    drawing.box(456, 68, 328, 386, "f-card dash")
    named(448, 60, 328, 386, "card", "Framework attempt 0", "")
    drawing.text(462, 103, "a retry makes attempt 1: all in it is new", "s q")
    named(462, 118, 300, 52, "accent", "ConfigMap", "training-attempt")
    drawing.text(476, 160, "the roster: who is where")
    drawing.line([(314, 144), (462, 144)], "l-quiet")
    drawing.text(381, 136, "owns", "s halo", "middle")
    named(38, 184, 262, 92, "ending", "TaskRole", "chief")
    named(38, 286, 262, 146, "ending", "TaskRole", "worker")
    drawing.box(494, 383, 268, 38, "f-starting dash")
    for task, y in (("chief-0", 224), ("worker-0", 326), ("worker-1", 376)):
        named(52, y, 234, 38, "running", "Task", task)
        named(486, y, 268, 38, "starting", "Pod", f"training-{task}")
        drawing.line([(474, 170), (474, y + 11), (486, y + 11)], "l-quiet", head=False)
        drawing.line([(286, y + 25), (486, y + 25)], "l-accent")
    drawing.text(381, 241, "one Pod at a time", "s halo", "middle")
    drawing.text(462, 437, "a retry of a Task: a new Pod, the others go on", "s q")
    return drawing.svg()


_LIFE: Final = (
    {"queued": 54, "scheduling": 24, "starting": 30, "gate": 18, "running": 130, "lost": 34, "hung": 44},
    {"restarting": 22, "running": 120, "lost": 24, "ending": 20, "backoff": 24},
    {"scheduling": 20, "starting": 22, "gate": 18, "running": 102, "ending": 20},
)
"""A life until a restart in its Pods, until a retry, and until its end: ledger states, and what is lost, in pixels."""
_MARKS: Final = ((280, "checkpoint", "middle"), (358, "restart", "start"), (500, "checkpoint", "end"),
                 (524, "failure", "start"))  # fmt: skip


def ledger() -> str:
    """Draw what one life of a Framework was spent on."""
    drawing, begins = Drawing("One life of a Framework", 800, 442), [24]
    drawing.text(776, 36, "an example, not to scale", "s q", "end")

    def bar(y: float, parts: Mapping[str, int], x: int) -> int:
        for hue, width in parts.items():
            drawing.box(x, y, width, 44, f"f-{hue}")
            drawing.text(x + width / 2 + 2, y - 8, hue, turn=-50)
            x += width
        return x

    def brace(begin: float, end: float, y: float, text: str, kind: str) -> None:
        drawing.line([(begin + 2, y), (begin + 2, y + 9), (end - 2, y + 9), (end - 2, y)], "l-quiet", head=False)
        drawing.text((begin + end) / 2, y + 28, text, kind, "middle")

    for part in _LIFE:
        begins.append(bar(132, part, begins[-1]))
    for x, text, at in _MARKS:
        drawing.line([(x, 178), (x, 186)], "l-bad", head=False)
        drawing.text(x, 200, text, at=at)
    brace(begins[0], begins[2], 212, "attempt 0", "s")
    brace(begins[2], begins[3], 212, "attempt 1", "s")
    sums = {hue: sum(part.get(hue, 0) for part in _LIFE) for hue in ("running", "lost", *LedgerState)}
    bar(338, {hue: width for hue, width in sums.items() if width}, 24)
    share = round(100 * sums["running"] / sum(sums.values()))
    brace(24, 24 + sums["running"], 390, f"goodput {share} %: what has run and is not lost", "b")
    return drawing.svg()


PICTURES: Final[Mapping[str, Callable[[str], str]]] = {
    "framework-states.svg": lambda _: states("The states of a Framework", "ConfigMap", 0),
    "task-states.svg": lambda _: states("The states of a Task", "Pod", 1),
    "gang-start.svg": lambda _: sequence(GANG_START),
    "restart.svg": lambda _: sequence(RESTART),
    "objects.svg": lambda _: objects(),
    "ledger.svg": lambda _: ledger(),
}
"""How each file of the folder is made, whatever it was."""
