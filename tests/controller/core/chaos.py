"""A world in which anything may happen next: requests under way, caches that hear of things late, twice, in any order
between objects, or not before a relist, crashes at any moment, users and nodes that do what they like.

Left out is what nobody could bear: requests of a dead controller that arrive after the lists of the next one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import Meta, Pod
from frameworkcontroller.core.config import CoreConfig
from frameworkcontroller.core.effects import (
    Dropped,
    Effect,
    Failed,
    Outcome,
    WriteStatus,
)

from . import checks
from .world import Plan, World, framework_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.types import Framework, Partial

POD = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
SPEC = """
executionType: Start
retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 2}
taskRoles: []
"""
ROLES = ("a", "b")
ENDS: tuple[int | str, ...] = ("stay", "stay", "stay", 0, 1, 200, 201, 210)
PAUSES = (0.01, 0.2, 1, 5, 30, 400)


def role(name: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "taskNumber": number,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
        "task": {"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 1}, "pod": POD},
    }


class Caches:
    """What the controller has heard of each object. A Pod's name may stand for a Pod that is long gone."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.relist()

    def relist(self) -> None:
        self._framework = self._world.framework
        self._config_map = self._world.config_map
        self._pods = dict(self._world.pods)

    def hear_of_framework(self) -> None:
        self._framework = self._world.framework

    def hear_of_config_map(self) -> None:
        self._config_map = self._world.config_map

    def hear_of_pod(self, name: str) -> None:
        if name in self._world.pods:
            self._pods[name] = self._world.pods[name]
        else:
            self._pods.pop(name, None)

    @property
    def names(self) -> list[str]:
        """The Pods that there is something to hear of."""
        now = self._world.pods
        return sorted(name for name in self._pods.keys() | now.keys() if self._pods.get(name) is not now.get(name))

    @property
    def framework(self) -> Framework:
        return self._framework

    def config_map(self) -> Partial | None:
        return self._config_map

    def pod(self, name: str) -> Pod | None:
        return self._pods.get(name)


class Chaos:
    """A controller in such a world; each move takes two numbers that say which and how."""

    def __init__(self) -> None:
        self.world = World(framework_of(SPEC), Plan(), CoreConfig())
        self.world.spec["taskRoles"] = [role("a", 2), role("b", 1)]
        self._start()

    def _start(self) -> None:
        self.caches = Caches(self.world)
        self.reconciler = self.world.reconciler()
        self.under_way: list[Effect] = []
        self.answered: list[tuple[Effect, Outcome]] = []

    def move(self, kind: str, one: int, two: int) -> None:
        """Make a move and look at the guarantees."""
        if not self.world.exists:
            return
        self.world.now += timedelta(milliseconds=10)
        MOVES[kind](self, one, two)
        assert not self.reconciler.outpaced, "nobody else writes"
        checks.guarantees(self.world, late=True)

    # --- the controller ----------------------------------------------------------------------------------------------

    def decide(self, _one: int = 0, _two: int = 0) -> None:
        """A pass; what it asks for is on its way then."""
        decision = self.reconciler.reconcile(self.world.now, self.caches)
        for effect in decision.effects:
            checks.may_ask_for(self.world, effect)
        self.under_way += decision.effects

    def perform(self, one: int = 0, _two: int = 0) -> None:
        """A request arrives; its answer is on its way back."""
        if not self.under_way:
            return
        effect = self.under_way.pop(one % len(self.under_way))
        wanted = self.reconciler.at_turn(effect, self.world.now)
        if wanted is None:
            self.answered.append((effect, Dropped()))
        else:
            self.answered.append((wanted, self.world.perform(wanted)))

    def answer(self, one: int = 0, two: int = 0) -> None:
        """An answer arrives, or is lost. Of a write of the status the fate is found out (a conflict tells)."""
        if not self.answered:
            return
        effect, outcome = self.answered.pop(one % len(self.answered))
        if two == 7 and not isinstance(effect, WriteStatus):
            outcome = Failed("no answer")
        self.reconciler.settle(effect, outcome, self.world.now)

    def fail(self, one: int, _two: int) -> None:
        """A request fails before it has an effect."""
        if self.under_way:
            effect = self.under_way.pop(one % len(self.under_way))
            self.reconciler.settle(effect, Failed("sick", retry_after_seconds=0.1), self.world.now)

    def work(self, _one: int, _two: int) -> None:
        """Everything goes well for a moment."""
        for _ in range(3):
            self.decide()
            while self.under_way:
                self.perform()
            while self.answered:
                self.answer()

    def crash(self, one: int, _two: int) -> None:
        """The process dies; each request that was under way arrived or not. Another process begins with lists."""
        self._lose_track(one)
        self._start()

    def reload(self, one: int, _two: int) -> None:
        """The process reads the Framework anew; its caches go on as they are."""
        self._lose_track(one)
        caches = self.caches
        self._start()
        self.caches = caches

    def _lose_track(self, which: int) -> None:
        for place, effect in enumerate(self.under_way):
            if which >> (place % 3) & 1:
                self.world.perform(effect)

    # --- what is heard -----------------------------------------------------------------------------------------------

    def hear(self, one: int, two: int) -> None:
        """One cache hears of one object what is true now, whatever it has missed."""
        changed = self.caches.names
        if two < 5 and changed:
            name = changed[one % len(changed)]
            self.caches.hear_of_pod(name)
            self.reconciler.touch_pod(name)
        elif two == 6:
            self.caches.hear_of_framework()
        else:
            self.caches.hear_of_config_map()
            self.reconciler.touch_config_map()

    def hear_again(self, one: int, two: int) -> None:
        """An event is doubled, or about nothing."""
        self.reconciler.touch_pod(names.pod_name("fw", ROLES[one % 2], two))
        self.reconciler.touch_config_map()

    def relist(self, _one: int = 0, _two: int = 0) -> None:
        """All caches are true."""
        changed = self.caches.names
        self.caches.relist()
        for name in changed:
            self.reconciler.touch_pod(name)
        self.reconciler.touch_config_map()

    # --- everybody else ----------------------------------------------------------------------------------------------

    def wait(self, one: int, _two: int) -> None:
        self.world.now += timedelta(seconds=PAUSES[one % len(PAUSES)])

    def _pod(self, one: int) -> str | None:
        pods = sorted(self.world.pods)
        return pods[one % len(pods)] if pods else None

    def live(self, one: int, two: int) -> None:
        """A kubelet goes on with a Pod, or all do."""
        if two >= 5:
            for name in list(self.world.pods):
                self.world.live(name)
        elif (found := self._pod(one)) is not None:
            self.world.live(found)

    def end(self, one: int, two: int) -> None:
        """From now on the Pods of a Task end like this."""
        if (name := self._pod(one)) is not None:
            self.world.plan.ends[name.removeprefix("fw-")] = [ENDS[two]]

    def lose_node(self, one: int, _two: int) -> None:
        """Nobody knows what became of a Pod; it runs on."""
        if (name := self._pod(one)) is not None and self.world.pods[name].status.phase == "Running":
            pod = self.world.pods[name]
            self.world.pods[name] = replace(pod, status=replace(pod.status, phase="Unknown"))

    def collect(self, _one: int, _two: int) -> None:
        self.world.collect()

    def kill_pod(self, one: int, _two: int) -> None:
        if (name := self._pod(one)) is not None:
            self.world.terminate(name)

    def kill_config_map(self, one: int, _two: int) -> None:
        if one == 0:
            self.world.delete_config_map()
            self.world.interfered = True

    def squat(self, one: int, two: int) -> None:
        """Somebody else takes a name, or gives it back."""
        name = names.pod_name("fw", ROLES[one % 2], two % 3)
        pod = self.world.pods.get(name)
        if pod is None:
            self.world.pods[name] = Pod(Meta(name, self.world.uid(), "1", namespace="ns"))
        elif pod.metadata.controller is None:
            del self.world.pods[name]

    def scale(self, one: int, two: int) -> None:
        """The user wants another number of Tasks in a role; 5 and more: none of the role at all."""
        roles = self.world.spec["taskRoles"]
        name = ROLES[one % 2]
        roles[:] = [entry for entry in roles if entry["name"] != name]
        if two < 5:
            roles.append(role(name, two))
        self.world.edited()

    def edit(self, one: int, two: int) -> None:
        """The user changes what is no scale."""
        for entry in self.world.spec["taskRoles"]:
            entry["frameworkAttemptCompletionPolicy"] = {
                "minFailedTaskCount": (-1, 1, 2)[one % 3],
                "minSucceededTaskCount": (-1, 1, 2)[two % 3],
            }
        self.world.edited()

    def stop(self, one: int, two: int) -> None:
        if one == 0 and two < 2:
            self.world.stop()

    def delete(self, one: int, two: int) -> None:
        if one == two == 0:
            self.world.delete_framework()
            self.world.interfered = True

    # --- the end -----------------------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Everybody behaves, and the user has had enough: it must end, with nothing left."""
        self.world.stop()
        for name in [name for name, pod in self.world.pods.items() if pod.metadata.controller is None]:
            del self.world.pods[name]
        while self.answered:
            self.answer()
        for _ in range(100):
            if not self.world.exists:
                self.world.tick()
                continue
            self.relist()
            self.work(0, 0)
            checks.guarantees(self.world, late=True)
            if self.reconciler.state is State.COMPLETED and self.reconciler.quiet and not self.world.pods:
                break
            self.world.tick()
            self.world.now += timedelta(seconds=4)
        where = (self.reconciler.state, self.reconciler.troubles)
        assert not self.world.running, where
        assert not self.world.pods, where
        assert not self.world.exists or self.world.status.state is State.COMPLETED, where


NAMES = (
    ("decide", "perform", "answer", "fail", "work", "crash", "reload", "hear", "hear_again", "relist", "wait"),
    ("live", "end", "lose_node", "collect", "kill_pod", "kill_config_map", "squat", "scale", "edit", "stop", "delete"),
)
MOVES: dict[str, Callable[[Chaos, int, int], None]] = {
    name: getattr(Chaos, name) for several in NAMES for name in several
}
