"""How far a gang is, as the sidecar that leads it says: when that is asked, and what the status keeps of it.

At most one request in `EVERY` goes to the Pods of a Framework, and what they answer is text of strangers. It is written
with the status, and nothing waits for it. Source: docs/reference/progress.md, section 5.
"""

from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import MAX_STACK, GangProgress, Word
from frameworkcontroller.core.clock import Now, duration
from frameworkcontroller.core.effects import AskProgress
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.restart.hang import Verdict, as_hang, clean, decoded, of_epoch
from frameworkcontroller.core.status import ledger
from frameworkcontroller.core.status.state import FrameworkState

EVERY: Final = timedelta(seconds=60)
SOON: Final = timedelta(seconds=15)
"""After the gate has opened, and after one that has not answered."""
BELIEVED: Final = timedelta(minutes=5)
"""So long a hang goes on of which nothing is heard any more."""
PLACES: Final = 4
"""So many of the first Tasks are asked in turn until one leads."""
Step = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[int, Meta(ge=0, lt=2**31)]


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the lead says. The bounds are those of what it writes, for what somebody else may."""

    uid: Word
    epoch: Seconds
    ranks: Seconds
    silent: Seconds
    slowest: Step | None = None
    fastest: Step | None = None
    per_minute: Annotated[float, Meta(ge=0, le=2**53)] | None = None
    checkpoint: Step | None = None
    saved_sec: Seconds | None = None
    """Since the last checkpoint."""
    left_out: Annotated[tuple[Word, ...], Meta(max_length=MAX_STACK)] = ()
    hang: Verdict | None = None
    last: Verdict | None = None
    """With which its sidecar has ended before."""


class Asking:
    """When the gang of one attempt is asked, and whom: the first that answers leads."""

    def __init__(self) -> None:
        self._due: datetime | None = None
        self._place = 0
        """Of the one to ask, among the Tasks that run."""

    def decide(
        self, state: FrameworkState, spec: FrameworkSpec, now: datetime, *, is_open: bool
    ) -> tuple[AskProgress | None, datetime | None]:
        """Return the request to make now, if one is due, and when to decide again."""
        facts, gate = state.facts, state.gate
        if not facts.progress_ports or not is_open or not (gate is None or gate.is_open):
            self._due = None
            return None, None
        self._due = self._due or now + SOON
        if now < self._due:
            return None, self._due
        self._due = now + EVERY
        running = (
            (task.attempt_status, facts.progress_ports[role.name])
            for role in spec.task_roles or ()
            if role.name in facts.progress_ports and role.name in state.roles
            for task in state.roles[role.name].active()
            if task.state is State.RUNNING and task.completion is None and task.attempt_status.pod_ip
        )
        found = next(islice(running, self._place, None), None)
        if found is None:
            self._place = 0
            return None, self._due
        (asked, port), attempt_id = found, state.status.attempt_status.id
        return AskProgress(asked.pod_ip or "", port, (asked.pod_uid or "")[:8], attempt_id), self._due

    def take(self, state: FrameworkState, asked: AskProgress, body: bytes | None, now: Now) -> None:
        """Take in an answer; who does not lead, or does not answer, is followed by the next one."""
        answer = None if body is None else decoded(body, Answer)
        attempt = state.status.attempt_status
        is_of_now = asked.attempt_id == attempt.id and state.status.completion is None
        its = (asked.uid8, attempt.gang_epoch or 0)
        if answer is None or (answer.uid, answer.epoch) != its or not is_of_now:
            self._place = (self._place + 1) % PLACES
            self._due = now.steady + (SOON if self._place else EVERY)
            progress = attempt.progress
            if progress and progress.hang is not None and now.stamp - progress.time > BELIEVED:
                state.report_progress(replace(progress, hang=None))
            return
        if state.facts.hang_limit is not None:
            ledger.note_hang(state, answer.last, now)
        before = attempt.progress or GangProgress(time=now.stamp)
        saved = before.checkpoint_time if answer.saved_sec is None else now.stamp - duration(answer.saved_sec)
        hang = None if answer.hang is None else as_hang(answer.hang, attempt.id, now.stamp)
        if hang is not None and before.hang is not None and before.hang.epoch == hang.epoch:
            hang = before.hang  # it goes on, since when it did
        found = GangProgress(
            time=now.stamp,
            slowest=answer.slowest,
            fastest=answer.fastest,
            per_minute=answer.per_minute,
            checkpoint=before.checkpoint if answer.checkpoint is None else answer.checkpoint,
            checkpoint_time=saved,
            ranks=answer.ranks,
            left_out=tuple(map(clean, answer.left_out)),
            hang=hang,
        )
        state.report_progress(found)
        if hang is not None and hang is not before.hang and of_epoch(state.status, hang.epoch) is None:
            state.tell_hang(hang)
        elif hang is None and before.hang is not None:
            text = f"Attempt {attempt.id}: the gang makes progress again, at step {found.slowest}"
            state.add_event(KubeEvent("GangProgressing", text))
