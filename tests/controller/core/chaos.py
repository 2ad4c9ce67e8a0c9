"""A world in which anything may happen next: requests in flight, caches that hear of things late, twice, in any order
between objects, or not before a relist, crashes at any moment, users and nodes that do what they like.

One thing is left out, since no controller could cope with it: requests of a dead controller that arrive after the lists
of the next one.
"""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.api.workload import QUEUE_LABEL
from frameworkcontroller.core.effects import CreatePod, Effect, Failed, Outcome, Refused, WriteStatus
from tests.controller.core import checks
from tests.controller.core.driver import Driver
from tests.controller.core.values import core_config
from tests.controller.core.world import World, framework_of


def pod(**barrier: str) -> dict[str, Any]:
    """A template whose Pods the kubelet never gives up; the barrier is an init container or a sidecar."""
    barriers = [{"name": names.BARRIER_CONTAINER, "image": "x", **barrier}]
    containers = [{"name": "main", "image": "x"}]
    return {"spec": {"restartPolicy": "Always", "initContainers": barriers, "containers": containers}}


def pod_in_place() -> dict[str, Any]:
    """A template whose Pods restart in place with their gang, three times at most."""
    template = pod(restartPolicy="Always")
    annotations = {names.RESTART_ANNOTATION: names.IN_PLACE, names.RESTART_LIMIT_ANNOTATION: "3"}
    return {"metadata": {"annotations": annotations}, **template}


PODS = {"a": pod(), "b": pod(restartPolicy="Always")}
IN_PLACE = {"a": pod_in_place(), "b": pod_in_place()}
IN_PLACE_WITH_TOOLS = {"a": pod_in_place(), "b": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
SPEC = """
executionType: Start
retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 2}
taskRoles: []
"""
ROLES = ("a", "b")
ENDS: tuple[int | str, ...] = ("stay", "stay", "stay", 0, 1, 200, 201, 210)
ANNOTATIONS = (
    *("", "5", '{"complete":false}', '{"generation":100000000000000000000}'),
    '{"generation":7,"complete":true,"digest":"x"}',
)
PAUSES = (0.01, 0.2, 1, 5, 30, 400)
LARGEST = 1_500_000
QUOTA = 'pods "fw-a-0" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=3, limited: pods=3'
ENDS_OF_NUMBERS = (0, 1, 2, 2**31 - 1)
ENDS_OF_TIMES = (None, 0, 1, 60, 2**31 - 1, 2**63 - 1, -1, -(2**63))


def role(name: str, number: int, template: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "taskNumber": number,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
        "task": {"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 1}, "pod": template},
    }


class Chaos(Driver):
    """A controller in such a world; each move takes two numbers that say which and how."""

    def __init__(
        self, pods: dict[str, dict[str, Any]] = PODS, *, crash_loop_pause: bool = False, kueue: bool = False
    ) -> None:
        world = World(framework_of(SPEC), config=core_config(crash_loop_pause=crash_loop_pause, kueue=kueue))
        world.manifest["metadata"]["labels"] = {QUEUE_LABEL: "main"} if kueue else {}
        self.pods = pods
        world.spec["taskRoles"] = [role("a", 2, pods["a"]), role("b", 1, pods["b"])]
        self.refusals = 0
        self.shown = [world.framework]
        super().__init__(world)

    def reload(self) -> None:
        super().reload()
        self.in_flight: list[Effect] = []
        self.answered: list[tuple[Effect, Outcome]] = []

    def move(self, kind: str, one: int, two: int) -> None:
        """Make a move and look at the guarantees."""
        if not self.world.exists:
            return
        self.world.now += timedelta(milliseconds=10)
        MOVES[kind](self, one, two)
        assert not self.stale, "there is no other writer"
        checks.guarantees(self.world, late=True)

    # --- the controller ----------------------------------------------------------------------------------------------

    def reconcile(self, _one: int = 0, _two: int = 0) -> None:
        """A pass; what it asks for is on its way then."""
        effects = self.decide().effects
        for effect in effects:
            checks.may_ask_for(self.world, effect)
        self.in_flight += effects

    def arrive(self, one: int = 0, _two: int = 0) -> None:
        """A request arrives; its answer is on its way back."""
        if self.in_flight:
            self.answered.append(self.perform(self.in_flight.pop(one % len(self.in_flight))))

    def send(self, effect: Effect) -> Outcome:
        """A request arrives; while there is no quota, Pods are refused."""
        if self.refusals and isinstance(effect, CreatePod):
            self.refusals -= 1
            return Refused(403, QUOTA)
        return super().send(effect)

    def deliver(self, one: int = 0, two: int = 0) -> None:
        """An answer is delivered, or lost. The fate of a status write is always found out, by a conflict."""
        if not self.answered:
            return
        effect, outcome = self.answered.pop(one % len(self.answered))
        if two == 7 and not isinstance(effect, WriteStatus):
            outcome = Failed("no answer")
        self.answer(effect, outcome)

    def fail(self, one: int, _two: int) -> None:
        """A request fails before it has an effect."""
        if self.in_flight:
            effect = self.in_flight.pop(one % len(self.in_flight))
            self.answer(effect, Failed("sick", retry_after_seconds=0.1))

    def work(self, _one: int, _two: int) -> None:
        """Everything goes well for a moment."""
        for _ in range(3):
            self.reconcile()
            while self.in_flight:
                self.arrive()
            while self.answered:
                self.deliver()

    def crash(self, one: int, _two: int) -> None:
        """The process dies; each request that was in flight arrived or not. Another process begins with lists."""
        self._lose_track(one)
        self.start()

    def read_again(self, one: int, _two: int) -> None:
        """The process drops the reconciler and reads the Framework again; its caches go on as they are."""
        self._lose_track(one)
        self.reload()

    def _lose_track(self, which: int) -> None:
        for place, effect in enumerate(self.in_flight):
            if which >> (place % 3) & 1:
                self.send(effect)

    # --- what is heard -----------------------------------------------------------------------------------------------

    def hear(self, one: int, two: int) -> None:
        """One cache hears of one object what is true now, whatever it has missed."""
        changed = self.caches.outdated_pods
        if two < 5 and changed:
            name = changed[one % len(changed)]
            self.caches.hear_of_pod(name)
            self.touch_pods(name)
        elif two == 6:
            self.caches.hear_of_framework()
        else:
            self.caches.hear_of_config_map()
            self.touch_config_map()

    def hear_again(self, one: int, two: int) -> None:
        """An event is doubled, or about nothing."""
        self.touch_pods(names.pod_name("fw", ROLES[one % 2], two))
        self.touch_config_map()

    def relist(self, _one: int = 0, _two: int = 0) -> None:
        """All caches are true."""
        changed = self.caches.outdated_pods
        self.caches.relist()
        self.touch_pods(*changed)
        self.touch_config_map()
        self.touch_workload()

    def relapse(self, one: int, _two: int) -> None:
        """The cache shows the Framework as it was: another API server is behind."""
        self.shown.append(self.world.framework)
        self.caches.show_framework(self.shown[-1 - one % len(self.shown)])

    def set_clock(self, one: int, _two: int) -> None:
        """The wall clock is set back, or right again."""
        self.set_back = timedelta(hours=one % 3)

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

    def restart_barrier(self, one: int, two: int) -> None:
        """A barrier exits, by its own decision or not, and the kubelet restarts it."""
        if (name := self._pod(one)) is None:
            return
        pod = self.world.pods[name]
        begun = pod.status.init_container_statuses or not self.world.in_place.takes_part(pod)
        has_barrier = bool(pod.spec.init_containers) and pod.metadata.controller is not None
        if has_barrier and pod.status.phase == "Pending" and begun:
            self.world.restart_barrier(name, (201, 210, 137, 1)[two % 4], runs=two < 4)

    def lack_node(self, one: int, two: int) -> None:
        """The scheduler finds no node for a Pod."""
        if (name := self._pod(one)) is not None and self.world.pods[name].status.phase == "Pending":
            self.world.lack_node(name, f"0/{two} nodes are available: {two} Insufficient cpu.")

    def crash_barrier(self, one: int, _two: int) -> None:
        """A barrier of a gang that restarts in place is killed."""
        name = self._pod(one)
        if name is not None and self.world.in_place.takes_part(self.world.pods[name]):
            self.world.in_place.crash_barrier(name)

    def delay_watches(self, one: int, _two: int) -> None:
        """From now on barriers see each roster, one at a time, or only the newest, as after a broken connection."""
        self.world.in_place.slow_watches = one < 6

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

    def tamper(self, one: int, two: int) -> None:
        """Somebody changes the roster, what sums it up, or something else of the ConfigMap."""
        match one:
            case 0 | 1 | 2:
                self.world.tamper()
            case 5:
                self.world.unlabel_config_map()
            case 3 | 4:
                self.world.tamper(ANNOTATIONS[two % len(ANNOTATIONS)])
            case _:
                self.world.annotate_config_map()

    def squat(self, one: int, two: int) -> None:
        """Somebody else takes a name, or gives it back."""
        name = names.pod_name("fw", ROLES[one % 2], two % 3)
        pod = self.world.pods.get(name)
        if pod is None:
            self.world.pods[name] = Pod(Meta(name, self.world.uid(), "1", namespace="ns"))
        elif pod.metadata.controller is None:
            del self.world.pods[name]

    def unlabel(self, _one: int, _two: int) -> None:
        """Somebody removes the label by which the controller finds the ConfigMap."""
        if self.world.config_map is not None:
            self.world.unlabel_config_map()
            self.caches.hear_of_config_map()
            self.touch_config_map()
            self.world.interfered = True

    def have_no_quota(self, one: int, _two: int) -> None:
        """The next creations of Pods are refused, for so long that it must be probed."""
        self.refusals = 4 * one

    def limit_statuses(self, one: int, _two: int) -> None:
        """The API server takes small statuses only, or large ones again."""
        self.world.max_status_bytes = LARGEST if one < 5 else 1000

    def go_to_the_ends(self, one: int, two: int) -> None:
        """The user asks for numbers at their ends."""
        self.world.spec["retryPolicy"]["maxRetryCount"] = ENDS_OF_NUMBERS[two % len(ENDS_OF_NUMBERS)]
        for entry in self.world.spec["taskRoles"]:
            entry["task"]["podGracefulDeletionTimeoutSec"] = ENDS_OF_TIMES[one % len(ENDS_OF_TIMES)]
            entry["task"]["retryPolicy"]["maxRetryCount"] = ENDS_OF_NUMBERS[two % len(ENDS_OF_NUMBERS)]
        self.world.edited()

    def scale(self, one: int, two: int) -> None:
        """The user wants another number of Tasks in a role; 5 and more: none of the role at all."""
        roles = self.world.spec["taskRoles"]
        name = ROLES[one % 2]
        roles[:] = [entry for entry in roles if entry["name"] != name]
        if two < 5:
            roles.append(role(name, two, self.pods[name]))
        self.world.edited()

    def edit(self, one: int, two: int) -> None:
        """The user changes what is no scale."""
        for entry in self.world.spec["taskRoles"]:
            entry["frameworkAttemptCompletionPolicy"] = {
                "minFailedTaskCount": (-1, 1, 2)[one % 3],
                "minSucceededTaskCount": (-1, 1, 2)[two % 3],
                "minSucceededTaskPercent": (None, None, None, 100)[one // 2],
            }
        self.world.edited()

    def depend(self, one: int, two: int) -> None:
        """The user lets a role wait for the other one, or for nobody, or seldom for one that there is not."""
        role_name = ROLES[0] if one == 7 else ROLES[1]
        other = ROLES[1 if one == 7 else 0] if two else "none"
        for entry in self.world.spec["taskRoles"]:
            if entry["name"] == role_name:
                status = "Ready" if two % 2 else "Complete"
                entry["dependsOn"] = [{"name": other, "status": status}] if one else None
        self.world.edited()

    def readiness(self, one: int, two: int) -> None:
        """From now on the Pods of a Task become Ready when they run, or do not, or not any more."""
        if (name := self._pod(one)) is not None:
            unready = self.world.plan.unready
            (unready.add if two < 3 else unready.discard)(name.removeprefix("fw-"))

    def give_deadline(self, one: int, two: int) -> None:
        """The user limits how long it may run, and says what stays after that."""
        self.world.spec["activeDeadlineSeconds"] = (None, None, None, None, None, None, 30, 3000)[one]
        self.world.spec["ttlSecondsAfterFinished"] = (None, 10**6)[two % 2]
        self.world.spec["retainPods"] = ("Never", "OnFailure", "Always")[(one + two) % 3]
        self.world.edited()

    def suspend(self, one: int, _two: int) -> None:
        """The user suspends or resumes."""
        self.world.spec["suspend"] = one < 3
        self.world.edited()

    def queue(self, one: int, two: int) -> None:
        """Kueue admits, evicts or loses the Workload, or the user changes the queue."""
        if not self.world.config.kueue:
            return
        kueue = self.world.kueue
        if one < 5:
            kueue.live()
        elif one == 5:
            kueue.delete()
        elif two < 5:
            if kueue.is_true("QuotaReserved"):
                kueue.evict(("Preempted", "Deactivated", "PodsReadyTimeout")[two % 3])
        else:
            queues: list[dict[str, str]] = [{}, {QUEUE_LABEL: "main"}, {QUEUE_LABEL: "other"}]
            self.world.manifest["metadata"]["labels"] = queues[two - 5]
            self.world.edited()
        self.caches.hear_of_workload()
        self.touch_workload()

    def stop(self, one: int, two: int) -> None:
        if one == 0 and two < 2:
            self.world.stop()

    def delete(self, one: int, two: int) -> None:
        if one == two == 0:
            self.world.delete_framework()
            self.world.interfered = True

    def catch_up(self) -> None:
        """The controller learns everything and has time to act on it, while nothing else happens."""
        while self.answered:
            self.deliver()
        for _ in range(5):
            if not self.world.exists:
                return
            self._work_on_the_truth()
            self.world.now += timedelta(seconds=40)
        checks.no_pod_is_left_behind_its_barrier(self.world)
        checks.no_roster_is_left_as_somebody_else_wrote_it(self.world)
        checks.no_attempt_goes_on_that_is_suspended(self.world)

    def _work_on_the_truth(self) -> None:
        self.relist()
        self.work(0, 0)
        checks.guarantees(self.world, late=True)

    # --- the end -----------------------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Everybody behaves, and the user has had enough: it must end, with nothing left."""
        self.refusals, self.world.max_status_bytes, self.set_back = 0, LARGEST, timedelta()
        self.catch_up()
        for name in [name for name, pod in self.world.pods.items() if pod.metadata.controller is None]:
            del self.world.pods[name]
        self.run_or_end()
        self.world.stop()
        while self.answered:
            self.deliver()
        for _ in range(100):
            if not self.world.exists:
                self.world.tick()
                continue
            self._work_on_the_truth()
            if self.state is State.COMPLETED is self.world.status.state and not self.world.pods:
                break
            self.world.tick()
            self.world.now += timedelta(seconds=4)
        where = (self.state, self.failures)
        assert not self.world.running, where
        assert not self.world.pods, where
        assert not self.world.exists or self.world.status.state is State.COMPLETED, where
        left = self.world.kueue.document if self.world.exists else None
        assert left is None or self.world.kueue.is_true("Finished"), (where, left)

    def run_or_end(self) -> None:
        """Everybody behaves: a gang that restarts in place runs in one epoch, or it has ended."""
        if self.pods is PODS:
            return
        self.world.plan.ends = {f"{name}-{index}": ["stay"] for name in ROLES for index in range(8)}
        self.world.plan.unready.clear()
        self.suspend(7, 0)
        for name, pod in self.world.pods.items():
            if pod.status.phase == "Unknown":
                self.world.terminate(name)
        for _ in range(200):
            if not self.world.exists or checks.runs_in_one_epoch_or_has_ended(self.world):
                return
            self._work_on_the_truth()
            self.world.tick()
            # What waits by a clock that was wrong for a while waits for hours.
            self.world.now += timedelta(minutes=2)
        raise AssertionError(f"neither runs nor ends: {self.world.status.attempt_status}, {self.world.rosters[-1:]}")


MOVES: dict[str, Callable[[Chaos, int, int], None]] = {
    name: method
    for name, method in vars(Chaos).items()
    if inspect.isfunction(method) and len(inspect.signature(method).parameters) == 3
}
"""Its methods of two numbers."""
