"""How things are called, for people: the same on the screen and in plain lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from demo.facts import Stage

if TYPE_CHECKING:
    from demo.facts import PodFact
    from demo.model import Demo, Task

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\].*?(?:\x07|\x1b\\)|\x9b[0-9;?]*[ -/]*[@-~]")


def clean(text: str) -> str:
    """Return one line of foreign text without what could steer a terminal."""
    spaced = _SEQUENCE.sub("", text).replace("\t", "    ").replace("\n", " ")
    # Not printable are also the characters that turn the direction of writing, and halves of surrogates.
    return "".join(character for character in spaced if character.isprintable())


def duration(seconds: float) -> str:
    """Return `8.3 s`, `2 min 05 s`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s"


def task_state(task: Task) -> str:
    """Return what a Task is at, in a few words: its Pod's containers where they say more than its TaskState."""
    pod = task.pod
    if task.completion is not None and (task.state == "Completed" or task.gone):
        return "succeeded" if task.completion.succeeded else task.completion.phrase
    if pod is None:
        return "to be created"
    if task.gone or pod.deleting:
        return "gone" if task.gone else "ending"
    return _BY_APPLICATION.get(pod.application) or _BY_BARRIER.get(pod.barrier) or _starting(pod)


_BY_APPLICATION = {Stage.DONE: "succeeded", Stage.FAILED: "failed", Stage.RUNNING: "running"}
_BY_BARRIER = {Stage.DONE: "released", Stage.FAILED: "barrier failed", Stage.RUNNING: "waits in the barrier"}


def _starting(pod: PodFact) -> str:
    return "starting" if pod.node else "not scheduled"


def gate(demo: Demo) -> str:
    """Return a sentence about the gate; empty before there is a gang."""
    if demo.applied is None:
        return ""
    if any(t.pod is not None and t.pod.barrier is Stage.ABSENT for t in demo.tasks.values()):
        return "no gate: the Pods were not injected"
    opened = demo.opened
    if opened is not None:
        return f"gate open after {duration(opened - demo.applied)}"
    if demo.roster is not None and demo.roster.complete:
        return "the last Task is ready, the gate opens"
    if demo.roster is not None and demo.roster.waiting_for:
        missing = "; ".join(f"{name} ({why})" if why else name for name, why in demo.roster.waiting_for)
        return clean(f"gate closed, missing: {missing}")
    return "gate closed"


def outcome(demo: Demo) -> str:
    """Return how the Framework stands, in a few words."""
    fact = demo.framework
    if fact is None or not fact.state:
        return "not seen by the controller yet"
    if demo.finished and fact.completion is not None:
        return f"Completed, {fact.completion.phrase}" + ("" if demo.succeeded else f" ({fact.completion.code})")
    return fact.state
