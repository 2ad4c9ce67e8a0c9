"""Pauses between the Pods of a Task that end as soon as they have begun; pure, and kept in memory only.

A Framework pauses likewise after the second attempt in a row that others end at once, by deleting the ConfigMap. One
whose Pods, or whose status, the API server refuses for good pauses after the first such attempt: the next ends so, too.
After the tenth in a row that ends at once it pauses in any case: each time another Task may have ended it, so that none
of them pauses.

FC creates such a Pod again at once, for ever if its retries have no limit. Here the fifth short run in a row closes the
name of the Pod for a while, and each one that follows for longer. A run has begun when the Pod was seen to run, or else
to get on; the status has that in whole seconds, by which a run of `SHORT_SECONDS` is never short. An end that the
controller has asked for says nothing: no Task pauses because a peer of it crashes (docs/reference/framework-api.md).
"""

from datetime import datetime, timedelta
from typing import Final, TypeAlias

from frameworkcontroller.api.codes import NEVER_RETRIED, Code
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.policies.role import TaskKey

Status: TypeAlias = TaskStatus | FrameworkStatus

SHORT_SECONDS: Final = 10
FREE_ENDS: Final = 5
FIRST_PAUSE: Final = 10
MOST_PAUSE: Final = 300
ATTEMPT: Final[TaskKey] = ("", -1)
"""In the place of a Task: the attempt of the Framework."""
ATTEMPT_ENDS: Final = -FREE_ENDS
"""From here its ends count, so the tenth in a row closes it."""
OTHERS_ENDS: Final = FREE_ENDS - 2
"""From here those count that others make, so the second in a row closes it: nobody deletes two by mistake."""
HOPELESS: Final = Code.POD_CREATION_PERMANENT_ERROR
BY_OTHERS: Final = frozenset({Code.CONFIG_MAP_EXTERNAL_DELETED, HOPELESS})
NEVER_COUNTED: Final = NEVER_RETRIED | {Code.FRAMEWORK_SUSPENDED, Code.FRAMEWORK_PREEMPTED}
"""Of attempts: the controller, or who asked for it, has ended them."""
LEAST_ENDS: Final = FREE_ENDS + 2
"""The end that closes an attempt counts so many, since the next one will end so, too: it begins 40 s later."""
HOPELESS_SECONDS: Final = 2 * MOST_PAUSE
"""Its Pods are asked for minutes later, since those of the attempt before were refused (`backoff`)."""
BEGUN: Final = frozenset({State.CREATION_REQUESTED, State.PREPARING, State.RUNNING})


class CrashLoops:
    """The short runs in a row of one Framework's Tasks, and of its attempts; at most one entry for each."""

    def __init__(self) -> None:
        self._runs: dict[TaskKey, tuple[int, datetime]] = {}  # how many, and until when the next one waits
        self.held: set[TaskKey] = set()
        """The Tasks that ask for a Pod and get none for now, or the attempt if no other, or none, begins for now."""
        self._was_stopped = False
        """The last attempt was suspended or preempted, soon after its start."""

    def note(self, key: TaskKey, before: Status, after: Status, now: Now) -> None:
        """Note what a step of a Task, or an attempt, shows: its instance has ended, or it asks for none any more."""
        if after.state is not State.CREATION_PENDING and (key != ATTEMPT or after.state is not State.ATTEMPT_COMPLETED):
            self.held.discard(key)
        begun = BEGUN if key != ATTEMPT else BEGUN | {State.CREATION_PENDING}
        if before.state in begun and after.state not in begun:
            # An attempt that waited before it began, for example for admission, has not run meanwhile.
            ran = (now.stamp - before.transition_time).total_seconds() if before.state in BEGUN else 0.0
            code = 0 if after.completion is None else after.completion.code
            is_hopeless = key == ATTEMPT and code == HOPELESS
            if key == ATTEMPT:
                stopped = {Code.FRAMEWORK_SUSPENDED, Code.FRAMEWORK_PREEMPTED}
                self._was_stopped = ran < SHORT_SECONDS and code in stopped
            if ran >= (HOPELESS_SECONDS if is_hopeless else SHORT_SECONDS):
                self._runs.pop(key, None)
            elif after.completion is not None and code not in (NEVER_COUNTED if key == ATTEMPT else NEVER_RETRIED):
                by_others = key == ATTEMPT and code in BY_OTHERS
                before_it, _ = self._runs.get(key, (ATTEMPT_ENDS if key == ATTEMPT else 0, now.steady))
                ends = 1 + (max(before_it, OTHERS_ENDS) if by_others else before_it)
                if is_hopeless or (by_others and ends >= FREE_ENDS):
                    ends = max(ends, LEAST_ENDS)
                self._runs[key] = ends, now.steady + timedelta(seconds=pause_after(ends))

    def hold(self, key: TaskKey, now: datetime, turn: datetime | None = None) -> datetime | None:
        """Return until when a Task that asks for a Pod gets none, and note that it waits; None if it may have one.

        Likewise until when no other attempt begins; not before its `turn`, if it has to wait for one.
        """
        until = max(self._runs.get(key, (0, now))[1], turn or now)
        (self.held.add if now < until else self.held.discard)(key)
        return until if now < until else None

    @property
    def has_ended_at_once(self) -> bool:
        """Whether the last attempt ended soon after its start, by others or suspended, or by Pods refused for good."""
        return self._was_stopped or self._runs.get(ATTEMPT, (0,))[0] > OTHERS_ENDS

    @property
    def until(self) -> datetime | None:
        """Until when the last of the Tasks pauses whose instances have ended, None if none has."""
        return max((until for _, until in self._runs.values()), default=None)

    def follow(self, before: FrameworkSpec, after: FrameworkSpec) -> set[TaskKey]:
        """Forget the Tasks that have another template or are not wanted any more, and return those that waited."""
        old = {role.name: role.task.pod for role in before.task_roles or ()}
        kept = {role.name: role.task_number for role in after.task_roles or () if old.get(role.name) == role.task.pod}
        self._runs = {key: runs for key, runs in self._runs.items() if key == ATTEMPT or key[1] < kept.get(key[0], 0)}
        if old.keys() != kept.keys():
            self._runs.pop(ATTEMPT, None)
        held, self.held = self.held, self.held & self._runs.keys()
        return held - self.held

    def why(self, task_key: TaskKey) -> str:
        """Return why the Task gets no Pod, "" if it does not wait."""
        ends = self._runs[task_key][0] if task_key in self.held else 0
        short = f"ended within {SHORT_SECONDS} s of its start {ends} times in a row"
        return f"paused for {pause_after(ends)} s: its Pod {short}" if ends else ""

    def describe(self) -> tuple[str, str] | None:
        """Return what is to be said of all that wait, as reason and text, None if nothing does."""
        if not self.held:
            return None
        if ATTEMPT in self.held:
            seconds = pause_after(self._runs.get(ATTEMPT, (0, None))[0])
            when = f"after a pause of {seconds} s" if seconds else "when others like it have begun, one a second"
            return "AttemptPaused", (
                "its attempt has ended soon after its start, or its Pods are refused for good: the next one begins "
                f"{when}, until crashLoopPause of the controller is false or a template changes"
            )
        (role, index), others = min(self.held), len(self.held) - 1
        more = f" and {others} more Task{'s' * (others > 1)}" if others else ""
        longest = pause_after(max(self._runs[task_key][0] for task_key in self.held))
        return "TasksPaused", (
            f"{role}-{index}{more} ended within {SHORT_SECONDS} s of their start five times in a row or more: their "
            f"Pods are created again after pauses of up to {longest} s, until crashLoopPause of the controller is "
            "false or the template changes"
        )


def pause_after(ends: int) -> int:
    """Return for how many seconds the next Pod waits after so many short runs in a row."""
    return 0 if ends < FREE_ENDS else min(MOST_PAUSE, FIRST_PAUSE * 2 ** min(ends - FREE_ENDS, 16))
