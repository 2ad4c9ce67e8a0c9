"""A controller that is driven by hand: each request is answered as a test wants it."""

from typing import TypeVar

from frameworkcontroller.core.effects import Effect, Outcome
from frameworkcontroller.core.reconcile.config import CoreConfig
from tests.controller.core.driver import Driver
from tests.controller.core.scenarios.lives import STAY, TWO_ROLES
from tests.controller.core.world import Plan, World, framework_of

POD = "{spec: {containers: [{name: main}]}}"
Kind = TypeVar("Kind", bound=Effect)


def bad_and_good(
    *, retries: int = 0, framework: int = 0, tasks: int = 1, failed: int = 1, good: int = 2, pod: str = POD
) -> str:
    """The spec of a Framework with a role `bad` that is retried so often, and a role `good` beside it."""
    return f"""
retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {framework}}}
taskRoles:
- name: bad
  taskNumber: {tasks}
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: {failed}, minSucceededTaskCount: -1}}
  task:
    retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {retries}}}
    pod: {pod}
- name: good
  taskNumber: {good}
  task: {{pod: {POD}}}
"""


def of_roles(pod: str = POD, **numbers: int) -> str:
    """The spec of a Framework with these roles, each of so many Tasks."""
    several = (f"{{name: {name}, taskNumber: {number}, task: {{pod: {pod}}}}}" for name, number in numbers.items())
    return f"taskRoles: [{', '.join(several)}]\n"


class Manual(Driver):
    """A controller whose every request can be answered by hand."""

    def __init__(self, spec: str = TWO_ROLES, config: CoreConfig | None = None) -> None:
        super().__init__(World(framework_of(spec), Plan({"ps-0": ["stay"], **STAY}), config))

    def ask(self) -> list[Effect]:
        return self.decide().effects

    def answer_as_the_server(self, effect: Effect) -> None:
        self.answer(effect, self.send(effect))

    def live(self, seconds: int) -> None:
        """For so long, whatever the controller asks for is answered at once, however often it asks in a second."""
        for _ in range(seconds):
            for _ in range(30):
                if not self.turn():
                    break
                self.see()
            self.second()

    def work_until(self, kind: type[Kind]) -> Kind:
        """All goes well until this is asked for; it is not answered."""
        for _ in range(50):
            found: Kind | None = None
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

    def settle(self) -> list[Effect]:
        """All that is asked for at this moment is answered, until nothing is."""
        answered = list[Effect]()
        while effects := self.turn():
            answered += effects
        return answered

    def at_rest(self) -> None:
        for _ in range(20):
            self.turn()
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
