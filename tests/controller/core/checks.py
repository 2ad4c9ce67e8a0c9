"""What must hold: of each effect when it is performed, of each status after the one before, of the world always."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from frameworkcontroller.api.states import ENDED, NEXT, LedgerState, State
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    RetainPod,
)
from frameworkcontroller.core.machines.orphans import is_unlabelled
from frameworkcontroller.core.machines.retention import has_ended
from frameworkcontroller.core.status import ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.pod import Pod
    from frameworkcontroller.api.status import Condition, FrameworkStatus, TaskStatus
    from frameworkcontroller.core.effects import Effect
    from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
    from tests.controller.core.world import World


def tasks_of(status: FrameworkStatus) -> dict[tuple[str, int], TaskStatus]:
    """All Tasks by role and index."""
    return {
        (role.name, task.index): task
        for role in status.attempt_status.task_role_statuses or ()
        for task in role.task_statuses
    }


# --- persist before act: what is persisted when a request arrives ----------------------------------------------------


def may_ask_for(world: World, effect: Effect) -> None:
    """The persisted status must allow the effect when it is asked for."""
    if (check := MAY_BE_ASKED_FOR.get(type(effect))) is not None:
        check(world, effect)


def may_create_config_map(world: World, _effect: CreateConfigMap) -> None:
    status = world.status
    assert status.state is State.CREATION_PENDING
    assert status.completion is None
    if status.queue:
        assert status.queue.waiting
        assert world.kueue.admissions, "an attempt begins that was never admitted"


def may_create_pod(world: World, effect: CreatePod) -> None:
    """Exactly this attempt of this Task is persisted, and so is the ConfigMap."""
    if effect.source.problem:
        return  # nothing is sent
    status = world.status
    assert status.state in {State.PREPARING, State.RUNNING}
    assert effect.source.attempt.config_map_uid == status.attempt_status.config_map_uid
    role = next(role for role in status.attempt_status.task_role_statuses or () if role.name == effect.role)
    assert role.dependencies_met is not False, f"{effect.role} waits for others"
    task = tasks_of(status)[effect.role, effect.index]
    persisted = (task.state, task.instance_uid, task.attempt_status.id, task.completion)
    assert persisted == (State.CREATION_PENDING, effect.task_uid, effect.attempt_id, None)


def may_delete_pod(world: World, effect: DeletePod) -> None:
    """The persisted status must hold the reason to delete a Pod, and the timeout if it is deleted by force."""
    if _is_shrunk(world.status):
        return
    roles = {role.name: role for role in world.status.attempt_status.task_role_statuses or ()}
    task = tasks_of(world.status).get((effect.role, effect.index))
    if not effect.orphan and task is not None:
        assert task.attempt_status.pod_uid == effect.uid
        assert task.completion is not None
        if effect.grace_seconds is None and not effect.confirm:
            assert task.state is State.DELETION_PENDING
    elif effect.orphan and task is not None and task.state not in ENDED:
        assert task.attempt_status.pod_uid is None
    pod = world.pods.get(names.pod_name("fw", effect.role, effect.index))
    if effect.grace_seconds == 0 and pod is not None and pod.metadata.uid == effect.uid:
        seconds = roles[effect.role].pod_graceful_deletion_timeout_sec
        meta = pod.metadata
        assert seconds is not None
        assert meta.deletion_timestamp is not None
        begun = meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
        assert world.now >= begun + timedelta(seconds=seconds)


def may_retain_pod(world: World, effect: RetainPod) -> None:
    """The end of exactly this Pod is persisted."""
    if _is_shrunk(world.status):
        return
    task = tasks_of(world.status)[effect.role, effect.index]
    assert (task.state, task.attempt_status.pod_uid) == (State.DELETION_PENDING, effect.uid)
    assert task.completion is not None


def may_delete_config_map(world: World, effect: DeleteConfigMap) -> None:
    status = world.status
    if effect.uid == status.attempt_status.config_map_uid:
        assert status.completion is not None
    else:
        assert status.state in {State.CREATION_PENDING, *ENDED}


def may_delete_framework(world: World, _effect: DeleteFramework) -> None:
    status = world.status
    assert status.state is State.COMPLETED
    assert world.now >= status.transition_time + timedelta(seconds=world.kept_seconds)


MAY_BE_ASKED_FOR: dict[type[Effect], Callable[[World, Any], None]] = {
    CreateConfigMap: may_create_config_map,
    DeleteConfigMap: may_delete_config_map,
    CreatePod: may_create_pod,
    DeletePod: may_delete_pod,
    RetainPod: may_retain_pod,
    DeleteFramework: may_delete_framework,
}


def may_lose_logs(world: World, effect: Effect) -> None:
    """With an archive, a Pod that has ended goes once it has the logs, or has had 30 s for them."""
    match effect:
        case DeletePod(orphan=False, confirm=False, grace_seconds=None):
            names_of_pods = [names.pod_name("fw", effect.role, effect.index)]
        case DeleteConfigMap(uid=uid, confirm=False) if uid == world.status.attempt_status.config_map_uid:
            names_of_pods = list(world.pods)
        case _:
            return
    tasks = {task.attempt_status.pod_name: task for task in tasks_of(world.status).values()}
    for name in names_of_pods if world.config.history else ():
        pod, task = world.pods.get(name), tasks.get(name)
        if pod is not None and has_ended(pod) and task is not None and task.attempt_status.pod_uid == pod.metadata.uid:
            waited = world.now - task.transition_time
            assert world.archive.has_read(pod.metadata.uid) or waited >= timedelta(seconds=30), name


# --- ground truth never goes back ------------------------------------------------------------------------------------


def _is_shrunk(status: FrameworkStatus) -> bool:
    """Whether the Tasks are left out since the API server would not take them."""
    return any(one.type == "StatusTooLarge" for one in status.conditions or ())


def history(before: FrameworkStatus | None, after: FrameworkStatus) -> None:
    """What no two statuses in a row may contradict (docs/reference/framework-api.md, sections 3, 5 and 9)."""
    if before is None:
        # A Framework that is stopped from the beginning is over from the beginning.
        assert after.state in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED}
        return
    assert after.start_time == before.start_time
    _ledger(before, after)
    _gang_ready(before, after)
    assert after.attempt_status.id == after.retry_policy_status.total_retried_count
    if after.attempt_status.id != before.attempt_status.id:
        assert after.attempt_status.id == before.attempt_status.id + 1
        assert before.state is State.ATTEMPT_COMPLETED
        return
    assert reachable(before.state, after.state), f"{before.state} -> {after.state}"
    assert before.completion is None or before.completion == after.completion
    assert before.attempt_status.config_map_uid in {None, after.attempt_status.config_map_uid}
    epochs(before, after)
    news = tasks_of(after)
    for task_key, old in tasks_of(before).items():
        new = news.get(task_key)
        if new is not None and new.instance_uid == old.instance_uid:
            _task_history(old, new)
        elif not _is_shrunk(after):
            assert old.deletion_pending, task_key
            assert old.state is State.COMPLETED, task_key


def _ledger(before: FrameworkStatus, after: FrameworkStatus) -> None:
    """Each second since the Framework was created is charged once, and nothing is taken back (docs/ledger.md)."""
    was, now = before.ledger, after.ledger
    assert was
    assert now
    charged = sum((getattr(now.total, name) or 0) - (getattr(was.total, name) or 0) for name in (*LedgerState, "lost"))
    assert abs(charged - (now.since - was.since).total_seconds()) < 0.01, (was, now)
    for name in LedgerState:
        assert getattr(was.total, name) <= getattr(now.total, name) >= getattr(now.attempt, name), (was, now)
    assert (not now.state) == (after.state is State.COMPLETED), (after.state, now)


def ledger_of_a_pass(reconciler: FrameworkReconciler) -> None:
    """After each pass the ledger says what the state says: nothing that it depends on changes unseen."""
    state, spec = reconciler._state, reconciler.spec.spec
    if spec is None or state.ledger is None or reconciler.stale:
        return
    found = ledger.state_of(state, spec, is_open=reconciler._gang.is_open)
    assert state.ledger.state == found


def gang_ready_of(status: FrameworkStatus) -> Condition | None:
    """The condition GangReady."""
    return next((one for one in status.conditions or () if one.type == "GangReady"), None)


def _gang_ready(before: FrameworkStatus, after: FrameworkStatus) -> None:
    """The condition stays as long as the attempt, with the numbers of the status or of the roles that restart."""
    found = gang_ready_of(after)
    if found is None:
        assert gang_ready_of(before) is None or before.attempt_status.id != after.attempt_status.id
        return
    ready, total = map(int, found.message.partition(":")[0].split("/"))
    gate_is_open = after.attempt_status.gang_released != 0
    assert found.status == ("True" if ready == total > 0 and gate_is_open else "False")
    assert found.reason
    assert isinstance(after.ready, str)
    epochs = isinstance(after.attempt_status.gang_epoch, int)
    assert ready == int(after.ready.partition("/")[0]) or (epochs and ready < int(after.ready.partition("/")[0]))


def beginnings(world: World, before: FrameworkStatus | None, after: FrameworkStatus) -> None:
    """A TaskRole that waits for others begins once, when they are as far as it wants them to be."""
    if before is None or before.attempt_status.id != after.attempt_status.id:
        return
    olds = {role.instance_uid: role for role in before.attempt_status.task_role_statuses or ()}
    wanted = {role.name: role for role in world.framework.spec.task_roles or ()}
    tasks = tasks_of(after)
    for role in after.attempt_status.task_role_statuses or ():
        old = olds.get(role.instance_uid)
        if old is None or old.dependencies_met == role.dependencies_met:
            continue
        assert old.dependencies_met is not True, f"{role.name} begins twice"
        generations = {before.observed_generation, after.observed_generation, world.framework.metadata.generation}
        if role.dependencies_met is not True or role.name not in wanted or len(generations) > 1:
            continue  # the spec was another one when that was decided
        for dependency in wanted[role.name].depends_on or ():
            for index in range(wanted[dependency.name].task_number):
                task = tasks[dependency.name, index]
                was_ready = dependency.status == "Ready" and task.attempt_status.pod_uid in world.ever_ready
                assert task.state is State.COMPLETED or was_ready, f"{role.name} does not wait for {dependency.name}"


def _task_history(old: TaskStatus, new: TaskStatus) -> None:
    assert old.deletion_pending <= new.deletion_pending
    assert new.attempt_status.id == new.retry_policy_status.total_retried_count
    if new.attempt_status.id != old.attempt_status.id:
        assert new.attempt_status.id == old.attempt_status.id + 1
        assert old.state is State.ATTEMPT_COMPLETED
        return
    assert old.attempt_status.pod_uid in {None, new.attempt_status.pod_uid}
    assert old.completion is None or old.completion == new.completion
    assert reachable(old.state, new.state), f"{old.state} -> {new.state}"


@functools.cache
def reachable(before: State, after: State) -> bool:
    """Whether legal changes lead from one state to the other within an attempt."""
    seen, todo = {before}, [before]
    while todo:
        for following in NEXT[todo.pop()]:
            if following is not State.CREATION_PENDING and following not in seen:
                seen.add(following)
                todo.append(following)
    return after in seen


def epoch_of_a_roster(world: World, roster: dict[str, Any]) -> None:
    """The roster of a gang that restarts in place speaks of an epoch only once that is persisted."""
    attempt = world.status.attempt_status
    if isinstance(attempt.gang_epoch, int) and attempt.config_map_uid == roster["framework"]["attemptInstanceUID"][2:]:
        assert roster.get("epoch", 0) <= attempt.gang_epoch


def runs_in_one_epoch_or_has_ended(world: World) -> bool:
    """Whether all Tasks of the gang have been released in its epoch, or have ended.

    A Task that has ended and never had a Pod holds each gang up, until its barriers give up; one of a role without a
    barrier only the first start.
    """
    if world.stored is None or world.status.state is State.COMPLETED or _is_shrunk(world.status):
        return world.stored is not None
    attempt = world.status.attempt_status
    templates = {role["name"]: role["task"]["pod"]["spec"] for role in world.spec["taskRoles"]}
    tools = {name for name, template in templates.items() if "initContainers" not in template}
    for role in attempt.task_role_statuses or ():
        for task in role.task_statuses:
            if role.name in tools and attempt.gang_epoch:
                continue
            if task.state is State.COMPLETED and not task.attempt_status.pod_ip and not task.deletion_pending:
                return True
    for role in attempt.task_role_statuses or ():
        for task in role.task_statuses:
            is_going = task.deletion_pending or task.state is State.COMPLETED
            if role.dependencies_met is False or is_going or role.name in tools:
                continue
            instance = (task.attempt_status.pod_uid or "", task.attempt_status.starts or 0)
            if world.in_place.epochs.get(instance) != attempt.gang_epoch or instance[0] not in world.running:
                return False
    return world.status.state is State.RUNNING or not tasks_of(world.status)


def epochs(before: FrameworkStatus, after: FrameworkStatus) -> None:
    """Within an attempt the epoch and the starts of an instance never go back; the gate is open for one epoch only."""
    old, new = before.attempt_status, after.attempt_status
    if old.id != new.id or not isinstance(old.gang_epoch, int):
        return
    if before.state in {State.CREATION_PENDING, State.CREATION_REQUESTED}:
        return
    assert isinstance(new.gang_epoch, int)
    assert new.gang_epoch >= old.gang_epoch
    if new.gang_epoch == old.gang_epoch and old.gang_released:
        assert new.gang_released == old.gang_released, "the gate of an epoch is closed by the next one only"
    olds, news = tasks_of(before), tasks_of(after)
    for task_key in olds.keys() & news.keys():
        one, two = olds[task_key].attempt_status, news[task_key].attempt_status
        if one.pod_uid == two.pod_uid and isinstance(one.starts, int):
            assert isinstance(two.starts, int)
            assert two.starts >= one.starts


# --- the guarantees (docs/reference/framework-api.md, section 9) -----------------------------------------------------


def guarantees(world: World, *, late: bool = False) -> None:
    """What runs on nodes is what the API server says.

    With `late` caches, a Pod whose creation was never persisted is unknown until a cache has it: it may run
    on while its Task is given up, but never beside another Pod of the Task; and it is gone with its ConfigMap, unless
    others deleted that.
    """
    if not (running := list(world.running.values())):
        return
    slots = [(_note(pod, names.TASKROLE_NAME), _note(pod, names.TASK_INDEX)) for pod in running]
    assert len(set(slots)) == len(slots), "1: two instances of a Task run"
    attempts = {_note(pod, names.FRAMEWORK_ATTEMPT_INSTANCE_UID) for pod in running}
    assert len(attempts) <= 1, "3: two instances of a Framework run"
    known = [pod for pod in running if not late or pod.metadata.uid in world.persisted_pods]
    if known or not world.interfered:
        # If a Framework is deleted while a Pod of it is being created, the deletion does not wait for that Pod.
        assert world.exists or world.interfered, "4: the Framework is gone, a Task runs"
        assert world.status.state not in ENDED, f"4: the Framework is {world.status.state}, a Task runs"
    if _is_shrunk(world.status):
        return
    tasks = tasks_of(world.status)
    for pod in known:
        task_key = (_note(pod, names.TASKROLE_NAME), int(_note(pod, names.TASK_INDEX)))
        task = tasks.get(task_key)
        assert task is not None, f"2: {task_key} is deleted and runs"
        assert task.instance_uid == _note(pod, names.TASK_UID), f"2: {task_key} was replaced and runs"
        assert task.state not in ENDED, f"2: {task_key} is {task.state} and runs"
        assert task.attempt_status.id == int(_note(pod, names.TASK_ATTEMPT_ID)), f"2: {task_key} runs an old attempt"


def no_pod_is_left_behind_its_barrier(world: World) -> None:
    """A Pod whose barrier gave up, and which the status names, is on its way out: the kubelet restarts it for ever."""
    tasks = tasks_of(world.status).values() if world.stored is not None else ()
    known = {task.attempt_status.pod_uid: task for task in tasks}
    for pod in world.pods.values():
        task = known.get(pod.metadata.uid)
        if task is not None and pod.metadata.uid in world.held_back and pod.metadata.deletion_timestamp is None:
            assert task.completion is not None, f"{pod.metadata.name} waits behind a barrier that gave up"


def no_attempt_goes_on_that_is_suspended(world: World) -> None:
    if world.spec.get("suspend") and world.stored is not None:
        status = world.status
        assert status.state is State.CREATION_PENDING or status.completion is not None, f"{status.state}, suspended"


def no_roster_is_left_as_somebody_else_wrote_it(world: World) -> None:
    """The roster of a live attempt is what the controller has written."""
    if world.stored is None or world.config_map is None or is_unlabelled(world.config_map.metadata):
        return
    meta = world.config_map.metadata
    live = world.status.state in {State.PREPARING, State.RUNNING} and meta.deletion_timestamp is None
    if live and world.status.attempt_status.config_map_uid == meta.uid:
        assert not world.tampered, "the roster is somebody else's"


def _note(pod: Pod, name: str) -> str:
    return pod.metadata.annotations[name]


# --- where a run has ended -------------------------------------------------------------------------------------------


def place(world: World) -> dict[str, Any]:
    """Where a run has ended, without what differs from run to run (UIDs and times)."""
    status = world.status
    trigger = status.completion.trigger if status.completion else None
    return {
        "exists": world.exists,
        "state": status.state,
        "code": status.completion.code if status.completion else None,
        "trigger": trigger.message if trigger else None,
        "retried": _retried(status),
        "tasks": {
            task_key: (
                task.state,
                task.completion.code if task.completion else None,
                _retried(task),
                task.deletion_pending,
            )
            for task_key, task in tasks_of(status).items()
        },
        "left": (world.config_map, sorted(world.pods), sorted(world.running)),
        "retained": sorted(world.retained),
    }


def _retried(one: FrameworkStatus | TaskStatus) -> tuple[int, int]:
    return one.retry_policy_status.total_retried_count, one.retry_policy_status.accountable_retried_count
