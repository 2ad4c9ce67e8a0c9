"""What must hold: of each effect when it is performed, of each status after the one before, of the world always."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from frameworkcontroller.api import names
from frameworkcontroller.api.states import ENDED, NEXT, State
from frameworkcontroller.core.effects import CreateConfigMap, CreatePod, DeleteConfigMap, DeleteFramework, DeletePod

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkStatus, Pod, TaskStatus
    from frameworkcontroller.core.effects import Effect

    from .world import World


def tasks_of(status: FrameworkStatus) -> dict[tuple[str, int], TaskStatus]:
    """All Tasks by role and index."""
    return {
        (role.name, task.index): task
        for role in status.attempt_status.task_role_statuses or ()
        for task in role.task_statuses
    }


# --- persist before act: what the API server shows when a request arrives --------------------------------------------


def may_ask_for(world: World, effect: Effect) -> None:
    """What the API server shows must allow the effect when it is asked for."""
    match effect:
        case CreateConfigMap():
            may_create_config_map(world)
        case DeleteConfigMap():
            may_delete_config_map(world, effect)
        case CreatePod():
            may_create_pod(world, effect)
        case DeletePod():
            may_delete_pod(world, effect)
        case DeleteFramework():
            may_delete_framework(world)
        case _:
            pass


def may_create_config_map(world: World) -> None:
    status = world.status
    assert status.state is State.CREATION_PENDING
    assert status.completion is None


def may_create_pod(world: World, effect: CreatePod) -> None:
    """Exactly this attempt of this Task is announced, under a ConfigMap that is recorded."""
    status = world.status
    assert status.state in {State.PREPARING, State.RUNNING}
    assert effect.template._attempt.config_map_uid == status.attempt_status.config_map_uid
    task = tasks_of(status)[effect.role, effect.index]
    shown = (task.state, task.instance_uid, task.attempt_status.id, task.completion)
    assert shown == (State.CREATION_PENDING, effect.task_uid, effect.attempt_id, None)


def may_delete_pod(world: World, effect: DeletePod) -> None:
    """A recorded Pod has an end that is shown; by force only after the time that is shown."""
    roles = {role.name: role for role in world.status.attempt_status.task_role_statuses or ()}
    task = tasks_of(world.status).get((effect.role, effect.index))
    if effect.recorded and task is not None:
        assert task.attempt_status.pod_uid == effect.uid
        assert task.completion is not None
        if effect.grace_seconds is None and not effect.confirm:
            assert task.state is State.DELETION_PENDING
    elif not effect.recorded and task is not None and task.state not in ENDED:
        assert task.attempt_status.pod_uid is None
    pod = world.pods.get(names.pod_name("fw", effect.role, effect.index))
    if effect.grace_seconds == 0 and pod is not None and pod.metadata.uid == effect.uid:
        seconds = roles[effect.role].pod_graceful_deletion_timeout_sec
        meta = pod.metadata
        assert seconds is not None
        assert meta.deletion_timestamp is not None
        begun = meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
        assert world.now >= begun + timedelta(seconds=seconds)


def may_delete_config_map(world: World, effect: DeleteConfigMap) -> None:
    status = world.status
    if effect.uid == status.attempt_status.config_map_uid:
        assert status.completion is not None
    else:
        assert status.state in {State.CREATION_PENDING, *ENDED}


def may_delete_framework(world: World) -> None:
    status = world.status
    assert status.state is State.COMPLETED
    assert world.now >= status.transition_time + timedelta(seconds=world.config.framework_completed_retain_sec)


# --- ground truth never goes back ------------------------------------------------------------------------------------


def history(before: FrameworkStatus | None, after: FrameworkStatus) -> None:
    """What no two statuses in a row may contradict (the Framework API, sections 3, 5 and 9)."""
    if before is None:
        # Whoever is stopped from the beginning is over from the beginning.
        assert after.state in {State.CREATION_PENDING, State.ATTEMPT_COMPLETED}
        return
    assert after.start_time == before.start_time
    assert after.attempt_status.id == after.retry_policy_status.total_retried_count
    if after.attempt_status.id != before.attempt_status.id:
        assert after.attempt_status.id == before.attempt_status.id + 1
        assert before.state is State.ATTEMPT_COMPLETED
        return
    assert reachable(before.state, after.state), f"{before.state} -> {after.state}"
    assert before.completion is None or before.completion == after.completion
    assert before.attempt_status.config_map_uid in {None, after.attempt_status.config_map_uid}
    olds, news = tasks_of(before), tasks_of(after)
    removed = {slot: old for slot, old in olds.items() if slot not in news}
    for slot, old in olds.items():
        new = news.get(slot)
        if new is not None and new.instance_uid == old.instance_uid:
            _task_history(old, new)
        else:
            removed[slot] = old
    for slot, old in removed.items():
        assert old.deletion_pending, slot
        assert old.state is State.COMPLETED, slot


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


def reachable(before: State, after: State) -> bool:
    """Whether legal changes lead from one state to the other within an attempt."""
    seen, todo = {before}, [before]
    while todo:
        for following in NEXT[todo.pop()]:
            if following is not State.CREATION_PENDING and following not in seen:
                seen.add(following)
                todo.append(following)
    return after in seen


# --- the guarantees (the Framework API, section 9) -------------------------------------------------------------------


def guarantees(world: World, *, late: bool = False) -> None:
    """What runs on nodes is what the API server says.

    With ``late`` caches, a Pod whose creation was never recorded is known to nobody until a cache shows it: it may run
    on while its Task is given up, but never beside another Pod of the Task; and it is gone with its ConfigMap, unless
    others deleted that.
    """
    running = list(world.running.values())
    if not running:
        return
    slots = [(_note(pod, names.TASKROLE_NAME), _note(pod, names.TASK_INDEX)) for pod in running]
    assert len(set(slots)) == len(slots), "1: two instances of a Task run"
    attempts = {_note(pod, names.FRAMEWORK_ATTEMPT_INSTANCE_UID) for pod in running}
    assert len(attempts) <= 1, "3: two instances of a Framework run"
    known = [pod for pod in running if not late or pod.metadata.uid in world.recorded]
    if known or (running and not world.interfered):
        # Whoever deletes a Framework while a Pod of it is being created is not waited for by that Pod.
        assert world.exists or world.interfered, "4: the Framework is gone, a Task runs"
        assert world.status.state not in ENDED, f"4: the Framework is {world.status.state}, a Task runs"
    tasks = tasks_of(world.status)
    for pod in known:
        slot = (_note(pod, names.TASKROLE_NAME), int(_note(pod, names.TASK_INDEX)))
        task = tasks.get(slot)
        assert task is not None, f"2: {slot} is deleted and runs"
        assert task.instance_uid == _note(pod, names.TASK_UID), f"2: {slot} was replaced and runs"
        assert task.state not in ENDED, f"2: {slot} is {task.state} and runs"
        assert task.attempt_status.id == int(_note(pod, names.TASK_ATTEMPT_ID)), f"2: {slot} runs an old attempt"


def _note(pod: Pod, name: str) -> str:
    return pod.metadata.annotations[name]


# --- where a run has ended -------------------------------------------------------------------------------------------


def place(world: World) -> dict[str, Any]:
    """Where a run has ended, without what differs from run to run (UIDs and times)."""
    status = world.status
    return {
        "exists": world.exists,
        "state": status.state,
        "code": status.completion.code if status.completion else None,
        "trigger": status.completion.trigger.message if status.completion and status.completion.trigger else None,
        "retried": (
            status.retry_policy_status.total_retried_count,
            status.retry_policy_status.accountable_retried_count,
        ),
        "tasks": {
            slot: (
                task.state,
                task.completion.code if task.completion else None,
                task.retry_policy_status.total_retried_count,
                task.retry_policy_status.accountable_retried_count,
                task.deletion_pending,
            )
            for slot, task in tasks_of(status).items()
        },
        "left": (world.config_map, sorted(world.pods), sorted(world.running)),
    }
