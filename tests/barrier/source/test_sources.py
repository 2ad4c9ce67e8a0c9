"""Which source is chosen, and what the Framework and Pods sources make of what they see."""

import base64
import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import BarrierError, GoneError, SettingsError, StillForbiddenError
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
from tests.barrier.documents import framework_object, pod, task
from tests.barrier.gangs import configmap, environment, foreign, roster, uid
from tests.barrier.source.faulty_server import FaultyServer, Reply, Request, Script, Serve, answers, in_turn

ME = OwnTask("worker", 0, uid("worker", 0))
CONFIGMAP = "/api/v1/namespaces/lab/configmaps/mnist-attempt"
FRAMEWORK = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/lab/frameworks/mnist"
IN_PLACE = {"FB_MODE": "sidecar", "FB_RESTART": "in-place"}


def gang_of(document: dict[str, Any], me: OwnTask = ME, attempt: int | None = 3) -> Gang:
    return framework.gang_of(framework.decompress(document), me, attempt)


def told(gang: Gang) -> str:
    """How many are ready, and the Pods of a complete gang, else who is missing and why."""
    pods = [f"{task.pod} {task.uid8}" for role in gang.roles for task in role.tasks]
    missing = [f"{each.task} {each.why}" for each in gang.waiting_for]
    assert gang.complete is bool(pods)
    return f"{gang.ready}/{gang.total}: {', '.join(pods or missing)}"


def worker(**changes: Any) -> dict[str, Any]:
    return framework_object({"worker": [task("worker", 0, **changes)]})


def in_order() -> dict[str, Any]:
    """A Framework whose ranks follow the topology of nodes."""
    document = worker()
    notes = {"frameworkcontroller.microsoft.com/rank-topology": "zone"}
    document["spec"]["taskRoles"][0].setdefault("task", {})["pod"] = {"metadata": {"annotations": notes}}
    return document


def reduces(*, dependencies_met: bool) -> dict[str, Any]:
    """A Framework whose role reduce waits for others."""
    document = framework_object({"reduce": [task("reduce", 0, None)], "worker": [task("worker", 0)]})
    document["status"]["attemptStatus"]["taskRoleStatuses"][0]["dependenciesMet"] = dependencies_met
    return document


PS, WORKER = (f"mnist-{role}-0 {uid(role, 0)[:8]}" for role in ("ps", "worker"))
MORE = {"worker": [task("worker", 0), task("worker", 1, deletionPending=True)], "old": [task("old", 0)]}
FRAMEWORKS: dict[str, tuple[Any, str]] = {
    "all Tasks are recorded with an address": (
        framework_object({"ps": [task("ps", 0)], "worker": [task("worker", 0)]}),
        f"2/2: {PS}, {WORKER}",
    ),
    "no address": (worker(address=None), "0/1: worker-0 has no address yet"),
    "an empty address": (worker(address=""), "0/1: worker-0 has no address yet"),
    "no Pod": (worker(state="AttemptCreationPending", attemptStatus={"id": 0}), "0/1: worker-0 AttemptCreationPending"),
    "it is being deleted": (worker(deletionPending=True), "0/1: worker-0 is being deleted"),
    "the status is older than the spec": (
        framework_object({"worker": []}, {"worker": 1}),
        "0/1: worker-0 is not in the status yet",
    ),
    "the spec says who belongs to it, whatever the status still lists": (
        framework_object(MORE, {"worker": 1}),
        f"1/1: {WORKER}",
    ),
    "a role that waits for others has no Tasks in the gang yet": (reduces(dependencies_met=False), f"1/1: {WORKER}"),
    "a role that waits no longer": (reduces(dependencies_met=True), "1/2: reduce-0 has no address yet"),
    "no status, and ten names are enough": (
        framework_object({}, {"worker": 12}) | {"status": None},
        "0/12: " + ", ".join(f"worker-{index} is not in the status yet" for index in range(10)),
    ),
}


@pytest.mark.parametrize(("shown", "gang"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_the_gang_of_a_framework(shown: Any, gang: str) -> None:
    found = gang_of(shown, OwnTask("worker", 5, uid("worker", 5)))
    assert told(found) == gang
    assert [role.name for role in found.roles] in ([], [role["name"] for role in shown["spec"]["taskRoles"]])


def test_a_compressed_status_is_read_unless_there_is_a_raw_one() -> None:
    document = worker()
    plain, attempt = gang_of(document), document["status"]["attemptStatus"]
    packed = base64.b64encode(gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())).decode()
    attempt["taskRoleStatusesCompressed"] = "!!!"
    assert gang_of(document) == plain
    attempt["taskRoleStatuses"] = None
    with pytest.raises(ShapeError, match="taskRoleStatusesCompressed"):
        gang_of(document)
    attempt["taskRoleStatusesCompressed"] = packed
    assert gang_of(document) == plain
    decompressed = framework.decompress(document)["status"]["attemptStatus"]
    assert decompressed["taskRoleStatuses"][0]["name"] == "worker"
    assert decompressed["taskRoleStatusesCompressed"] is None
    assert attempt["taskRoleStatuses"] is None  # the object as read is not changed


def test_a_later_attempt_and_the_own_task_on_its_way_out_are_the_end() -> None:
    with pytest.raises(GoneError, match="later attempt"):
        gang_of(worker(), attempt=2)
    with pytest.raises(GoneError, match=r"worker-0.*is being deleted"):
        gang_of(worker(deletionPending=True))


def test_the_generation_of_a_framework_grows_with_its_membership_only() -> None:
    view = FrameworkView(settings.parse(environment()))

    generations = []
    for changes in ({}, {"state": "AttemptRunning"}, {"address": None}, {"address": "10.0.0.77"}):
        seen = observed(view.loaded(worker(**changes)))
        assert decode(seen.roster_text) == seen.gang
        generations.append(seen.gang.generation)
    assert generations == [1, 1, 1, 2]


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
    ("changes", "index"),
    [
        ({"metadata": {"labels": {"role": "worker", "batch.kubernetes.io/job-completion-index": "4"}}}, 4),
        ({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "4"}}}, 4),
        ({"metadata": {"labels": {"role": "worker", "apps.kubernetes.io/pod-index": "2"}}}, 2),
        ({"metadata": {"labels": {"role": "worker", "leaderworkerset.sigs.k8s.io/worker-index": "1"}}}, 1),
        ({"metadata": {"labels": {"role": "worker", **LEADER_OF_THE_SECOND_GROUP}}}, 0),
        ({"metadata": {"name": "web-7"}}, 7),
        ({"metadata": {"name": "web-0-5"}}, 5),
        ({"metadata": {"labels": {"role": "other"}}}, None),
        ({"metadata": {"labels": None}}, None),
        ({"metadata": {"name": "web"}}, None),
        ({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}}, None),
        ({"status": {"phase": "Failed"}}, None),
        ({"status": {"phase": "Succeeded"}}, None),
    ],
    ids=str,
)
def test_the_index_of_a_member_is_its_controllers_or_its_names_ordinal(
    changes: dict[str, Any], index: int | None
) -> None:
    found = pods.peer_of(pod("web-9", **changes), ["worker"], "role", "ip")
    assert (found and found.index) == index


def gang_of_pods(*documents: dict[str, Any], number: int = 1, wait_for: str = "ip") -> Gang:
    found = [pods.peer_of(document, ["worker"], "", wait_for) for document in documents]
    return pods.gang_of([peer for peer in found if peer], {"worker": number}, "lab")


def test_pods_with_addresses_are_a_gang_and_of_two_for_one_index_the_younger_counts() -> None:
    new = pod("web-0", metadata={"uid": "new", "creationTimestamp": "2026-11-21T00:00:09Z"})
    for order in ((pod("web-1"), pod("other-0"), new), (new, pod("other-0"), pod("web-1"))):
        assert told(gang_of_pods(*order, number=2)) == "2/2: web-0 new, web-1 web-1-ui"


def test_why_a_pod_is_missing_is_shown_in_the_words_of_kubernetes() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    pull = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    pending = pod("web-0", status={"podIP": None, "conditions": [refused]})
    pulling = pod("web-1", status={"podIP": "", "initContainerStatuses": [pull]})
    assert told(gang_of_pods(pending, pulling, number=3)) == (
        "0/3: worker-0 Pending: Unschedulable: 0/3 nodes, worker-1 Pending: ImagePullBackOff: no such image, "
        "worker-2 has no Pod yet"
    )


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
    assert observed(view.loaded({"items": [pod("web-1")]}, more=True)).gang.complete
    assert observed(view.changed("DELETED", pod("web-1"))).gang.ready == 1
    assert observed(view.loaded({"items": []})).gang.ready == 0


# --- which source is chosen ------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 403 is waited out no longer, and a roster is looked for again at once."""
    monkeypatch.setattr("frameworkbarrier.source.follow.FORBIDDEN_SEC", 0.0)
    monkeypatch.setattr("frameworkbarrier.source.choose.LOOK_AGAIN_SEC", 0.0)


def observed(item: object) -> Observation:
    assert isinstance(item, Observation)
    return item


def script_of(answer: Any) -> Script:
    """A script, or what `answers` makes one of."""
    return answer if callable(answer) else answers(answer)


def serves(configmap: Any, framework: Any = 404) -> Script:
    scripts = {CONFIGMAP: script_of(configmap), FRAMEWORK: script_of(framework)}

    def script(request: Request, reply: Reply) -> None:
        next(script for path, script in scripts.items() if path.startswith(request.path))(request, reply)

    return script


def items(server: FaultyServer, **environ: str) -> Iterator[Observation | Fault]:
    return sources.observe(settings.parse(environment(**environ)), Api(Access(server.url)))


def shown(item: Observation | Fault) -> str:
    """The source and generation of a gang, or the fault without the server's words."""
    if isinstance(item, Fault):
        return f"{'lasting: ' if item.lasting else ''}{item.text.partition(' (')[0]}"
    return f"{'roster' if item.framework is None else 'Framework'} {item.gang.generation}"


def asked(server: FaultyServer) -> list[str]:
    """The last parts of the paths, with "s" where a collection is watched."""
    return [request.path.rpartition("/")[2] for request in server.requests]


NO_ROSTER = configmap(None)
COMPLETE, INCOMPLETE = worker(), worker(address=None)
CHANGES = answers(INCOMPLETE, ("MODIFIED", INCOMPLETE))
STAYS = answers(COMPLETE, ("MODIFIED", INCOMPLETE))
ARRIVED = {"FB_WAIT_FOR": "arrived"}


def a_roster(**changes: Any) -> dict[str, Any]:
    return configmap(roster({"worker": 1}, generation=7, **changes), 2)


@dataclass(frozen=True)
class Choice:
    """Answers for the ConfigMap one by one and for the Framework, what is seen, and what was asked for until then."""

    configmap: list[Any]
    framework: Any
    seen: list[str]
    asked: list[str]
    environ: dict[str, str] = field(default_factory=dict)
    patient: bool = False
    """A 403 is waited out as long as a Role may take."""


NOT_YET = "may not read ConfigMap lab/mnist-attempt yet"
INSTEAD = "lasting: may still not read ConfigMap lab/mnist-attempt: reading Framework lab/mnist instead"
ROSTER, FW = "mnist-attempt", "mnist"
OWN = {"FC_FRAMEWORK_UID": "fw-uid", "FC_FRAMEWORK_ATTEMPT_ID": "3"}
LOOKED_FOR = [ROSTER, "frameworks", ROSTER, ROSTER]
CHOICES = {
    "without a roster it is the Framework": Choice([NO_ROSTER], COMPLETE, ["Framework 1"], [ROSTER, FW], OWN),
    "a Role that is on its way changes no source": Choice(
        [403, 403, a_roster()], COMPLETE, [NOT_YET, NOT_YET, "roster 7"], [ROSTER] * 3, patient=True
    ),
    "a Role that is on its way changes no source for arrivals": Choice(
        [403, a_roster(readiness="arrived")], COMPLETE, [NOT_YET, "roster 7"], [ROSTER] * 2, ARRIVED, patient=True
    ),
    "where only the Framework may be read it is": Choice([403], COMPLETE, [INSTEAD, "Framework 1"], [ROSTER, FW, FW]),
    "while its gang is incomplete, a roster that may not be read is looked for": Choice(
        [403, 403, a_roster()], CHANGES, [INSTEAD, "Framework 0", "roster 7"], [ROSTER, FW, FW, *LOOKED_FOR]
    ),
    "while its gang is incomplete, a roster is looked for": Choice(
        [NO_ROSTER, NO_ROSTER, a_roster()], CHANGES, ["Framework 0", "roster 7"], [ROSTER, FW, *LOOKED_FOR]
    ),
    # The generations of two sources are not comparable.
    "a gang that was complete stays with its source": Choice(
        [NO_ROSTER, a_roster()], STAYS, ["Framework 1", "Framework 1"], [ROSTER, FW, "frameworks"]
    ),
    # Somebody empties the ConfigMap for a moment: a Framework has no epochs, and its source is never left again.
    "a barrier that restarts in place knows epochs only from a roster": Choice(
        [answers(NO_ROSTER, ("MODIFIED", a_roster(epoch=1)))], COMPLETE, ["roster 7"], [ROSTER, "configmaps"], IN_PLACE
    ),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_which_source_is_chosen(serve: Serve, request: pytest.FixtureRequest, choice: Choice) -> None:
    if not choice.patient:
        request.getfixturevalue("impatient")
    server = serve(serves(in_turn(*map(script_of, choice.configmap)), choice.framework))
    found = itertools.islice(items(server, **choice.environ), len(choice.seen))
    assert ([shown(item) for item in found], asked(server)) == (choice.seen, choice.asked)


@pytest.mark.parametrize(("tasks", "wish", "kept"), [(500, "auto", True), (501, "auto", False), (501, "always", True)])
def test_the_whole_framework_stays_in_memory_only_where_it_is_written(tasks: int, wish: str, kept: bool) -> None:
    """It is most of the memory of a large gang, twice while the next one is read."""
    view = FrameworkView(settings.parse(environment(FB_FRAMEWORK_JSON=wish)))
    seen = observed(view.loaded(framework_object({"worker": [task("worker", index) for index in range(tasks)]})))
    assert seen.gang.total == tasks
    assert (seen.framework is not None) is kept


TO_COME = {"FC_FRAMEWORK_NAMESPACE": "lab", "FB_ROSTER": "mnist-attempt", "FC_POD_UID": uid("worker", 1)}


def test_a_roster_of_a_gang_without_a_framework_is_waited_for_and_one_that_goes_too(serve: Serve) -> None:
    there, later = configmap(foreign({"worker": 2}), 2), configmap(foreign({"worker": 2}, generation=4), 4)
    server = serve(answers(404, ("ADDED", there), ("DELETED", there), ("ADDED", later)))
    found = sources.observe(settings.parse(TO_COME), Api(Access(server.url)))
    missing, seen, gone, last = (next(found) for _ in range(4))
    assert isinstance(missing, Fault)
    assert "ConfigMap lab/mnist-attempt with the roster is not there yet: is foreignGangs enabled" in missing.text
    assert (observed(seen).gang.generation, gone, observed(last).gang.generation) == (1, missing, 4)


def test_a_gang_without_a_framework_is_never_looked_for_in_one(serve: Serve) -> None:
    server = serve(answers(NO_ROSTER))
    assert isinstance(next(sources.observe(settings.parse(TO_COME), Api(Access(server.url)))), Fault)
    assert asked(server) == [ROSTER]


NEEDS_ROSTER = r"resources: \[configmaps\], resourceNames: \[mnist-attempt\]"
HOW_TO_ASK = (
    "FB_WAIT_FOR=arrived: ConfigMap .*annotation barrier.frameworkcontroller.microsoft.com/wait-for: arrived"
    ".* init container that is named frameworkbarrier"
)
ENDS: dict[str, tuple[Any, Any, dict[str, str], type[BarrierError], str]] = {
    "the Framework is gone": (NO_ROSTER, 404, {}, GoneError, "Framework lab/mnist is gone"),
    "the Framework is a new one": (NO_ROSTER, COMPLETE, {"FC_FRAMEWORK_UID": "x"}, GoneError, "created again"),
    "the roster does not tell who has arrived": (a_roster(), 404, ARRIVED, SettingsError, HOW_TO_ASK),
    "a Framework never tells who has arrived": (NO_ROSTER, 404, ARRIVED, SettingsError, "=arrived: Framework"),
    "neither may be read": (403, 403, {}, StillForbiddenError, NEEDS_ROSTER),
    "only a roster has epochs": (403, COMPLETE, IN_PLACE, StillForbiddenError, NEEDS_ROSTER),
    "only a roster has the order of ranks": (403, in_order(), {}, StillForbiddenError, NEEDS_ROSTER),
    "only a roster has arrivals": (403, COMPLETE, ARRIVED, StillForbiddenError, NEEDS_ROSTER),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("configmap", "framework", "environ", "end", "says"), ENDS.values(), ids=ENDS)
def test_a_source_that_can_never_do_ends_the_barrier_with_the_reason(
    serve: Serve, configmap: Any, framework: Any, environ: dict[str, str], end: type[BarrierError], says: str
) -> None:
    with pytest.raises(end, match=says):
        list(items(serve(serves(configmap, framework)), **environ))
