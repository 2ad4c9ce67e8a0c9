"""Which source is chosen, and what the Framework and Pods sources make of what they see."""

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import GoneError, SettingsError, StillForbiddenError
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Fault, Observation
from frameworkbarrier.settings import OwnTask
from frameworkbarrier.shape import ShapeError
from frameworkbarrier.source import choose as sources
from frameworkbarrier.source import framework, pods
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.roster import decode
from frameworkbarrier.source.views import FrameworkView, PodsView
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import configmap, environment, roster, uid

Serve = Callable[[Script], FaultyServer]


def task(role: str, index: int, ip: str | None = "10.0.0.9", **changes: Any) -> dict[str, Any]:
    attempt = {
        "id": 2,
        "podUID": uid(role, index),
        "podName": f"mnist-{role}-{index}",
        "podIP": ip,
        "podNodeName": "node-1",
        "podHostIP": "192.168.0.1",
        "completionStatus": None,
    }
    status = {"index": index, "state": "AttemptPreparing", "deletionPending": False, "attemptStatus": attempt}
    return status | changes


def framework_object(roles: dict[str, list[dict[str, Any]]], numbers: dict[str, int] | None = None) -> dict[str, Any]:
    numbers = numbers or {name: len(tasks) for name, tasks in roles.items()}
    statuses = [{"name": name, "taskStatuses": tasks} for name, tasks in roles.items()]
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "mnist", "namespace": "lab", "uid": "fw-uid", "resourceVersion": "5"},
        "spec": {"taskRoles": [{"name": name, "taskNumber": number} for name, number in numbers.items()]},
        "status": {"attemptStatus": {"id": 3, "instanceUID": "3_cm-uid", "taskRoleStatuses": statuses}},
    }


ME = OwnTask("worker", 0, uid("worker", 0))
CONFIGMAP = "/api/v1/namespaces/lab/configmaps/mnist-attempt"
FRAMEWORK = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/lab/frameworks/mnist"
IN_PLACE = {"FB_MODE": "sidecar", "FB_RESTART": "in-place"}


def gang_of(document: dict[str, Any], me: OwnTask = ME, attempt: int | None = 3) -> Gang:
    return framework.gang_of(framework.decompress(document), me, attempt)


def test_a_framework_whose_tasks_are_all_recorded_with_an_address_is_complete() -> None:
    gang = gang_of(framework_object({"ps": [task("ps", 0, "10.0.0.1")], "worker": [task("worker", 0, "10.0.0.2")]}))
    assert (gang.complete, gang.ready, gang.total, gang.attempt_id) == (True, 2, 2, 3)
    assert [role.name for role in gang.roles] == ["ps", "worker"]
    assert gang.roles[1].tasks[0].pod == "mnist-worker-0"
    assert gang.roles[1].tasks[0].uid8 == uid("worker", 0)[:8]


def test_a_role_that_waits_for_others_has_no_tasks_in_the_gang_yet() -> None:
    document = framework_object({"reduce": [task("reduce", 0, None)], "worker": [task("worker", 0, "10.0.0.2")]})
    document["status"]["attemptStatus"]["taskRoleStatuses"][0]["dependenciesMet"] = False
    gang = gang_of(document)
    assert (gang.complete, gang.ready, gang.total) == (True, 1, 1)
    assert [(role.name, len(role.tasks)) for role in gang.roles] == [("reduce", 0), ("worker", 1)]
    document["status"]["attemptStatus"]["taskRoleStatuses"][0]["dependenciesMet"] = True
    assert (gang_of(document).complete, gang_of(document).total) == (False, 2)


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ([task("worker", 0, None)], "has no address yet"),
        ([task("worker", 0, "")], "has no address yet"),
        ([task("worker", 0, state="AttemptCreationPending", attemptStatus={"id": 0})], "AttemptCreationPending"),
        ([task("worker", 0, deletionPending=True)], "is being deleted"),
        ([], "is not in the status yet"),
    ],
)
def test_a_task_that_is_not_ready_is_missing_with_its_reason(tasks: list[Any], why: str) -> None:
    gang = gang_of(framework_object({"worker": tasks}, {"worker": 1}), OwnTask("worker", 5, uid("worker", 5)))
    assert (gang.complete, gang.ready, gang.total) == (False, 0, 1)
    assert [(each.task, each.why) for each in gang.waiting_for] == [("worker-0", why)]


def test_the_spec_says_who_belongs_to_the_gang_whatever_the_status_still_lists() -> None:
    both = [task("worker", 0), task("worker", 1, deletionPending=True)]
    gang = gang_of(framework_object({"worker": both, "old": [task("old", 0)]}, {"worker": 1}))
    assert (gang.complete, gang.total) == (True, 1)


def test_a_compressed_status_is_read() -> None:
    document = framework_object({"worker": [task("worker", 0, "10.0.0.2")]})
    attempt = document["status"]["attemptStatus"]
    packed = base64.b64encode(gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())).decode()
    plain = gang_of(document)
    attempt["taskRoleStatusesCompressed"] = packed
    attempt["taskRoleStatuses"] = None
    assert gang_of(document) == plain
    decompressed = framework.decompress(document)["status"]["attemptStatus"]
    assert decompressed["taskRoleStatuses"][0]["name"] == "worker"
    assert decompressed["taskRoleStatusesCompressed"] is None
    assert attempt["taskRoleStatuses"] is None  # the object as read is not changed


def test_a_raw_status_counts_before_a_compressed_one() -> None:
    document = framework_object({"worker": [task("worker", 0)]})
    document["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = "!!!"
    assert gang_of(document).complete


def test_a_framework_without_status_waits_for_everybody() -> None:
    document = framework_object({}, {"worker": 12})
    document["status"] = None
    gang = gang_of(document)
    assert (gang.complete, gang.ready, gang.total, len(gang.waiting_for)) == (False, 0, 12, 10)


def test_a_framework_in_a_later_attempt_is_over_for_this_pod() -> None:
    with pytest.raises(GoneError, match="later attempt"):
        gang_of(framework_object({"worker": [task("worker", 0)]}), attempt=2)


def test_the_own_task_on_its_way_out_is_over() -> None:
    with pytest.raises(GoneError, match=r"worker-0.*is being deleted"):
        gang_of(framework_object({"worker": [task("worker", 0, deletionPending=True)]}))


def test_a_bad_compressed_status_is_unreadable_and_named() -> None:
    document = framework_object({})
    document["status"]["attemptStatus"] = {"taskRoleStatusesCompressed": "!!!"}
    with pytest.raises(ShapeError, match="taskRoleStatusesCompressed"):
        gang_of(document)


def test_the_generation_of_a_framework_grows_with_its_membership_only() -> None:
    view = FrameworkView(settings.parse(environment()))

    def generation(*tasks: dict[str, Any]) -> int:
        seen = observed(view.loaded(framework_object({"worker": list(tasks)})))
        assert decode(seen.roster_text) == seen.gang
        return seen.gang.generation

    assert generation(task("worker", 0)) == 1
    assert generation(task("worker", 0, state="AttemptRunning")) == 1
    assert generation(task("worker", 0, None)) == 1
    assert generation(task("worker", 0, "10.0.0.77")) == 2


def pod(name: str, **changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "labels": {"role": "worker"},
            "creationTimestamp": "2026-11-21T00:00:00Z",
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Pending", "podIP": "10.0.0.1", "hostIP": "192.168.0.1"},
    }
    for part, values in changes.items():
        document[part] = document[part] | values
    return document


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"name": "web-abcde"}, "this Pod has no index: .*web-abcde"),
        ({"labels": {"role": "driver"}}, "FB_ROLE_LABEL=role: this Pod's label is 'driver'; FB_ROLES names worker"),
        ({"labels": {}}, "FB_ROLE_LABEL=role: this Pod's label is not there"),
    ],
)
def test_a_pod_that_can_be_no_member_of_its_own_gang_learns_the_reason(metadata: dict[str, Any], says: str) -> None:
    environ = {"FB_SELECTOR": "app=x", "FB_ROLES": "worker=1", "FB_ROLE_LABEL": "role", "FC_POD_UID": "own"}
    view = PodsView(settings.parse(environ), "lab")
    with pytest.raises(SettingsError, match=says):
        view.loaded({"items": [pod("web-0", metadata=metadata | {"uid": "own"})]})
    view.loaded({"items": [pod("web-0", metadata=metadata)]})  # another's is its own affair


LEADER_OF_THE_SECOND_GROUP = {"apps.kubernetes.io/pod-index": "1", "leaderworkerset.sigs.k8s.io/worker-index": "0"}


@pytest.mark.parametrize(
    ("metadata", "index"),
    [
        ({"labels": {"role": "worker", "batch.kubernetes.io/job-completion-index": "4"}}, 4),
        ({"annotations": {"batch.kubernetes.io/job-completion-index": "4"}}, 4),
        ({"labels": {"role": "worker", "apps.kubernetes.io/pod-index": "2"}}, 2),
        ({"labels": {"role": "worker", "leaderworkerset.sigs.k8s.io/worker-index": "1"}}, 1),
        ({"labels": {"role": "worker", **LEADER_OF_THE_SECOND_GROUP}}, 0),
        ({"name": "web-7"}, 7),
        ({"name": "web-0-5"}, 5),
    ],
)
def test_the_index_is_the_controllers_or_the_names_ordinal(metadata: dict[str, Any], index: int) -> None:
    found = pods.peer_of(pod("web-9", metadata=metadata), ["worker"], "role", "ip")
    assert found
    assert found.index == index


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"labels": {"role": "other"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"name": "web"}},
        {"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}},
        {"status": {"phase": "Failed"}},
        {"status": {"phase": "Succeeded"}},
    ],
    ids=["other role", "no labels", "no index", "being deleted", "failed", "succeeded"],
)
def test_a_pod_that_is_no_member_is_none(changes: dict[str, Any]) -> None:
    assert pods.peer_of(pod("web-1", **changes), ["worker"], "role", "ip") is None


def gang_of_pods(*documents: dict[str, Any], number: int = 1, wait_for: str = "ip") -> Gang:
    found = [pods.peer_of(document, ["worker"], "", wait_for) for document in documents]
    return pods.gang_of([peer for peer in found if peer], {"worker": number}, "lab")


def test_pods_with_addresses_are_a_gang() -> None:
    gang = gang_of_pods(pod("web-1"), pod("web-0"), number=2)
    assert gang.complete
    assert [each.pod for each in gang.roles[0].tasks] == ["web-0", "web-1"]


def test_of_two_pods_for_one_index_the_younger_counts() -> None:
    old = pod("web-x-0", metadata={"uid": "old", "creationTimestamp": "2026-11-21T00:00:00Z"})
    new = pod("web-y-0", metadata={"uid": "new", "creationTimestamp": "2026-11-21T00:00:09Z"})
    for order in ((old, new), (new, old)):
        assert gang_of_pods(*order).roles[0].tasks[0].uid8 == "new"


def test_why_a_pod_is_missing_is_shown_in_the_words_of_kubernetes() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    pull = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    gang = gang_of_pods(
        pod("web-0", status={"podIP": None, "conditions": [refused]}),
        pod("web-1", status={"podIP": "", "initContainerStatuses": [pull]}),
        number=3,
    )
    assert [f"{each.task} {each.why}" for each in gang.waiting_for] == [
        "worker-0 Pending: Unschedulable: 0/3 nodes",
        "worker-1 Pending: ImagePullBackOff: no such image",
        "worker-2 has no Pod yet",
    ]


@pytest.mark.parametrize(
    ("state", "arrived"),
    [
        ({"waiting": {"reason": "PodInitializing"}}, False),
        ({"running": {"startedAt": "2026-11-21T00:00:00Z"}}, True),
        ({"terminated": {"exitCode": 0}}, True),
        ({"terminated": {"exitCode": 201}}, False),
    ],
    ids=["not started", "runs", "opened", "gave up"],
)
def test_arrived_means_that_the_barrier_runs_or_has_opened(state: dict[str, Any], arrived: bool) -> None:
    statuses = [{"name": "mesh", "state": {"running": {}}}, {"name": "frameworkbarrier", "state": state}]
    document = pod("web-0", status={"initContainerStatuses": statuses})
    assert gang_of_pods(document, wait_for="arrived").complete is arrived
    assert gang_of_pods(document).complete


def test_a_list_in_pages_is_one_gang_and_a_deleted_pod_leaves_it() -> None:
    view = PodsView(settings.parse({"FB_SELECTOR": "app=web", "FB_ROLES": "worker=2"}), "lab")
    view.loaded({"items": [pod("web-0")]})
    seen = observed(view.loaded({"items": [pod("web-1")]}, more=True))
    assert seen.gang.complete
    seen = observed(view.changed("DELETED", pod("web-1")))
    assert seen.gang.ready == 1
    seen = observed(view.loaded({"items": []}))
    assert seen.gang.ready == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 403 is waited out no longer."""
    monkeypatch.setattr("frameworkbarrier.source.follow.FORBIDDEN_SEC", 0.0)


def observed(item: object) -> Observation:
    assert isinstance(item, Observation)
    return item


def first(server: FaultyServer, **environ: str) -> Observation | Fault:
    """The first item that is not a fault about 403."""
    read = settings.parse(environment() | environ)
    for item in sources.observe(read, Api(Access(server.url))):
        if not (isinstance(item, Fault) and item.forbidden):
            return item
    raise AssertionError


def answers(**by_path: Any) -> Script:
    """`configmap` and `framework`: an object, or a status code."""
    paths = {CONFIGMAP: by_path["configmap"], FRAMEWORK: by_path["framework"]}

    def script(request: Request, reply: Reply) -> None:
        answer = paths.get(request.path, 404)
        if isinstance(answer, int):
            reply.status(answer, f"no {request.path}")
        else:
            reply.answer(200, answer)

    return script


def test_a_configmap_without_roster_leads_to_the_framework(serve: Serve) -> None:
    document = framework_object({"worker": [task("worker", 0)]})
    server = serve(answers(configmap=configmap(None), framework=document))
    seen = observed(first(server, FC_FRAMEWORK_UID="fw-uid", FC_FRAMEWORK_ATTEMPT_ID="3"))
    assert seen.framework == document
    assert [request.path for request in server.requests] == [CONFIGMAP, FRAMEWORK]


@pytest.mark.parametrize("wait_for", ["ip", "arrived"])
def test_a_role_that_is_still_on_its_way_changes_no_source(serve: Serve, wait_for: str) -> None:
    """As the first requests of a Pod may find it: 403 for the ConfigMap, while the Framework may be read."""
    refusals = iter([403, 403])
    document = framework_object({"worker": [task("worker", 0)]})

    def script(request: Request, reply: Reply) -> None:
        complete = configmap(roster({"worker": 1}, generation=7, readiness="arrived"))
        answers(configmap=next(refusals, complete), framework=document)(request, reply)

    server = serve(script)
    seen = observed(first(server, FB_WAIT_FOR=wait_for))
    assert seen.gang.generation == 7
    assert [request.path for request in server.requests] == [CONFIGMAP] * 3


@pytest.mark.usefixtures("impatient")
def test_where_only_the_framework_may_be_read_it_is_after_the_time_that_a_role_may_take(serve: Serve) -> None:
    document = framework_object({"worker": [task("worker", 0)]})
    api = Api(Access(serve(answers(configmap=403, framework=document)).url))
    items = sources.observe(settings.parse(environment()), api)
    switched, seen = next(items), observed(next(items))
    assert isinstance(switched, Fault)
    assert switched.lasting
    assert switched.text.endswith("may still not read ConfigMap lab/mnist-attempt: reading Framework lab/mnist instead")
    assert seen.gang.complete


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("before", [403, "no roster"])
def test_while_the_framework_is_the_source_a_roster_is_looked_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, before: object
) -> None:
    monkeypatch.setattr("frameworkbarrier.source.choose.LOOK_AGAIN_SEC", 0.0)
    incomplete = framework_object({"worker": [task("worker", 0, None)]})
    shown: list[Any] = [403 if before == 403 else configmap(None)]

    def script(request: Request, reply: Reply) -> None:
        if request.watches and request.path == FRAMEWORK.removesuffix("/mnist"):
            reply.stream()
            reply.event("MODIFIED", incomplete)
            reply.hang()
        else:
            answers(configmap=shown[0], framework=incomplete)(request, reply)

    items = sources.observe(settings.parse(environment()), Api(Access(serve(script).url)))
    seen = (item for item in items if isinstance(item, Observation))
    assert next(seen).framework is not None
    shown[0] = configmap(roster({"worker": 1}, generation=7))
    last = next(seen)
    assert last.framework is None
    assert last.gang.generation == 7


@pytest.mark.parametrize(("tasks", "wish", "kept"), [(500, "auto", True), (501, "auto", False), (501, "always", True)])
def test_the_whole_framework_stays_in_memory_only_where_it_is_written(
    serve: Serve, tasks: int, wish: str, kept: bool
) -> None:
    """It is most of the memory of a large gang, twice while the next one is read."""
    document = framework_object({"worker": [task("worker", index) for index in range(tasks)]})
    read = settings.parse(environment(FB_FRAMEWORK_JSON=wish))
    seen = observed(
        next(sources.observe(read, Api(Access(serve(answers(configmap=configmap(None), framework=document)).url))))
    )
    assert seen.gang.total == tasks
    assert (seen.framework is not None) is kept


def test_a_gang_that_was_complete_stays_with_its_source(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generations of two sources are not comparable."""
    monkeypatch.setattr("frameworkbarrier.source.choose.LOOK_AGAIN_SEC", 0.0)
    complete = framework_object({"worker": [task("worker", 0)]})

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.event("MODIFIED", framework_object({"worker": [task("worker", 0, None)]}))
            reply.hang()
        else:
            answers(configmap=configmap(None), framework=complete)(request, reply)

    server = serve(script)
    items = sources.observe(settings.parse(environment()), Api(Access(server.url)))
    next(items), next(items)
    assert [request.path for request in server.requests].count(CONFIGMAP) == 1


def test_a_framework_that_is_gone_or_new_is_over(serve: Serve) -> None:
    with pytest.raises(GoneError, match="Framework lab/mnist is gone"):
        first(serve(answers(configmap=configmap(None), framework=404)))
    with pytest.raises(GoneError, match="created again"):
        first(serve(answers(configmap=configmap(None), framework=framework_object({}))), FC_FRAMEWORK_UID="another")


def test_arrived_is_refused_where_the_source_cannot_tell(serve: Serve) -> None:
    with pytest.raises(SettingsError, match="FB_WAIT_FOR=arrived: ConfigMap") as refusal:
        first(serve(answers(configmap=configmap(roster({"worker": 1})), framework=404)), FB_WAIT_FOR="arrived")
    # It says how to ask the controller for it.
    assert "annotation barrier.frameworkcontroller.microsoft.com/wait-for: arrived" in str(refusal.value)
    assert "init container that is named frameworkbarrier" in str(refusal.value)
    with pytest.raises(SettingsError, match="FB_WAIT_FOR=arrived: Framework"):
        first(serve(answers(configmap=configmap(None), framework=404)), FB_WAIT_FOR="arrived")


def test_arrived_is_served_by_a_roster_that_says_so(serve: Serve) -> None:
    document = configmap(roster({"worker": 1}, readiness="arrived"))
    seen = observed(first(serve(answers(configmap=document, framework=404)), FB_WAIT_FOR="arrived"))
    assert seen.gang.readiness == "arrived"


def test_an_unusable_roster_is_a_fault_and_not_the_end(serve: Serve) -> None:
    broken = configmap(None) | {"data": {"roster": "{"}}
    item = first(serve(answers(configmap=broken, framework=404)))
    assert isinstance(item, Fault)
    assert "no usable roster" in item.text


def test_a_barrier_that_restarts_in_place_knows_epochs_only_from_a_roster(serve: Serve) -> None:
    """Somebody empties the ConfigMap for a moment: a Framework has no epochs, and its source is never left again."""

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.event("MODIFIED", configmap(roster({"worker": 1}, generation=7, epoch=1), 2))
            reply.hang()
        else:
            answers(configmap=configmap(None), framework=framework_object({}))(request, reply)

    server = serve(script)
    seen = observed(first(server, **IN_PLACE))
    assert seen.gang.generation == 7
    assert FRAMEWORK not in [request.path for request in server.requests]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("framework", "environ"),
    [
        (403, {}),
        (framework_object({"worker": [task("worker", 0)]}), IN_PLACE),
        (framework_object({"worker": [task("worker", 0)]}), {"FB_WAIT_FOR": "arrived"}),
    ],
    ids=["neither may be read", "epochs", "arrivals"],
)
def test_who_needs_a_roster_needs_the_configmap_and_is_told_so(
    serve: Serve, framework: object, environ: dict[str, str]
) -> None:
    with pytest.raises(StillForbiddenError, match=r"resources: \[configmaps\], resourceNames: \[mnist-attempt\]"):
        first(serve(answers(configmap=403, framework=framework)), **environ)
