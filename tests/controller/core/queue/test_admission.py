"""What is asked of a queue, what an admission adds to Pods, and what Kueue is told: functions of values."""

import re
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.spec import SPEC_DECODER, FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.workload import (
    FLAVOR_DECODER,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    SHAPE,
    WORKLOAD_DECODER,
    Flavor,
    Workload,
)
from frameworkcontroller.core.effects import (
    CompanionEffect,
    CreateCompanion,
    DeleteCompanion,
    Effect,
    Failed,
    Missing,
    Outcome,
    Refused,
)
from frameworkcontroller.core.pods.facts import MAX_CONTAINERS_OF_FRAMEWORK
from frameworkcontroller.core.pods.template import MAX_CONTAINERS_OF_POD, PodTemplate, RoleAttempt, TemplateError
from frameworkcontroller.core.queue import protocol
from frameworkcontroller.core.queue.admission import AdmissionError, UnknownFlavorError, additions_of
from frameworkcontroller.core.queue.pod_sets import MAX_POD_SETS, wanted_pod_sets
from frameworkcontroller.core.reconcile import queue_pass
from tests.controller.core.driver import Driver
from tests.controller.core.scenarios.lives import STAY, TWO_ROLES
from tests.controller.core.values import START, core_config, known
from tests.controller.core.world import Plan, World, framework_of

KUEUE, LABELS = "kueue.x-k8s.io", {QUEUE_LABEL: "main"}


def spec_of(*pods: dict[str, Any]) -> FrameworkSpec:
    roles = [{"name": f"worker{place or ''}", "taskNumber": 2, "task": {"pod": pod}} for place, pod in enumerate(pods)]
    return SPEC_DECODER.decode(msgspec.json.encode({"taskRoles": roles}))


def template(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "a", "command": ["train"], "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container], "volumes": [], **spec}}


# --- podSets ---------------------------------------------------------------------------------------------------------


POD_SET = """{
    "name": "worker", "count": 2,
    "topologyRequest": {"podIndexLabel": "FC_TASK_INDEX", "required": "rack", "podSetGroupName": "g"},
    "template": {
        "spec": {
            "nodeSelector": {"gpu": "yes"}, "priorityClassName": "high",
            "initContainers": [{"name": "barrier", "image": "b", "restartPolicy": "Always"}],
            "containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}]
        }
    }
}"""


def test_a_pod_set_has_what_counts_for_quota_and_placement() -> None:
    barrier = {"name": "barrier", "image": "b", "restartPolicy": "Always", "env": [{"name": "x", "value": "y"}]}
    annotations = {f"{KUEUE}/podset-required-topology": "rack", f"{KUEUE}/podset-group-name": "g", "mine": "x"}
    more = {"initContainers": [barrier], "nodeSelector": {"gpu": "yes"}, "priorityClassName": "high"}
    (found,) = wanted_pod_sets(spec_of(template(annotations, **more)))
    assert (found.name, found.count, found.priority_class) == ("worker", 2, "high")
    document = msgspec.json.decode(found.document)
    assert document["template"].pop("metadata") == {"annotations": {SHAPE: found.shape}}
    assert document == msgspec.json.decode(POD_SET)


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"podset-preferred-topology": "rack"}, {"preferred": "rack"}),
        ({"podset-unconstrained-topology": "true"}, {"unconstrained": True}),
        (
            {"podset-slice-required-topology": "host", "podset-slice-size": "2"},
            {"podSetSliceRequiredTopology": "host", "podSetSliceSize": 2},
        ),
        ({"podset-slice-size": "2"}, {}),
    ],
)
def test_annotations_ask_for_a_topology(annotations: dict[str, str], wanted: dict[str, Any]) -> None:
    asked = template({f"{KUEUE}/{key}": value for key, value in annotations.items()})
    (found,) = wanted_pod_sets(spec_of(asked))
    assert msgspec.json.decode(found.document)["topologyRequest"] == {"podIndexLabel": "FC_TASK_INDEX", **wanted}


def test_the_shape_is_what_a_quota_is_for() -> None:
    def shape(pod: dict[str, Any]) -> str:
        return wanted_pod_sets(spec_of(pod))[0].shape

    plain = template()
    another_image = template(volumes=[{"name": "data"}], hostname="x")
    another_image["spec"]["containers"][0] |= {"image": "c", "command": ["other"], "env": []}
    assert shape(plain) == shape(another_image)
    larger = template()
    larger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    others = [larger, template(nodeSelector={"a": "b"}), template({f"{KUEUE}/podset-required-topology": "rack"})]
    assert len({shape(one) for one in (plain, *others)}) == 4


POD = "spec.taskRoles[worker].task.pod"
NEGATIVE = {f"{KUEUE}/podset-slice-required-topology": "h", f"{KUEUE}/podset-slice-size": "-1"}


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"spec": {"containers": "x"}}, f"{POD}: Expected `array | null`, got `str`"),
        ({"spec": {"priorityClassName": 7, "containers": []}}, f"{POD}: Expected `str | null`"),
        (template(NEGATIVE), "slice-size]"),
        (template(affinity={"x" * 262_144: {}}), f"{POD}: requests, affinity and other rules"),
    ],
    ids=["no list", "no text", "negative", "too large"],
)
def test_a_template_that_cannot_be_read_is_named(pod: dict[str, Any], text: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(text)):
        wanted_pod_sets(spec_of(pod))


def test_more_roles_than_a_workload_has_pod_sets_are_refused_before_a_template_is_read() -> None:
    assert MAX_POD_SETS * MAX_CONTAINERS_OF_POD <= MAX_CONTAINERS_OF_FRAMEWORK
    with pytest.raises(TemplateError, match=r"^spec.taskRoles: .* at most 18, found 19 TaskRoles"):
        wanted_pod_sets(spec_of(*[{"spec": {"containers": "x"}}] * (MAX_POD_SETS + 1)))


def test_as_many_pod_sets_of_ten_kilobytes_fit() -> None:
    large = template(affinity={"x" * 10_000: {}})
    assert len(wanted_pod_sets(spec_of(*[large] * MAX_POD_SETS))) == MAX_POD_SETS


# --- what an admission adds ------------------------------------------------------------------------------------------


def workload_of(**status: Any) -> Workload:
    metadata = {"name": "w", "uid": "u", "resourceVersion": "7", "generation": 3}
    spec = {"queueName": "main", "podSets": [{"name": "worker", "count": 2}]}
    return WORKLOAD_DECODER.decode(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status}))


def admitted(flavors: dict[str, str] | None = None, topology: object = None, **status: Any) -> Workload:
    assignment = {"name": "worker", "flavors": flavors or {}, "topologyAssignment": topology}
    return workload_of(admission={"clusterQueue": "q", "podSetAssignments": [assignment]}, **status)


TOLERATION = {"key": "spot", "operator": "Exists"}


def flavor(name: str) -> Flavor | None:
    if name == "gone":
        return None
    spec = {"nodeLabels": {"pool": name}, "tolerations": [TOLERATION] if name == "spot" else []}
    metadata = {"name": name, "uid": "u", "resourceVersion": "1"}
    return FLAVOR_DECODER.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}))


def added(workload: Workload, pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(additions_of(workload, spec_of(pod), flavor)["worker"])
    return found


MARKS = {"labels": {f"{KUEUE}/podset": "worker"}, "annotations": {f"{KUEUE}/workload": "w"}}


def test_flavors_and_checks_add_to_pods_what_they_have_not() -> None:
    update = {"name": "worker", "labels": {"a": "b"}, "annotations": {"c": "d"}, "nodeSelector": {"rack": "7"}}
    checks = [{"name": "buy", "state": "Ready", "podSetUpdates": [update | {"tolerations": [TOLERATION]}]}]
    found = added(admitted({"cpu": "spot", "memory": "spot"}, admissionChecks=checks), template())
    assert found == {
        "labels": MARKS["labels"] | {"a": "b"},
        "annotations": MARKS["annotations"] | {"c": "d"},
        "nodeSelector": {"pool": "spot", "rack": "7"},
        "tolerations": [TOLERATION],
    }
    found = added(admitted({"cpu": "spot"}), template(tolerations=[TOLERATION], nodeSelector={"pool": "spot"}))
    assert found == MARKS | {"nodeSelector": {"pool": "spot"}}


@pytest.mark.parametrize("asks", [True, False])
def test_where_nodes_are_chosen_pods_wait_for_theirs(asks: bool) -> None:
    annotations = {f"{KUEUE}/podset-required-topology": "r"} if asks else {}
    found = added(admitted(topology={"levels": ["host"]}), template(annotations))
    assert found["schedulingGates"] == [{"name": f"{KUEUE}/topology"}]
    assert (f"{KUEUE}/podset-unconstrained-topology" in found["annotations"]) is not asks


@pytest.mark.parametrize(
    ("check", "pod", "text"),
    [
        ({}, template(nodeSelector={"pool": "mine"}), "Pod template of TaskRole worker: nodeSelector[pool]"),
        ({"nodeSelector": {"pool": "other"}}, template(), "admission check buy, TaskRole worker: nodeSelector[pool]"),
        ({"annotations": {"mine": "y"}}, template({"mine": "x"}), "Pod template of TaskRole worker: annotations[mine]"),
    ],
)
def test_a_contradiction_is_named(check: dict[str, Any], pod: dict[str, Any], text: str) -> None:
    checks = [{"name": "buy", "state": "Ready", "podSetUpdates": [{"name": "worker", **check}]}]
    with pytest.raises(AdmissionError, match=f"^{re.escape(text)}"):
        added(admitted({"cpu": "plain"}, admissionChecks=checks), pod)


def test_a_flavor_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownFlavorError, match="ResourceFlavor gone is not known"):
        added(admitted({"cpu": "gone"}), template())


def test_a_pod_has_what_was_added_and_what_its_template_has() -> None:
    pod = template({"mine": "x"}, nodeSelector={"a": "b"}, tolerations=[{"key": "mine"}])
    metadata = {"labels": {"l": "1"}, "annotations": {"n": "2"}}
    rules = {"nodeSelector": {"pool": "spot"}, "tolerations": [TOLERATION], "schedulingGates": [{"name": "gate"}]}
    additions = msgspec.json.encode(metadata | rules)
    attempt = RoleAttempt("ns", "fw", "uid", 0, "config-map", "worker", "role", additions)
    made = msgspec.json.decode(PodTemplate(msgspec.json.encode(pod), attempt).render(0, "task", 0))
    rules |= {"nodeSelector": {"a": "b", "pool": "spot"}, "tolerations": [{"key": "mine"}, TOLERATION]}
    for found, wanted in (
        (made["metadata"]["labels"], {"l": "1", "FC_FRAMEWORK_NAME": "fw"}),
        (made["metadata"]["annotations"], {"n": "2", "mine": "x"}),
        (made["spec"], rules),
    ):
        assert found.items() >= wanted.items()


# --- what Kueue is told ----------------------------------------------------------------------------------------------


def condition(kind: str, status: str, reason: str = "r") -> dict[str, str]:
    since = "2025-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since}


def told(patch: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in patch["conditions"]}


@pytest.mark.parametrize(
    ("reason", "requeued"), [("Preempted", "True"), ("NodeFailures", "True"), ("Deactivated", "False")]
)
def test_a_quota_is_given_back_with_the_reason(reason: str, requeued: str) -> None:
    reasons = {"QuotaReserved": "r", "Admitted": "r", "Evicted": reason, "PodsReady": "Started"}
    conditions = [condition(kind, "True", why) for kind, why in reasons.items()]
    found = admitted(conditions=conditions, reclaimablePods=[{"name": "worker", "count": 1}])
    assert protocol.needs_release(found)
    patch = protocol.release(found, START)
    assert (patch["admission"], patch["reclaimablePods"]) == (None, [])
    assert told(patch) == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
        "Evicted": ("True", reason),
        "PodsReady": ("False", "WaitForStart"),
        "Requeued": (requeued, reason),
    }
    times = {one["type"]: one["lastTransitionTime"] for one in patch["conditions"]}
    assert (times["Evicted"], times["Admitted"]) == ("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    assert {one["observedGeneration"] for one in patch["conditions"]} == {0, 3}
    assert not protocol.needs_release(workload_of(conditions=patch["conditions"]))


@pytest.mark.parametrize(
    ("before", "ready", "wanted"),
    [
        ("", True, "True Started"),
        ("", False, ""),
        ("False WaitForStart", True, "True Started"),
        ("True Started", True, ""),
        ("True Started", False, "False WaitForRecovery"),
        ("False WaitForRecovery", False, ""),
        ("False WaitForRecovery", True, "True Recovered"),
        ("True Recovered", False, "False WaitForRecovery"),
    ],
)
def test_pods_are_ready_once_and_again(before: str, ready: bool, wanted: str) -> None:
    conditions = [condition("PodsReady", *before.split())] if before else []
    patch = protocol.report(workload_of(conditions=conditions), ready=ready, reclaimable={}, now=START)
    assert (" ".join(told(patch)["PodsReady"]) if patch else "") == wanted


@pytest.mark.parametrize(("before", "now", "wanted"), [(0, 0, None), (0, 1, 1), (1, 1, None), (1, 2, 2), (2, 1, None)])
def test_the_number_of_pods_that_need_no_quota_never_falls(before: int, now: int, wanted: int | None) -> None:
    found = workload_of(reclaimablePods=[{"name": "worker", "count": before}] if before else [])
    patch = protocol.report(found, ready=False, reclaimable={"worker": now}, now=START)
    assert patch == ({} if wanted is None else {"reclaimablePods": [{"name": "worker", "count": wanted}]})


ADMITTED = admitted(conditions=[condition("Admitted", "True")])
GOING = replace(ADMITTED, metadata=replace(ADMITTED.metadata, deletion_timestamp=START))
EVICTED = admitted(conditions=[condition("Admitted", "True"), condition("Evicted", "True", "Preempted")])


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        (ADMITTED, ""),
        (EVICTED, "Preempted: m"),
        (admitted(conditions=[condition("Admitted", "False", "Gone")]), "Gone: m"),
        (admitted(conditions=[]), "the Workload is not admitted"),
        (GOING, "the Workload was deleted"),
        (None, "the Workload was deleted"),
    ],
    ids=lambda row: row if isinstance(row, str) else "",
)
def test_what_is_not_admitted_any_more_is_evicted(workload: Workload | None, text: str) -> None:
    assert protocol.eviction_text(workload) == text


# --- beside it -------------------------------------------------------------------------------------------------------


class Queued(Driver):
    """A Framework in a queue, whose Tasks run on and on; so many Pods may be admitted."""

    def __init__(
        self, spec: str = TWO_ROLES, *, labels: Mapping[str, str] = LABELS, capacity: int = 100, managed: bool = False
    ) -> None:
        manifest, config = framework_of(spec), core_config(kueue=True, kueue_manages_all=managed)
        manifest["metadata"]["labels"] = labels
        super().__init__(World(manifest, Plan({"ps-0": ["stay"], **STAY}, capacity=capacity), config))
        self.kueue = self.world.kueue

    def label(self, **labels: str) -> None:
        """The Framework gets these labels instead."""
        self.world.manifest["metadata"]["labels"] = labels
        self.world.edited()

    @property
    def suspended(self) -> tuple[str, str]:
        """The condition Suspended and its reason."""
        return self.condition("Suspended")[:2]


def test_a_deadline_stands_still_in_the_queue() -> None:
    driver, states = Queued(f"activeDeadlineSeconds: 30\n{TWO_ROLES}"), []
    for capacity, seconds in ((100, 8), (0, 60), (100, 10)):
        driver.kueue.capacity = capacity
        if not capacity:
            driver.kueue.evict()
        driver.go_on(seconds)
        states.append(driver.state)
    assert states == [State.RUNNING, State.CREATION_PENDING, State.RUNNING]
    assert driver.world.status.suspended_sec
    driver.go_on(40)
    assert known(driver.world.status.completion).code == -240


def test_it_waits_for_a_queue_where_all_are_queued() -> None:
    driver = Queued(labels={}, managed=True)
    driver.go_on(5)
    assert (driver.suspended, driver.kueue.made) == (("True", "NoQueue"), 0)
    driver.label(**LABELS)
    driver.go_on(10)
    assert (driver.kueue.made, driver.kueue.admissions) == (1, 1)
    assert not driver.said("FrameworkSuspended")


def test_no_pod_is_made_before_it_is_known_what_is_added_to_it() -> None:
    """A controller has started again, and has not read Kueue's objects yet."""
    driver = Queued()
    driver.go_on(8)
    driver.kueue.known = False
    driver.start()
    driver.world.terminate("fw-worker-0")
    for is_read in (False, True):
        driver.kueue.known = is_read
        driver.go_on(10)
        assert (driver.state, "fw-worker-0" in driver.world.pods) == (State.RUNNING, is_read)


def test_a_framework_that_had_no_roles_at_first_does_not_pass_its_queue() -> None:
    driver = Queued(capacity=0)
    roles = driver.world.spec["taskRoles"]
    for number in (0, len(roles)):
        driver.edit(taskRoles=roles[:number])
        driver.go_on(10)
    assert (driver.state, driver.world.running) == (State.CREATION_PENDING, {})


def test_a_workload_that_could_not_be_given_up_in_time_is_given_up_later() -> None:
    """The label is removed, and the attempt begins meanwhile: nobody else would give its quota back."""
    driver = Queued(capacity=0)
    driver.go_on(8)
    driver.label()
    failures, perform = [Failed("500")], driver.world.perform

    def fail_first(effect: Effect) -> Outcome:
        return failures.pop() if isinstance(effect, DeleteCompanion) and failures else perform(effect)

    driver.world.perform = fail_first  # type: ignore[method-assign]
    driver.go_on(60)
    assert (driver.state, driver.kueue.document, failures) == (State.RUNNING, None, [])


def test_a_workload_that_others_finish_has_no_quota_and_is_replaced() -> None:
    driver = Queued()
    driver.go_on(8)
    driver.kueue.finish()
    driver.go_on(30)
    assert (driver.state, driver.kueue.made, driver.world.status.attempts) == (State.RUNNING, 2, 2)


def test_a_workload_that_others_change_is_made_once() -> None:
    driver = Queued()
    perform = driver.kueue.perform

    def force_a_queue(effect: CompanionEffect) -> Outcome:
        outcome = perform(effect)
        if isinstance(effect, CreateCompanion) and driver.kueue.document is not None:
            driver.kueue.document["spec"]["queueName"] = "forced"
        return outcome

    driver.kueue.perform = force_a_queue  # type: ignore[method-assign]
    driver.go_on(30)
    assert (driver.suspended[1], driver.kueue.made) == ("WorkloadRefused", 1)


def test_a_framework_that_may_not_begin_holds_no_quota() -> None:
    driver = Queued(TWO_ROLES.replace("taskNumber: 3", "taskNumber: 20000"), capacity=100_000)
    driver.go_on(5)
    assert (driver.suspended[1], driver.kueue.made) == ("TooManyTasks", 0)


@pytest.mark.parametrize("outcome", [Refused(422, "spec.podSets: Too many"), Missing()])
def test_what_the_api_server_says_of_a_workload_is_told(outcome: Outcome) -> None:
    driver = Queued()
    driver.kueue.perform = lambda effect: outcome  # type: ignore[method-assign]
    driver.go_on(5)
    assert driver.suspended[1] == "WorkloadRefused"
    # Whatever is seen of Workloads, the next try waits.
    before = driver.world.history["CreateCompanion"]
    for _ in range(50):
        driver.touch_workload()
        driver.decide()
    assert driver.world.history["CreateCompanion"] == before


def test_what_is_wrong_with_a_spec_is_found_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(wraps=wanted_pod_sets)
    monkeypatch.setattr(queue_pass, "wanted_pod_sets", asked)
    driver = Queued(TWO_ROLES.replace("spec: {", "spec: {priorityClassName: 7, "))
    for _ in range(3):
        driver.go_on(5)
        assert (driver.suspended[1], driver.kueue.made, asked.call_count) == ("WorkloadRefused", 0, 1)
    for role in driver.world.spec["taskRoles"]:
        del role["task"]["pod"]["spec"]["priorityClassName"]
    driver.world.edited()
    driver.go_on(10)
    assert (driver.state, driver.kueue.made, asked.call_count) == (State.RUNNING, 1, 2)


def test_another_priority_class_counts_while_it_waits() -> None:
    driver = Queued(capacity=0)
    driver.go_on(5)
    for number, labels, capacity in (
        (2, {PRIORITY_LABEL: "high"}, 0),
        (3, {}, 100),
        (3, {PRIORITY_LABEL: "high"}, 100),
    ):
        driver.label(**LABELS, **labels)
        driver.go_on(10)
        assert driver.kueue.made == number
        driver.kueue.capacity = capacity
        driver.go_on(10)
    assert driver.state is State.RUNNING
