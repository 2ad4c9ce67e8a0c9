"""A controller that works on a world, through caches that may lag, until nothing is left to do."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Dropped, WriteStatus

from . import checks

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from frameworkcontroller.api.types import Framework, Partial, Pod
    from frameworkcontroller.core.effects import Effect, Outcome
    from frameworkcontroller.core.reconciler import FrameworkReconciler

    from .world import World


class Caches:
    """The world as informers show it, so many seconds late: Frameworks, ConfigMaps and Pods each for themselves.

    A cache begins with a list, which is never late.
    """

    def __init__(self, world: World, lags: tuple[int, int, int] = (0, 0, 0)) -> None:
        self._world = world
        self._listed = {pod.metadata.uid for pod in world.pods.values()}
        if world.config_map is not None:
            self._listed.add(world.config_map.metadata.uid)
        self._frameworks = deque([world.framework], maxlen=lags[0] + 1)
        self._config_maps = deque([self._config_map()], maxlen=lags[1] + 1)
        self._pods = deque([self._visible()], maxlen=lags[2] + 1)

    def _config_map(self) -> Partial | None:
        found = self._world.config_map
        return None if found is None or self._is_hidden("fw-attempt", found.metadata.uid) else found

    def _visible(self) -> dict[str, Pod]:
        return {name: pod for name, pod in self._world.pods.items() if not self._is_hidden(name, pod.metadata.uid)}

    def _is_hidden(self, name: str, uid: str) -> bool:
        return uid not in self._listed and self._world.is_hidden(name, uid)

    def refresh(self) -> set[str]:
        """Time has passed; the names of the Pods that are seen to have changed."""
        before = self._pods[0]
        self._frameworks.append(self._world.framework)
        self._config_maps.append(self._config_map())
        self._pods.append(self._visible())
        after = self._pods[0]
        return {name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)}

    @property
    def settled(self) -> bool:
        """Whether nothing is still on its way."""
        return all(late[0] == late[-1] for late in (self._frameworks, self._config_maps, self._pods))

    @property
    def framework(self) -> Framework:
        return self._frameworks[0]

    def config_map(self) -> Partial | None:
        return self._config_maps[0]

    def pod(self, name: str) -> Pod | None:
        return self._pods[0].get(name)


MOMENT = timedelta(milliseconds=600)
"""So short a wait is over before anything else happens."""


class Cut(BaseException):
    """The process dies here."""


@dataclass
class Run:
    """A controller at work, dying where it is told to.

    ``cuts`` are numbers of effects, counted over the whole run: n before the n-th is performed, -n right after it.
    ``script`` is called after every write of the status and every second, to interfere; it looks at what the API server
    shows, never at the clock, so that a cut run meets the same interference.
    """

    world: World
    cuts: frozenset[int] = frozenset()
    script: Callable[[World], None] | None = None
    lags: tuple[int, int, int] = (0, 0, 0)
    limit: int = 400
    effects: int = 0
    transitions: list[str] = field(default_factory=list)
    wake_at: datetime | None = None
    outpaced: int = 0

    def to_the_end(self) -> None:
        """Until the Framework is gone, or completed and kept for long."""
        reconciler, caches = self._start()
        for _ in range(self.limit):
            try:
                busy = self._work(reconciler, caches)
            except Cut:
                reconciler, caches = self._start()
                continue
            if reconciler.outpaced:
                self.outpaced += 1
                reconciler, caches = self._start()
                continue
            if self._is_over(reconciler, caches):
                return
            self._pass_time(reconciler, caches, busy=busy)
        left = f"{self.world.status.state}, {sorted(self.world.pods)}, {reconciler.troubles}"
        raise AssertionError(f"not over after {self.limit} seconds: {left}")

    @property
    def _late(self) -> bool:
        return self.lags != (0, 0, 0)

    def _start(self) -> tuple[FrameworkReconciler, Caches]:
        return self.world.reconciler(), Caches(self.world, self.lags)

    def _is_over(self, reconciler: FrameworkReconciler, caches: Caches) -> bool:
        if not self.world.exists:
            return True
        kept = self.world.config.framework_completed_retain_sec > 10_000
        over = reconciler.state is State.COMPLETED and reconciler.quiet and caches.settled
        return over and kept and not self.world.pods and self.world.config_map is None

    def _pass_time(self, reconciler: FrameworkReconciler, caches: Caches, *, busy: bool) -> None:
        generation = self.world.manifest["metadata"]["generation"]
        if self.script is not None:
            self.script(self.world)
        moved = self.world.tick() or generation != self.world.manifest["metadata"]["generation"]
        checks.guarantees(self.world, late=self._late)
        for name in caches.refresh():
            reconciler.touch_pod(name)
        reconciler.touch_config_map()
        if not moved and not busy and caches.settled and self.wake_at is not None:
            self.world.now = max(self.world.now, self.wake_at)

    def _work(self, reconciler: FrameworkReconciler, caches: Caches) -> bool:
        """Decide and act until there is nothing to do; whether there was anything."""
        rounds = 0
        while self.world.exists:
            decision = reconciler.reconcile(self.world.now, caches)
            self.wake_at = decision.wake_at
            self.transitions += [f"{one.subject}: {one.after}" for one in decision.transitions]
            if not decision.effects:
                if decision.wake_at is not None and decision.wake_at - self.world.now < MOMENT:
                    assert decision.wake_at > self.world.now, "asks to be called again at once, for nothing"
                    self.world.now = decision.wake_at
                    continue
                return rounds > 0
            rounds += 1
            assert rounds < 100, f"never at rest: {decision.effects}"
            for asked in decision.effects:
                effect = reconciler.at_turn(asked, self.world.now)
                outcome = Dropped() if effect is None else self._perform(effect)
                reconciler.settle(effect or asked, outcome, self.world.now)
                checks.guarantees(self.world, late=self._late)
            for name in () if self._late else caches.refresh():
                reconciler.touch_pod(name)
        return True

    def _perform(self, effect: Effect) -> Outcome:
        self.effects += 1
        if self.effects in self.cuts:
            raise Cut
        checks.may_ask_for(self.world, effect)
        outcome = self.world.perform(effect)
        if self.script is not None and isinstance(effect, WriteStatus):
            self.script(self.world)
        if -self.effects in self.cuts:
            raise Cut
        return outcome
