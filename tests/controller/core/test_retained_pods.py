"""Pods that stay after their end: what users, policies and retries do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from frameworkcontroller.api.meta import Labels, Meta, OwnerReference
from frameworkcontroller.api.pod import Pod, PodSpec
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Failed, FindPod, Found, RetainPod
from frameworkcontroller.core.machines.task import Action, step
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.outcomes import TRIES_TO_RETAIN, apply_pod_outcome
from tests.controller.core.addedscenarios import with_fields
from tests.controller.core.run import Run
from tests.controller.core.scenarios import STAY, TWO_ROLES, all_run
from tests.controller.core.test_outcomes import state_of
from tests.controller.core.test_task import ENDED
from tests.controller.core.values import FRAMEWORK_UID, POD_UID, moment, pod, task, task_facts
from tests.controller.core.world import Plan, World, framework_of

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Effect, Outcome

S = State
LET_GO = OwnerReference(kind="Framework", name="fw", uid="framework-uid", controller=True)
OF_THE_ATTEMPT = OwnerReference(kind="ConfigMap", name="fw-attempt", uid="config-map-uid", controller=True)


def of_somebody(owner: OwnerReference, labels: Labels) -> Pod:
    return Pod(Meta("fw-worker-0", "old-uid", "1", namespace="ns", labels=labels, owner_references=(owner,)))


@pytest.mark.parametrize(
    "found",
    [
        of_somebody(replace(LET_GO, uid="of-the-fw-before"), Labels(framework="fw", retained="true")),
        of_somebody(OwnerReference(kind="ReplicaSet", name="web", uid="web-uid", controller=True), Labels()),
    ],
    ids=["retained by a Framework of the same name", "unlabelled, of somebody else"],
)
def test_a_hidden_pod_that_is_not_ours_is_asked_for_with_pauses(found: Pod) -> None:
    """kubectl delete framework fw; kubectl apply: until the garbage collector is done, the names are taken."""
    world = World(framework_of(with_fields("retainPods: Always")), Plan({"ps-0": ["stay"]}))
    world.retained["fw-worker-0"] = found
    run = Run(world, limit=20)
    with pytest.raises(AssertionError, match="not over after"):
        run.to_the_end()
    assert world.history["FindPod"] < 20
    assert sum(one.reason == "FailedCreate" for one in run.events) == 1


def test_a_pod_that_failed_in_an_init_container_stays_if_it_is_not_tried_again() -> None:
    """Its containers have never run: the kubelet reports them as waiting."""
    ended = {"name": "data", "state": {"terminated": {"exitCode": 1}}}
    waiting = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    shown = pod("Failed", initContainerStatuses=[ended], containerStatuses=[waiting])
    once = replace(shown, spec=PodSpec(restart_policy="Never"))
    actions = [step(ENDED, one, task_facts(retain_pods="OnFailure"), persisted=True).action for one in (shown, once)]
    assert actions == [Action.DELETE, Action.RETAIN]


class SickForPatches(Run):
    """Each patch of a Pod is answered by this."""

    def send(self, effect: Effect) -> Outcome:
        if isinstance(effect, RetainPod):
            self.world.history["RetainPod"] += 1
            return Failed("500 InternalError: failed calling webhook")
        return super().send(effect)


def test_a_framework_ends_although_pods_cannot_be_let_go() -> None:
    """An admission webhook for changes of Pods is down for days: logs are worth less than the end of the Framework."""
    world = World(framework_of(with_fields("retainPods: OnFailure")), Plan({"ps-0": ["stay"], "worker-0": [210]}))
    run = SickForPatches(world)
    run.to_the_end()
    assert world.status.state is S.COMPLETED
    assert world.history["RetainPod"] == TRIES_TO_RETAIN
    assert "The Pod of worker-0 is deleted with its logs: 500 InternalError: failed calling webhook" in [
        one.message for one in run.events if one.reason == "PodNotRetained"
    ]


@pytest.mark.parametrize("owner", [LET_GO, OF_THE_ATTEMPT])
@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.parametrize("is_over", [True, False])
def test_only_a_pod_that_has_ended_counts_as_let_go(owner: OwnerReference, has_ended: bool, is_over: bool) -> None:
    """Whoever may change Pods may give a running one the label and the owner."""
    labels = Labels(framework="fw", retained="true")
    current = ENDED if is_over else task(S.RUNNING)
    state = state_of(current)
    found = Found(Meta("fw-worker-0", POD_UID, "1", labels=labels, owner_references=(owner,)), has_ended)
    apply_pod_outcome(
        state, InFlight(lambda: 0.5), FindPod("worker", 0), found, moment(1), FRAMEWORK_UID, RetryPolicy()
    )
    assert (POD_UID in state.sightings.gone) is (is_over and has_ended and owner is LET_GO)
    now = state.task(("worker", 0))
    assert now is not None
    assert now.completion is not None
    if not is_over:
        assert now.completion.code == -101
        assert now.completion.diagnostics.startswith("Pod has not ended and has the label")


def test_a_label_does_not_hide_a_pod_that_runs() -> None:
    """A user gives a running Pod the label and the owner of one that was let go, and stops the Framework."""

    def script(world: World) -> None:
        if all_run(world) and "done" not in world.notes:
            world.notes["done"] = True
            one = world.pods["fw-worker-0"]
            labels = replace(one.metadata.labels, retained="true")
            world.pods["fw-worker-0"] = replace(
                one, metadata=replace(one.metadata, labels=labels, owner_references=(LET_GO,))
            )
            world.stop()

    world = World(framework_of(TWO_ROLES), Plan({"ps-0": ["stay"], **STAY}))
    Run(world, script=script).to_the_end()
    assert world.notes["done"]


def test_pods_of_an_attempt_that_is_retried_are_deleted_with_it() -> None:
    """The next attempt needs their names. Those of Tasks that had ended before are in its way: that is no failure."""
    world = World(framework_of(with_fields("retainPods: Always")), Plan({"ps-0": ["stay"], "worker-1": [1, 1, 0]}))
    run = Run(world)
    run.to_the_end()
    assert world.status.retry_policy_status.total_retried_count == 1
    assert sum(one.reason == "FailedCreate" for one in run.events) == 0
    assert world.retained
