"""Kubelets and barriers of a gang that restarts in its Pods, as a real node of Kubernetes 1.36 does it.

What the project promises of such a gang is asserted at each release: docs/reference/restart.md, section 1.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import (
    ContainerState,
    ContainerStatus,
    InitContainerStatus,
    LastState,
    Pod,
    PodCondition,
    Running,
    Terminated,
    Waiting,
)
from frameworkcontroller.api.states import State
from tests.controller.core import checks
from tests.controller.core.values import known

if TYPE_CHECKING:
    from tests.controller.core.world import World

EPOCH_ENDED, HUNG = 88, 89
NOT_RESTARTED = {0, 210}
"""Exits of the application that end its Pod."""
RUNS = ContainerState(running=Running())
REMOVED = Terminated(exit_code=137, reason=names.RESTARTING_ALL_CONTAINERS)
RESTARTING = PodCondition(names.ALL_CONTAINERS_RESTARTING, "True")

Instance = tuple[str, int]
"""The UID of a Pod and the start of its barrier."""


class InPlace:
    """The Pods of one world whose templates ask for in-place restart.

    Attributes:
        slow_watches: each barrier sees every roster, one at a time; otherwise it sees only the newest.
        epochs: the epoch in which an instance was released.
        runs: how often the application of a Task has begun.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.slow_watches = False
        self.epochs: dict[Instance, int] = {}
        self.runs: Counter[str] = Counter()
        self._seen: dict[Instance, int] = {}
        self._members: dict[tuple[str, int], dict[tuple[str, int], Instance]] = {}

    @staticmethod
    def takes_part(pod: Pod) -> bool:
        """Whether the Pod restarts in place."""
        return names.RESTART_ANNOTATION in pod.metadata.annotations

    def live(self, name: str) -> bool:
        """The kubelet or the barrier of this Pod does its next thing."""
        pod, barrier = self._world.pods[name], self._found_barrier(name)
        if pod.status.phase not in {"Pending", "Running"}:
            return False
        if RESTARTING in pod.status.conditions:
            self._remove_containers(name, is_begun=barrier is not None and barrier.state.waiting is not None)
            return True
        if barrier is None or barrier.state.running is None:
            return self._start_barrier(name)
        return self._run(name) if barrier.started else self._wait(name)

    def crash_barrier(self, name: str) -> None:
        """The barrier is killed, by whatever: if it has opened, all containers restart, else it alone."""
        barrier = self._found_barrier(name)
        if barrier is None or barrier.state.running is None or RESTARTING in self._world.pods[name].status.conditions:
            return
        if barrier.started:
            self._restart(name, barrier_code=137)
        else:
            self._world.restart_barrier(name, 1, runs=True)

    # --- the kubelet -------------------------------------------------------------------------------------------------

    def _found_barrier(self, name: str) -> InitContainerStatus | None:
        return next(iter(self._world.pods[name].status.init_container_statuses), None)

    def _barrier(self, name: str) -> InitContainerStatus:
        return known(self._found_barrier(name))

    def _set(self, name: str, barrier: InitContainerStatus, main: ContainerStatus, **changes: Any) -> None:
        pod, changes = self._world.pods[name], {"conditions": ()} | changes
        status = replace(pod.status, init_container_statuses=(barrier,), container_statuses=(main,), **changes)
        self._world.pods[name] = replace(pod, status=status)

    def _start_barrier(self, name: str) -> bool:
        barrier = self._found_barrier(name)
        count = 0 if barrier is None else barrier.restart_count
        if barrier is not None and barrier.state.waiting and barrier.state.waiting.reason == "CrashLoopBackOff":
            count += 1
        last = LastState() if barrier is None else barrier.last_state
        self._set(
            name,
            InitContainerStatus(names.BARRIER_CONTAINER, RUNS, last, started=False, restart_count=count),
            ContainerStatus("main", ContainerState(waiting=Waiting("PodInitializing"))),
            phase="Pending",
            pod_ip=f"10.0.0.{len(name)}",
            host_ip="10.1.0.1",
        )
        pod = self._world.pods[name]
        self._world.pods[name] = replace(pod, spec=replace(pod.spec, node_name=self._world.node_of(name)))
        return True

    def _restart(self, name: str, *, code: int = 0, barrier_code: int = 0, message: str = "") -> None:
        """A container exits by a rule: the kubelet is about to restart all."""
        barrier, stamp = self._barrier(name), self._world.stamp
        main = ContainerStatus("main", RUNS if not code else _ended(code, stamp))
        if barrier_code:
            barrier = replace(barrier, state=_ended(barrier_code, stamp, message))
        else:
            self._world.running.pop(self._world.pods[name].metadata.uid)
        self._set(name, barrier, main, phase="Running", conditions=(RESTARTING,))

    def _remove_containers(self, name: str, *, is_begun: bool) -> None:
        """Remove the barrier, and only then the application and the condition, as where the sandbox is made anew."""
        waiting, last = ContainerState(waiting=Waiting(names.RESTARTING_ALL_CONTAINERS)), LastState(REMOVED)
        count = self._barrier(name).restart_count + (not is_begun)
        self._world.running.pop(self._world.pods[name].metadata.uid, None)
        self._set(
            name,
            InitContainerStatus(names.BARRIER_CONTAINER, waiting, last, started=False, restart_count=count),
            ContainerStatus("main", waiting, last),
            phase="Running",
        )

    # --- the barrier -------------------------------------------------------------------------------------------------

    def _instance(self, name: str) -> Instance:
        return self._world.pods[name].metadata.uid, self._barrier(name).restart_count + 1

    def _look(self, instance: Instance) -> dict[str, Any] | None:
        """What the watch of this barrier shows now: it begins with the newest roster, and never goes back."""
        newest = len(self._world.rosters) - 1
        if newest < 0:
            return None
        before = self._seen.get(instance)
        place = newest if before is None or not self.slow_watches else min(before + 1, newest)
        self._seen[instance] = place
        return self._world.rosters[place]

    def _wait(self, name: str) -> bool:
        """The gate opens, or this instance is behind, or neither."""
        instance = self._instance(name)
        moved = self._seen.get(instance) != len(self._world.rosters) - 1
        roster = self._look(instance)
        if roster is None:
            return False
        role, index = self._place(name)
        uid8, start = instance[0][:8], instance[1]
        rows = {one["name"]: one["tasks"] for one in roster.get("taskRoles", ())}
        if "epoch" not in roster:
            # The annotation came while the gang had Pods: nobody would restart it.
            is_listed = any((row[0], row[2]) == (index, uid8) for row in rows.get(role, ()))
            if is_listed:
                self._world.restart_barrier(name, 210, runs=False)
            return is_listed or moved
        if [role, index, uid8, start] in [list(one) for one in roster.get("behind", ())]:
            main = self._world.pods[name].status.container_statuses[0]
            ended = replace(self._barrier(name), state=_ended(EPOCH_ENDED, self._world.stamp))
            self._set(name, ended, main, conditions=(RESTARTING,))
            return True
        for row in rows.get(role, ()):
            if (row[0], row[2], row[6]) == (index, uid8, start):
                self._release(name, instance, roster)
                return True
        return moved

    def _place(self, name: str) -> tuple[str, int]:
        role, _, index = name.removeprefix("fw-").rpartition("-")
        return role, int(index)

    def _release(self, name: str, instance: Instance, roster: dict[str, Any]) -> None:
        world, pod, epoch = self._world, self._world.pods[name], roster["epoch"]
        attempt = pod.metadata.annotations[names.FRAMEWORK_ATTEMPT_INSTANCE_UID]
        listed = {
            (role["name"], index): (uid8, start)
            for role in roster["taskRoles"]
            for index, _, uid8, _, _, _, start in role["tasks"]
            if start  # a Task without a barrier takes no part: it comes and goes
        }
        members = self._members.setdefault((attempt, epoch), listed)
        # A Task that has ended runs nowhere, whatever its last Pod did.
        over = {task_key for task_key, task in checks.tasks_of(world.status).items() if task.state is State.COMPLETED}
        differ = {task_key for task_key in members | listed if members.get(task_key) != listed.get(task_key)}
        assert differ <= over, f"epoch {epoch} has two memberships"
        assert instance not in self.epochs, f"{name} is released twice"
        earlier = [self.epochs[one] for one in self.epochs if one[0] == instance[0]]
        assert all(one < epoch for one in earlier), f"{name} goes back to epoch {epoch}"
        for uid, other in world.running.items():
            place = self._place(other.metadata.name)
            # A Pod without a barrier, or with one that does not restart, runs in no epoch.
            starts = [one[1] for one in self.epochs if one[0] == uid]
            of_attempt = other.metadata.annotations[names.FRAMEWORK_ATTEMPT_INSTANCE_UID] == attempt
            if starts and place in listed and of_attempt:
                start = max(starts)
                peer = f"{name} starts in epoch {epoch} beside {other.metadata.name} of {self.epochs[uid, start]}"
                assert self.epochs[uid, start] == epoch, peer
                assert listed[place] == (uid[:8], start), peer
        self.epochs[instance] = epoch
        self.runs[name.removeprefix("fw-")] += 1
        opened = replace(self._barrier(name), started=True)
        self._set(name, opened, ContainerStatus("main", RUNS), phase="Running")
        world.held_back.discard(pod.metadata.uid)
        world.running[pod.metadata.uid] = pod

    def _run(self, name: str) -> bool:
        """The application of a released Pod runs, until it ends or its epoch does."""
        world, instance, pod = self._world, self._instance(name), self._world.pods[name]
        task_key = name.removeprefix("fw-")
        before = self._seen.get(instance)
        roster = self._look(instance)
        if roster is not None and roster.get("epoch", 0) > self.epochs[instance]:
            self._restart(name, barrier_code=EPOCH_ENDED)
            return True
        is_ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
        if is_ready is (task_key in world.plan.unready):
            world.ever_ready |= set() if is_ready else {pod.metadata.uid}
            status = replace(pod.status, conditions=(PodCondition("Ready", str(not is_ready)),))
            world.pods[name] = replace(pod, status=status)
            return True
        end = world.plan.end(task_key, self.runs[task_key] - 1)
        if (verdict := verdict_of(end, self.epochs[instance])) is not None:
            self._restart(name, barrier_code=HUNG, message=verdict)
            return True
        if not isinstance(end, int):
            return self._seen.get(instance) != before
        if end not in NOT_RESTARTED:
            self._restart(name, code=end)
            return True
        world.running.pop(pod.metadata.uid)
        phase, main = "Failed" if end else "Succeeded", ContainerStatus("main", _ended(end, world.stamp))
        self._set(name, self._barrier(name), main, phase=phase)
        return True


def verdict_of(end: int | str, epoch: int) -> str | None:
    """The last line of a sidecar whose gang hangs as `hang STEP TASK...` says; None of any other end."""
    if not isinstance(end, str) or not end.startswith("hang "):
        return None
    _, step, *culprits = end.split()
    named = [{"task": one, "node": "node-1", "section": "", "stack": ["/a.py:3 in read"]} for one in culprits]
    found = {
        "epoch": epoch,
        "step": int(step),
        "silent": 130,
        "limit": 120,
        "why": "is behind the others",
        "culprits": named,
    }
    return json.dumps(found)


def _ended(code: int, stamp: Any, message: str = "") -> ContainerState:
    return ContainerState(terminated=Terminated(exit_code=code, message=message or f"exit {code}", finished_at=stamp))
