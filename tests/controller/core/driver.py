"""Drives a reconciler as the engine does: the one place of these tests that calls it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api.status import Hang
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import Dropped, Failed, Refused
from frameworkcontroller.core.pods.facts import read_all
from frameworkcontroller.core.policies.shares import Shares
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.core.status.reports import Milestone, Transition
from tests.controller.core import checks
from tests.controller.core.caches import Caches
from tests.controller.core.values import events_in

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime

    from msgspec import Raw

    from frameworkcontroller.api.pod_group import PodGroup
    from frameworkcontroller.api.states import State
    from frameworkcontroller.core.effects import Effect, EffectKey, Outcome
    from frameworkcontroller.core.events import KubeEvent
    from frameworkcontroller.core.pods.facts import RoleFacts
    from frameworkcontroller.core.reconcile.decision import Decision
    from tests.controller.core.world import World


def decided(steps: Generator[None, None, Decision]) -> tuple[Decision, int]:
    """What is decided in a pass, and how often it makes way for others."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


class Driver:
    """A controller of one world. Nothing happens by itself: each method is one thing that the engine does."""

    is_checked = True
    """Whether what must hold after a pass is looked at, which asks the controller, too."""

    def __init__(self, world: World, lags: tuple[int, int, int] = (0, 0, 0)) -> None:
        self.world = world
        self.lags = lags
        self.transitions: list[str] = []
        self.events: list[KubeEvent] = []
        self.hangs: list[Hang] = []
        self.seconds: dict[str, float] = {}
        """How long each phase of a gang took."""
        self.failures: dict[EffectKey, str] = {}
        """What the last try of an effect met with."""
        self.wake_at: datetime | None = None
        self.set_back = timedelta()
        self.start()

    def start(self) -> None:
        """A process starts: it lists everything, and reads the Framework."""
        self.caches, self.shares = Caches(self.world, self.lags), Shares()
        self._groups: dict[str, PodGroup] = {}
        """As the informer has told of them."""
        self.reload()

    def reload(self) -> None:
        """The process reads the Framework again; its caches go on as they are."""
        self.reconciler = FrameworkReconciler(
            self.world.framework,
            self.world.config,
            new_uid=self.world.uid,
            draw=random.Random(7).random,
            shares=self.shares,
        )

    @property
    def now(self) -> Now:
        """The time of this machine, whose wall clock may have been set back."""
        return Now(self.world.now, self.world.now - self.set_back)

    @property
    def state(self) -> State | None:
        return self.reconciler.state

    @property
    def stale(self) -> bool:
        return self.reconciler.stale

    def condition(self, kind: str) -> tuple[str, str, str]:
        """The status, the reason and the message of a condition; three empty texts if the Framework has none."""
        found = next((one for one in self.world.status.conditions or () if one.type == kind), None)
        return (found.status, found.reason, found.message) if found else ("", "", "")

    def edit(self, **fields: Any) -> None:
        """The user changes the spec."""
        self.world.spec.update(fields)
        self.world.edited()

    def edit_role(self, place: int, **fields: Any) -> None:
        """The user changes a TaskRole."""
        self.world.spec["taskRoles"][place].update(fields)
        self.world.edited()

    def edit_task(self, place: int, **fields: Any) -> None:
        """The user changes the Task of a TaskRole, for example its template."""
        self.edit_role(place, task=self.world.spec["taskRoles"][place]["task"] | fields)

    def unread(self) -> dict[bytes, Raw]:
        """What is to be read of templates, wherever that is done, and learned."""
        return self.reconciler.spec.unread(self.caches.framework)

    def learn(self, facts: Mapping[bytes, RoleFacts]) -> None:
        """What was read of templates has come."""
        self.reconciler.spec.templates.learn(facts)

    def decide(self) -> Decision:
        """A pass; templates are read before it."""
        self.learn(read_all(self.unread()))
        return decided(self.steps())[0]

    def steps(self) -> Generator[None, None, Decision]:
        """A pass that makes way for others now and then."""
        decision = yield from self.reconciler.steps(self.now, self.caches)
        self.wake_at = decision.wake_at
        if self.is_checked:
            checks.ledger_of_a_pass(self.reconciler)
        self.events += events_in(decision.reports)
        self.hangs += [one for one in decision.reports if isinstance(one, Hang)]
        self.seconds |= {one.phase: one.seconds for one in decision.reports if isinstance(one, Milestone)}
        self.transitions += [f"{one.subject}: {one.after}" for one in decision.reports if isinstance(one, Transition)]
        return decision

    def said(self, reason: str) -> list[str]:
        """The messages of the Events with this reason."""
        return [event.message for event in self.events if event.reason == reason]

    def at_turn(self, effect: Effect) -> Effect | None:
        """What is performed of an effect now."""
        return self.reconciler.at_turn(effect, self.now)

    def perform(self, effect: Effect) -> tuple[Effect, Outcome]:
        """An effect has its turn; what was performed, and the answer, which is not delivered yet."""
        wanted = self.at_turn(effect)
        return (effect, Dropped()) if wanted is None else (wanted, self.send(wanted))

    def send(self, effect: Effect) -> Outcome:
        """A request arrives at the API server."""
        return self.world.perform(effect)

    def answer(self, effect: Effect, outcome: Outcome) -> None:
        """The answer is delivered."""
        self.failures.pop(effect.key, None)
        if isinstance(outcome, Failed | Refused):
            self.failures[effect.key] = outcome.message
        self.reconciler.apply_outcome(effect, outcome, self.now)

    def turn(self) -> list[Effect]:
        """A pass, and what it asks for is performed and answered; all that it has asked for."""
        effects = self.decide().effects
        for effect in effects:
            self.answer(*self.perform(effect))
        return effects

    def touch_pods(self, *names: str) -> None:
        """The informer has Events about these Pods."""
        for name in names:
            self.reconciler.touch_pod(name)

    def touch_config_map(self) -> None:
        """The informer has an Event about the ConfigMap."""
        self.reconciler.touch_config_map()

    def touch_workload(self) -> None:
        """The informer has an Event about the Workload."""
        self.reconciler.touch_companion("")

    def touch_groups(self) -> None:
        """The informer has Events about the groups."""
        before, self._groups = self._groups, dict(self.caches.groups)
        for name in before | self._groups:
            if before.get(name) != self._groups.get(name):
                self.reconciler.touch_companion(name)

    def see(self) -> None:
        """A second has passed for the caches; the informers have Events about what they see changed."""
        self.touch_pods(*self.caches.refresh())
        self.touch_config_map()
        self.touch_workload()
        self.touch_groups()

    def second(self, seconds: float = 1) -> None:
        """A second passes in the world, and more on the clock."""
        self.world.tick()
        self.world.now += timedelta(seconds=seconds - 1)
        self.see()

    def go_on(self, seconds: int) -> None:
        """The controller and the world go on for so long."""
        for _ in range(seconds):
            for _ in range(4):
                self.turn()
            self.second()
