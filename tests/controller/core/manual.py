"""A controller that is driven by hand: each request is answered as a test wants it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.controller.core.driver import Driver
from tests.controller.core.scenarios import TWO_ROLES
from tests.controller.core.world import Plan, World, framework_of

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Effect, Outcome
    from frameworkcontroller.core.reconcile.config import CoreConfig

STAY: dict[str, list[int | str]] = {task_key: ["stay"] for task_key in ("ps-0", "worker-0", "worker-1", "worker-2")}


class Manual(Driver):
    """A controller whose every request can be answered by hand."""

    def __init__(self, spec: str = TWO_ROLES, config: CoreConfig | None = None) -> None:
        super().__init__(World(framework_of(spec), Plan(dict(STAY)), config))

    def ask(self) -> list[Effect]:
        return self.decide().effects

    def answer_as_the_server(self, effect: Effect) -> None:
        self.answer(effect, self.send(effect))

    def second(self, seconds: float = 1) -> None:
        self.world.tick()
        self.world.now += timedelta(seconds=seconds - 1)
        self.see()

    def work_until(self, kind: type[Effect]) -> Effect:
        """All goes well until this is asked for; it is not answered."""
        for _ in range(50):
            found = None
            for effect in self.ask():
                if isinstance(effect, kind) and found is None:
                    found = effect
                else:
                    self.answer_as_the_server(effect)
            if found is not None:
                return found
            self.see()
            self.second()
        raise AssertionError(kind)

    def at_rest(self) -> None:
        for _ in range(20):
            for effect in self.ask():
                self.answer_as_the_server(effect)
            self.second()

    def waits(self, effect: Effect, outcome: Outcome) -> list[float]:
        """After how many seconds it is asked for again, if it is answered like that each time."""
        found = []
        for _ in range(5):
            self.answer(effect, outcome)
            begun = self.world.now
            again = None
            while again is None:
                decision = self.decide()
                again = next((one for one in decision.effects if one.key == effect.key), None)
                for other in decision.effects:
                    if other.key != effect.key:
                        self.answer_as_the_server(other)
                if again is None:
                    assert decision.wake_at is not None, "asks for nothing, and for no call either"
                    self.world.now = max(decision.wake_at, self.world.now)
            effect = again
            found.append((self.world.now - begun).total_seconds())
        return found
