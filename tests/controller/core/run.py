"""A controller that works on a world, through caches that may lag, until nothing is left to do."""

import copy
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Effect, Outcome, WriteStatus
from tests.controller.core import checks
from tests.controller.core.driver import Driver
from tests.controller.core.world import World

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkStatus

MOMENT = timedelta(milliseconds=600)
"""So short a wait is over before anything else happens."""


class Run(Driver):
    """A controller at work, which remembers every world in which it might have died.

    The script interferes; it is called after every write of the status and every second. It looks at what is persisted,
    never at the clock, so that a cut run meets the same interference. The limit is in seconds.
    """

    def __init__(
        self,
        world: World,
        script: Callable[[World], None] | None = None,
        lags: tuple[int, int, int] = (0, 0, 0),
        limit: int = 400,
    ) -> None:
        super().__init__(world, lags)
        self.script, self.limit = script, limit
        self.cuts: dict[str, World] | None = None
        """The world right before and after each effect, if they are remembered."""
        self.written: list[tuple[datetime, FrameworkStatus]] = []
        """What was persisted, and when."""
        self.effects = 0
        self.times_stale = 0

    def to_the_end(self) -> None:
        """Until the Framework is gone, or completed and kept for long."""
        for _ in range(self.limit):
            busy = self._work()
            if self.stale:
                self.times_stale += 1
                self.start()
                continue
            if self._is_over():
                return
            self._pass_time(busy=busy)
        left = f"{self.world.status.state}, {sorted(self.world.pods)}, {self.failures}"
        raise AssertionError(f"not over after {self.limit} seconds: {left}")

    @property
    def _late(self) -> bool:
        return self.lags != (0, 0, 0)

    def _is_over(self) -> bool:
        if not self.world.exists:
            return True
        going = self.world.config.history and "deletionTimestamp" in self.world.manifest["metadata"]
        kept = self.world.kept_seconds > 10_000 and not going
        over = self.state is State.COMPLETED is self.world.status.state and self.caches.up_to_date
        return over and kept and not self.world.pods and self.world.config_map is None

    def _pass_time(self, *, busy: bool) -> None:
        generation = self.world.manifest["metadata"]["generation"]
        if self.script is not None:
            self.script(self.world)
        moved = self.world.tick() or generation != self.world.manifest["metadata"]["generation"]
        checks.guarantees(self.world, late=self._late)
        self.see()
        if not moved and not busy and self.caches.up_to_date and self.wake_at is not None:
            self.world.now = max(self.world.now, self.wake_at)

    def _work(self) -> bool:
        """Decide and act until there is nothing to do; whether there was anything."""
        rounds = 0
        while self.world.exists:
            decision = self.decide()
            if not decision.effects:
                if decision.wake_at is not None and decision.wake_at - self.world.now < MOMENT:
                    assert decision.wake_at > self.world.now, "asks to be called again at once, for nothing"
                    self.world.now = decision.wake_at
                    continue
                return rounds > 0
            rounds += 1
            assert rounds < 100, f"never at rest: {decision.effects}"
            for effect in decision.effects:
                self.answer(*self.perform(effect))
                checks.guarantees(self.world, late=self._late)
            if not self._late:
                self.touch_pods(*self.caches.refresh())
        return True

    def send(self, effect: Effect) -> Outcome:
        self.effects += 1
        self._remember("before")
        checks.may_ask_for(self.world, effect)
        if not self._late:
            checks.may_lose_logs(self.world, effect)
        outcome = super().send(effect)
        if isinstance(effect, WriteStatus):
            self.written.append((self.world.now, self.world.status))
            if self.script is not None:
                self.script(self.world)
        self._remember("after")
        return outcome

    @property
    def gang_ready(self) -> list[tuple[str, str, str]]:
        """Value, reason and message of the condition GangReady, each time it said something else."""
        found = [checks.gang_ready_of(status) for _, status in self.written]
        said = [(one.status, one.reason, one.message) for one in found if one is not None]
        return [one for one, _ in itertools.groupby(said)]

    def _remember(self, when: str) -> None:
        if self.cuts is None:
            return
        last = next(reversed(self.cuts.values()), None)
        # Between two effects of one pass nothing happens to the world.
        if when == "after" or last is None or last.now != self.world.now:
            self.cuts[f"cut {when} effect {self.effects}"] = copy.deepcopy(self.world)

    def others_that_go_on(self) -> Iterator[tuple[str, "Run"]]:
        """Of each of these worlds, the run of another process that goes on in it."""
        assert self.cuts
        for where, world in self.cuts.items():
            other = Run(world, self.script, self.lags, self.limit)
            other.to_the_end()
            yield where, other
