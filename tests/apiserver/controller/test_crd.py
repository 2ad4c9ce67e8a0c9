"""The definition of Frameworks on a real API server: what is accepted, refused, written and kept."""

import gzip
import itertools
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from frameworkcontroller.api import definition as crd
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.spec import MAX_ROLES
from frameworkcontroller.api.states import State
from frameworkcontroller.api.stored_roles import roles_of
from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.waiting import eventually
from tests.apiserver.conftest import Served
from tests.client.broken import POD, REFUSED, TAKEN, many_roles
from tests.support.beside.refusals import refusal_of
from tests.support.rows import each

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

FRAMEWORKS = Path(__file__).parents[2] / "controller" / "api" / "frameworks"
VALID = sorted(FRAMEWORKS.glob("valid/*.yaml"))
INVALID = sorted(FRAMEWORKS.glob("invalid/*.yaml"))
OF_MICROSOFT = Path(__file__).parents[2] / "controller" / "api" / "microsoft.yaml"


@pytest.fixture
def path(namespace: str) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/frameworks"


def framework(name: str = "fw", **spec: object) -> Json:
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}


def worker(**more: object) -> Json:
    return {"name": "worker", "task": {"pod": POD}, **more}


# --- what is accepted and refused ------------------------------------------------------------------------------------


def contained(part: object, whole: object) -> bool:
    """Report whether everything of one document is in the other, which may have more fields."""
    match part, whole:
        case dict(), dict():
            return all(key in whole and contained(value, whole[key]) for key, value in part.items())
        case list(), list():
            return len(part) == len(whole) and all(map(contained, part, whole))
    return part == whole


@each("file", VALID, lambda path: path.stem)
def test_a_valid_framework_is_accepted_and_kept_as_it_came(raw: RawClient, path: str, file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    stored = raw.create(path, document)
    # Most have the same name.
    raw.delete(f"{path}/{document['metadata']['name']}")
    assert contained(document["spec"], stored["spec"])
    read = FRAMEWORK_DECODER.decode(json.dumps(stored).encode())
    for asked, role in zip(document["spec"].get("taskRoles") or (), read.spec.task_roles or (), strict=True):
        assert json.loads(bytes(role.task.pod)) == asked["task"]["pod"]


@each("file", INVALID, lambda path: path.stem)
def test_an_invalid_framework_is_refused_with_a_message_that_names_the_field(
    raw: RawClient, path: str, file: Path
) -> None:
    text = file.read_text()
    with pytest.raises(ApiStatusError) as refused:
        raw.create(path, yaml.safe_load(text))
    assert refused.value.status == 422
    rest = refused.value.body["message"]  # type: ignore[index]
    for part in text.partition("\n")[0].removeprefix("# ").split(" ... "):
        assert part in rest
        rest = rest.partition(part)[2]


ASKED = {name: (manifest, True) for name, (manifest, _) in REFUSED.items()}
ASKED |= {name: (manifest, False) for name, manifest in TAKEN.items()}


@each("manifest, is_refused", ASKED.values(), ASKED)
def test_what_lint_calls_an_error_is_refused_and_what_it_takes_is_taken(
    raw: RawClient, path: str, manifest: Json, *, is_refused: bool
) -> None:
    assert bool(refusal_of(raw, path, manifest)) is is_refused


ORDER = ("Create", "Start", "Stop")


@each("before, after", itertools.product(ORDER, ORDER))
def test_the_execution_type_moves_only_forward(raw: RawClient, path: str, before: str, after: str) -> None:
    name = f"{before}{after}".lower()
    raw.create(path, framework(name, executionType=before, taskRoles=[]))
    if ORDER.index(after) >= ORDER.index(before):
        changed = raw.merge(f"{path}/{name}", {"spec": {"executionType": after}})
        assert changed["spec"]["executionType"] == after
    else:
        with pytest.raises(ApiStatusError, match="executionType may change only from Create to Start or Stop"):
            raw.merge(f"{path}/{name}", {"spec": {"executionType": after}})


def test_a_framework_may_be_rescaled_to_ten_thousand_tasks_in_a_thousand_roles(raw: RawClient, path: str) -> None:
    def rescale(*roles: Json) -> None:
        raw.merge(f"{path}/fw", {"spec": {"taskRoles": list(roles) or None}})

    raw.create(path, framework(taskRoles=[worker(taskNumber=3)]))
    rescale(worker(taskNumber=10_000))
    with pytest.raises(ApiStatusError, match="the sum of taskRoles"):
        rescale(worker(taskNumber=10_000), worker(name="ps", taskNumber=1))
    rescale(worker(taskNumber=9_999), worker(name="ps", taskNumber=1))
    rescale()
    rescale(*many_roles(MAX_ROLES))
    with pytest.raises(ApiStatusError, match="taskRoles must have at most 1000 items: use several Frameworks"):
        rescale(*many_roles(MAX_ROLES + 1))


# --- what is written -------------------------------------------------------------------------------------------------


def test_defaults_are_written_for_what_is_absent_or_null(raw: RawClient, path: str) -> None:
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    completion = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    whole = {"name": "worker", "taskNumber": 0, "frameworkAttemptCompletionPolicy": completion}
    whole["task"] = {"retryPolicy": retry, "pod": POD}
    null = worker(taskNumber=None, frameworkAttemptCompletionPolicy=None)
    null["task"] = {"retryPolicy": {"fancyRetryPolicy": None}, "pod": POD}
    for spec in ({"taskRoles": [worker()]}, {"executionType": None, "retryPolicy": None, "taskRoles": [null]}):
        stored = raw.create(f"{path}?dryRun=All", framework(**spec))
        assert stored["spec"] == {"executionType": "Start", "retryPolicy": retry, "taskRoles": [whole]}


def test_an_unknown_field_and_a_status_are_dropped_but_nothing_from_a_pod_template(raw: RawClient, path: str) -> None:
    pod = {"metadata": {"new": {"deep": [None]}}, "spec": {"containers": [{"name": "a", "new": None}], "new": 1.5}}
    document = framework(unknown=1, taskRoles=[{"name": "w", "unknown": 1, "task": {"pod": pod}}])
    stored = raw.create(path, {**document, "status": {"state": "Completed"}})
    assert not stored.get("status")
    assert "unknown" not in stored["spec"]
    assert "unknown" not in stored["spec"]["taskRoles"][0]
    assert stored["spec"]["taskRoles"][0]["task"]["pod"] == pod


# --- Frameworks of Microsoft's controller ----------------------------------------------------------------------------


def of_microsoft() -> Json:
    document: Json = yaml.safe_load(OF_MICROSOFT.read_text())
    return document


def with_status(raw: RawClient, path: str, document: Json) -> Json:
    """Store the object with its status, and return it as the API server shows it then."""
    created = raw.create(path, document)
    return raw.replace(f"{path}/{document['metadata']['name']}/status", {**created, "status": document["status"]})


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_framework_as_microsofts_controller_stores_it_is_taken_over(
    raw: RawClient, path: str, *, is_compressed: bool
) -> None:
    document = of_microsoft()
    if is_compressed:
        attempt = document["status"]["attemptStatus"]
        packed = gzip.compress(json.dumps(attempt["taskRoleStatuses"]).encode())
        attempt |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": b64encode(packed).decode()}
    stored = with_status(raw, path, document)
    assert contained(document["status"], stored["status"])
    status = FRAMEWORK_DECODER.decode(json.dumps(stored).encode()).stored_status()
    assert status is not None
    assert status.state is State.RUNNING
    tasks = {f"{role.name}-{task.index}": task for role in roles_of(status) for task in role.task_statuses}
    assert {name: task.state for name, task in tasks.items()} == {
        "ps-0": State.RUNNING,
        "worker-0": State.COMPLETED,
        "worker-1": State.CREATION_PENDING,
    }
    ended = tasks["worker-0"].completion
    assert ended is not None
    assert (ended.code, ended.type.name, ended.type.attributes) == (0, "Succeeded", None)


def test_a_stored_framework_that_would_be_refused_today_keeps_working(raw: RawClient, schemaless: Served) -> None:
    """Microsoft's definition accepts some more values; such objects exist when this definition replaces it."""
    collection, version = schemaless.collection, f"{schemaless.group}/v1"
    role = worker(taskNumber=2, frameworkAttemptCompletionPolicy={"minFailedTaskCount": 0, "minSucceededTaskCount": 0})
    role["task"]["podGracefulDeletionTimeoutSec"] = 2**63 - 1
    many = [worker(name=f"role{number}", taskNumber=8000) for number in range(3)]
    old = {**framework("myframework", taskRoles=[role, *many]), "apiVersion": version}
    raw.create(collection, old)
    raw.create(collection, {**framework("crowded", taskRoles=many_roles(MAX_ROLES + 1)), "apiVersion": version})
    raw.apply(schemaless.definition, schemaless.today)

    def refuses_what_is_new() -> None:
        answer = refusal_of(raw, collection, {**old, "metadata": {"name": "another"}})
        assert "must be -1 (never) or at least 1" in answer
        assert "must be from 0 (at once) to 2147483647" in answer
        assert "the sum of taskRoles[*].taskNumber must be at most 10000" in answer

    eventually(refuses_what_is_new, timeout=30)
    status = of_microsoft()["status"]
    raw.merge(f"{collection}/myframework/status", {"status": status})
    changed = raw.merge(f"{collection}/myframework", {"spec": {"description": "changed", "executionType": "Stop"}})
    policy = changed["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"]
    assert policy == {"minFailedTaskCount": 0, "minSucceededTaskCount": 0}
    assert changed["spec"]["taskRoles"][0]["task"]["podGracefulDeletionTimeoutSec"] == 2**63 - 1
    one_more = [role, *many, worker(name="x", taskNumber=1)]
    with pytest.raises(ApiStatusError, match="the sum of taskRoles"):
        raw.merge(f"{collection}/myframework", {"spec": {"taskRoles": one_more}})
    fewer = raw.merge(f"{collection}/myframework", {"spec": {"taskRoles": [role, *many[:2]]}})
    assert [one["taskNumber"] for one in fewer["spec"]["taskRoles"]] == [2, 8000, 8000]
    raw.merge(f"{collection}/crowded", {"spec": {"description": "changed"}})
    raw.merge(f"{collection}/crowded", {"spec": {"taskRoles": [worker(), *many_roles(MAX_ROLES)]}})
    for more, less in ((MAX_ROLES + 2, MAX_ROLES), (MAX_ROLES + 1, MAX_ROLES - 1)):
        with pytest.raises(ApiStatusError, match="taskRoles must have at most 1000 items"):
            raw.merge(f"{collection}/crowded", {"spec": {"taskRoles": many_roles(more)}})
        raw.merge(f"{collection}/crowded", {"spec": {"taskRoles": many_roles(less)}})


# --- what people see -------------------------------------------------------------------------------------------------


def test_kubectl_shows_the_important_columns_under_a_short_name(
    cluster: Cluster, raw: RawClient, path: str, namespace: str
) -> None:
    document = of_microsoft()
    with_status(raw, path, document)
    raw.merge(f"{path}/{document['metadata']['name']}/status", {"status": {"ready": "1/3", "attempts": 1}})
    head, line = cluster.kubectl("get", "fw", "-n", namespace).strip().splitlines()
    assert head.split() == ["NAME", "STATE", "READY", "ATTEMPTS", "RESULT", "GANG", "SUSPENDED", "AGE"]
    assert line.split()[:4] == ["distributed", "AttemptRunning", "1/3", "1"]
    wide = cluster.kubectl("get", "frameworks", "-n", namespace, "-o", "wide").splitlines()[0]
    assert wide.split()[-3:] == ["AGE", "WAITING", "DESCRIPTION"]
    everything = cluster.kubectl("get", "all", "-n", namespace)
    assert "framework.frameworkcontroller.microsoft.com/distributed" in everything


def texts(path: str, schema: Json) -> Iterator[tuple[str, str]]:
    if not path.endswith("[]"):
        yield path, schema.get("description", "")
    for name, inner in schema.get("properties", {}).items():
        yield from texts(f"{path}.{name}", inner)
    if "items" in schema:
        yield from texts(f"{path}[]", schema["items"])


def test_kubectl_explain_has_a_text_for_each_field(raw: RawClient) -> None:
    """It reads the OpenAPI document of the group, which the API server makes from the definition."""

    def published() -> Json:
        group = f"apis/{names.API_VERSION}"
        assert group in raw.get("/openapi/v3")["paths"]
        schemas = raw.get(f"/openapi/v3/{group}")["components"]["schemas"].values()
        key = "x-kubernetes-group-version-kind"
        (schema,) = [one for one in schemas if any(kind["kind"] == names.KIND for kind in one.get(key, ()))] or [None]
        assert schema is not None
        return schema

    shown, written = eventually(published), crd.schema()
    assert shown["description"] == written["description"]
    for part in ("spec", "status"):
        assert dict(texts(part, shown["properties"][part])) == dict(texts(part, written["properties"][part]))
