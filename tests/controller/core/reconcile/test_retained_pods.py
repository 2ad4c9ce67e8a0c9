"""Pods that stay after their end: what users, policies and retries do to them."""

import pytest
from msgspec.structs import replace

from frameworkcontroller.api.meta import Labels, Meta, OwnerReference
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Effect, Failed, Outcome, RetainPod
from frameworkcontroller.core.reconcile.outcomes import TRIES_TO_RETAIN
from tests.controller.core.run import Run
from tests.controller.core.scenarios.added import with_fields
from tests.controller.core.scenarios.lives import STAY, TWO_ROLES, all_run
from tests.controller.core.world import Plan, World, framework_of

S = State
LET_GO = OwnerReference(kind="Framework", name="fw", uid="framework-uid", controller=True)


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
    assert len(run.said("FailedCreate")) == 1


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
    text = "The Pod of worker-0 is deleted with its logs: 500 InternalError: failed calling webhook"
    assert text in run.said("PodNotRetained")


def test_a_label_does_not_hide_a_pod_that_runs() -> None:
    """A user gives a running Pod the label and the owner of one that was let go, and stops the Framework."""

    def script(world: World) -> None:
        if all_run(world) and "done" not in world.notes:
            world.notes["done"] = True
            one = world.pods["fw-worker-0"]
            labels = replace(one.metadata.labels, retained="true")
            meta = replace(one.metadata, labels=labels, owner_references=(LET_GO,))
            world.pods["fw-worker-0"] = replace(one, metadata=meta)
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
    assert not run.said("FailedCreate")
    assert world.retained
