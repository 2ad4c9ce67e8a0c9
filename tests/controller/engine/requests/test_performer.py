"""What an answer of the API server means in the core's terms, and what a status write does, request by request."""

import asyncio
import json
from dataclasses import replace as replaced
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import PARTIAL_DECODER, Labels
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import STATUS_DECODER, FrameworkStatus, TaskRoleStatus
from frameworkcontroller.api.stored_roles import roles_digest
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeletePod,
    Done,
    Effect,
    Failed,
    FindOwner,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    Missing,
    Outcome,
    Refused,
    RetainPod,
    RolesSummary,
    StaleStatus,
    Subject,
    WriteRoster,
    WriteStatus,
)
from frameworkcontroller.core.pods.template import PodSource, RoleAttempt
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.errors import (
    AnswerTooLargeError,
    ApiStatusError,
    KubeError,
    TransportError,
    error_of,
    error_of_status,
)
from frameworkkube.http.client import PARTIAL_METADATA
from tests.controller.core.values import framework, task
from tests.support.rows import each


class Client:
    """Answers each request with the next entry of a script, and with the last one from then on."""

    def __init__(self, *script: bytes | KubeError) -> None:
        self.script, self.calls, self.accepted = list(script), list[str](), list[str | None]()
        self.status = b""

    async def get(self, _path: str, *, max_bytes: int | None = None, **more: Any) -> bytes:
        self.accepted.append(more.get("accept"))
        return self._answer("get")

    async def create(self, _path: str, _body: bytes, **_more: Any) -> bytes:
        return self._answer("create")

    async def replace(self, _path: str, body: bytes, **_more: Any) -> bytes:
        self.status = msgspec.json.decode(body, type=dict[str, msgspec.Raw])["status"]
        return self._answer(f"put {json.loads(body)['metadata']['resourceVersion']}")

    async def patch(self, path: str, _body: bytes, *, max_bytes: int | None = None, **_more: Any) -> bytes:
        assert max_bytes is not None, "64 at once of 5 MiB each were 190 MiB in the controller"
        return self._answer("patch")

    async def delete(self, _path: str, *, uid: str, resource_version: str | None = None, **_more: Any) -> bytes:
        return self._answer(f"delete {uid} {resource_version}")

    def _answer(self, call: str) -> bytes:
        self.calls.append(call)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


async def performed(client: Client, effect: Effect) -> Outcome:
    return await Performer(cast("Any", client)).perform(Subject("n", "fw", "u"), effect)


def refusal(code: int, reason: str, message: str = "no", **details: Any) -> ApiStatusError:
    status = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return error_of_status(status | {"details": details})


def stored(uid: str, version: str, status: FrameworkStatus | None = None, **metadata: Any) -> bytes:
    """An object as the API server has it: a Pod, or a Framework with its status."""
    metadata |= {"name": "fw-worker-0", "namespace": "n", "uid": uid, "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata, "spec": {}, "status": status or {}})


GONE = refusal(404, "NotFound", "gone")
BUSY = refusal(429, "TooManyRequests", retryAfterSeconds=7)
LOST = TransportError("reset")
NO_PAGE = error_of(404, "Not Found", None, b"<p>404</p>", now=0)
TOO_LARGE = AnswerTooLargeError("the answer has more than 524288 bytes")
DENIED = 'admission webhook "validate.example.org" denied the request: no'
NO_POD = 'pods "fw-worker-0" is forbidden: '
STARTED = refusal(403, "Forbidden", NO_POD + 'User "a" cannot patch resource "pods"')
OTHER_UID = "Pod is invalid: metadata.uid: Invalid value: field is immutable"
DESCRIBED = '{"ErrStatus":{"metadata":{},"status":"Failure","message":"no","reason":"Invalid","code":422}}'

ATTEMPT = RoleAttempt("n", "fw", "u", 0, "config-map-uid", "worker", "role-uid")
CREATION = CreatePod("worker", 0, "uid", 0, PodSource(ATTEMPT, msgspec.Raw(b"{}"), 100))
DELETION = DeletePod("worker", 0, "uid", on_node=True)
RETENTION = RetainPod("worker", 0, "uid")
LABEL = LabelConfigMap("config-map-uid", 0)
ROSTER = WriteRoster("config-map-uid", 0, b"{}", "{}", complete=True)
ACCESS = GrantRosterAccess(("default",), "config-map-uid")
OUTCOMES: dict[str, tuple[Effect, bytes | KubeError, Outcome]] = {
    "a deletion": (DELETION, b"{}", Done()),
    "a deletion of what is not found": (DELETION, GONE, Missing()),
    "a deletion of another instance": (DELETION, refusal(409, "Conflict", "the UID does not match"), Missing()),
    "too many requests": (DELETION, BUSY, Failed("429 TooManyRequests: no", 7, nothing_happened=True)),
    "a lost answer": (DELETION, LOST, Failed("reset")),
    # The diagnostics of a Pod are those of Microsoft's controller.
    "a refused Pod": (CREATION, refusal(422, "Invalid"), Refused(422, DESCRIBED)),
    "a refused ConfigMap": (CreateConfigMap(0, b"{}"), refusal(422, "Invalid"), Refused(422, "422 Invalid: no")),
    "access to the roster, a Role and its binding": (ACCESS, b"{}", Done()),
    # Which answers to the patch that lets go of a Pod are final.
    "a policy": (RETENTION, refusal(422, "Invalid"), Refused(422, "no")),
    "a webhook": (RETENTION, refusal(400, "BadRequest", DENIED), Refused(400, DENIED)),
    "an admission plugin": (RETENTION, refusal(403, "Forbidden", NO_POD + "no"), Refused(403, NO_POD + "no")),
    "a patch that is too large": (RETENTION, refusal(413, "TooLarge", "limit is 3"), Refused(413, "limit is 3")),
    "no patch": (RETENTION, refusal(405, "MethodNotAllowed", "no patch"), Refused(405, "no patch")),
    "an API server that has just started": (RETENTION, STARTED, Failed(f"403 Forbidden: {STARTED.message}")),
    "a change meanwhile": (RETENTION, refusal(409, "Conflict", "modified"), Failed("409 Conflict: modified")),
    "a webhook that is down": (RETENTION, refusal(500, "InternalError"), Failed("500 InternalError: no")),
    "a patch of another Pod": (RETENTION, refusal(422, "Invalid", OTHER_UID), Missing()),
    "a patch of no Pod": (RETENTION, GONE, Missing()),
    # A webhook may give the code and reason that its own request has met.
    **{
        f"a webhook that says {reason}": (
            effect,
            refusal(code, reason, DENIED),
            Failed(f"{code} {reason}: {DENIED}", refused=True),
        )
        for effect, code, reason in (
            (DELETION, 404, "NotFound"),
            (DELETION, 409, "Conflict"),
            (CREATION, 409, "AlreadyExists"),
        )
    },
    **{
        f"a webhook that quotes {reason}": (RETENTION, refusal(code, reason, text), Refused(code, text))
        for code, reason, text in ((422, "Invalid", DENIED + OTHER_UID), (403, "Forbidden", DENIED + STARTED.message))
    },
    "a webhook that is busy": (
        DELETION,
        refusal(429, "", DENIED),
        Failed(f"429 Unknown: {DENIED}", refused=True, nothing_happened=True),
    ),
    "a proxy that finds nothing": (DELETION, NO_PAGE, Failed("404 Not Found: <p>404</p>", refused=True)),
    "a kind that is not served": (FindOwner("Job", "train", "uid"), NO_PAGE, Missing()),
    "a proxy with a conflict": (DELETION, error_of(409, "Conflict", None, b"no", now=0), Failed("409 Conflict: no")),
    "a token that has expired": (DELETION, refusal(401, "Unauthorized"), Failed("401 Unauthorized: no")),
    # Thousands of Frameworks may keep what a webhook says.
    "a long refusal": (
        CreateConfigMap(0, b"{}"),
        refusal(422, "Invalid", "x" * 9000),
        Refused(422, f"422 Invalid: {'x' * 9000}"[:2048]),
    ),
    # A change whose answer is too large has happened.
    "a large answer to a deletion": (DELETION, TOO_LARGE, Done()),
    "a large answer to a retention": (RETENTION, TOO_LARGE, Done()),
    "a large answer to a label": (LABEL, TOO_LARGE, Done()),
    "a large answer to a roster": (ROSTER, TOO_LARGE, Done()),
}


@each("effect, answer, outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_an_answer_means_an_outcome(effect: Effect, answer: bytes | KubeError, outcome: Outcome) -> None:
    assert asyncio.run(performed(Client(answer), effect)) == outcome


def status(state: State) -> FrameworkStatus:
    plain = framework(state)
    return replace(plain, attempt_status=replace(plain.attempt_status, task_role_statuses=()))


BEFORE, WRITTEN, OTHER = status(State.PREPARING), status(State.RUNNING), status(State.DELETING)
NO_ROLES = RolesSummary(roles=(), order=(), ready=0, total=0, by_arrival=False, member_revision=1)
WRITE = WriteStatus(WRITTEN, NO_ROLES, 7, "41", BEFORE)
ON_NO_NODE = DeletePod("worker", 0, "uid")
LOOK = FindOwner("Job", "train", "uid")
CHANGED = refusal(409, "Conflict", "the object has been modified")
SICK = refusal(503, "ServiceUnavailable")
ETCD, GRPC = "etcdserver: request is too large", "rpc error: trying to send message larger than max (2 vs. 1)"
AGAIN = "the Framework changed during each of several attempts to write its status"
PUT_TWICE = ["put 41", "get", "put 44"]
STAYED = "Pod fw-worker-0 changed while it was to be deleted"
Script = list[bytes | KubeError]
READ, TAKEN, EDITED = stored("uid", "7"), stored("u", "42", WRITTEN), stored("u", "44", BEFORE)
AFTER_EDIT = stored("u", "45", WRITTEN)
META = PARTIAL_DECODER.decode(READ).metadata
CALLS: dict[str, tuple[Effect, Script, Outcome, list[str]]] = {
    # A Pod without a node is deleted only as it was read; a forced deletion asks nothing.
    "unchanged": (ON_NO_NODE, [READ, b"{}"], Done(), ["get", "delete uid 7"]),
    "gone": (ON_NO_NODE, [GONE], Missing(), ["get"]),
    "another Pod": (ON_NO_NODE, [stored("other", "7")], Missing(), ["get"]),
    "changed": (ON_NO_NODE, [READ, CHANGED, stored("uid", "8")], Failed(STAYED), ["get", "delete uid 7", "get"]),
    "replaced": (ON_NO_NODE, [READ, CHANGED, stored("other", "8")], Missing(), ["get", "delete uid 7", "get"]),
    "gone meanwhile": (ON_NO_NODE, [READ, CHANGED, GONE], Missing(), ["get", "delete uid 7", "get"]),
    "lost": (ON_NO_NODE, [LOST], Failed("reset"), ["get"]),
    "forced": (DeletePod("worker", 0, "uid", grace_seconds=0), [b"{}"], Done(), ["delete uid None"]),
    # Of an owner that is large, and not the one that the Pods name, only the metadata is read.
    "a large owner of another gang": (LOOK, [TOO_LARGE, stored("other", "7")], Missing(), ["get", "get"]),
    "a large owner": (LOOK, [TOO_LARGE, READ, READ], Found(META, document=READ), ["get", "get", "get"]),
    "the owner is gone": (LOOK, [GONE], Missing(), ["get"]),
    # The write of a status never waits, since it holds a slot.
    "written": (WRITE, [TAKEN], Done(resource_version="42"), ["put 41"]),
    "overloaded": (WRITE, [BUSY], Failed(str(BUSY), 7.0, nothing_happened=True), ["put 41"]),
    "the server is sick": (WRITE, [SICK], Failed(str(SICK)), ["put 41"]),
    "the answer was lost": (WRITE, [LOST], Failed("reset"), ["put 41"]),
    "the answer to a write was lost": (WRITE, [CHANGED, TAKEN], Done(resource_version="42"), ["put 41", "get"]),
    "etcd finds it too large": (WRITE, [refusal(500, "InternalError", ETCD)], Refused(413, ETCD), ["put 41"]),
    "a webhook finds it too large": (
        WRITE,
        [refusal(413, "", DENIED + ETCD)],
        Failed(f"413 Unknown: {DENIED}{ETCD}", refused=True),
        ["put 41"],
    ),
    "its client finds it too large": (WRITE, [refusal(500, "InternalError", GRPC)], Refused(413, GRPC), ["put 41"]),
    "the spec was edited": (WRITE, [CHANGED, EDITED, AFTER_EDIT], Done(resource_version="45", conflicts=1), PUT_TWICE),
    "edited all the time": (WRITE, [CHANGED, EDITED] * 5, Failed(AGAIN), PUT_TWICE + ["get", "put 44"] * 3 + ["get"]),
    "another writer": (WRITE, [CHANGED, stored("u", "44", OTHER)], StaleStatus(), ["put 41", "get"]),
    "another instance": (WRITE, [CHANGED, stored("another", "44", BEFORE)], Missing(), ["put 41", "get"]),
    "no Framework": (WRITE, [GONE], Missing(), ["put 41"]),
    "no Framework after a conflict": (WRITE, [CHANGED, GONE], Missing(), ["put 41", "get"]),
    "it cannot be read after a conflict": (WRITE, [CHANGED, LOST], Failed("reset"), ["put 41", "get"]),
    "refused": (WRITE, [refusal(422, "Invalid", "too large")], Refused(422, "too large"), ["put 41"]),
}


@each("effect, script, outcome, calls", CALLS.values(), ids=CALLS)
def test_some_effects_take_several_requests(effect: Effect, script: Script, outcome: Outcome, calls: list[str]) -> None:
    client = Client(*script)
    assert asyncio.run(performed(client, effect)) == outcome
    assert client.calls == calls


async def test_large_roles_are_known_again_by_a_digest_of_what_was_stored() -> None:
    role = TaskRoleStatus("w", "u", None, tuple(task(State.RUNNING, index=index) for index in range(3000)))
    written = replace(WRITTEN, attempt_status=replace(WRITTEN.attempt_status, task_role_statuses=(role,)))
    client = Client(stored("u", "42", WRITTEN))
    outcome = await performed(client, replaced(WRITE, status=written))
    assert isinstance(outcome, Done)
    sent = STATUS_DECODER.decode(client.status)
    assert sent.attempt_status.task_role_statuses is None
    assert outcome.roles == roles_digest(sent) is not None
    # Somebody has edited the spec: what is stored is known without being unpacked, so it need not be readable.
    unreadable = replace(sent, attempt_status=replace(sent.attempt_status, task_role_statuses_compressed="%%%"))
    effect = replaced(WRITE, previous=unreadable, previous_roles=roles_digest(unreadable))
    client = Client(CHANGED, stored("u", "44", unreadable), AFTER_EDIT)
    assert await performed(client, effect) == Done(resource_version="45", conflicts=1)


@each(
    "code, reason, message, is_final",
    [
        (403, "Forbidden", 'pods "fw-w-0" is forbidden: exceeded quota: compute', False),
        (422, "Invalid", 'Pod "fw-w-0" is invalid: spec.x: Invalid value: "exceeded quota"', True),
        (400, "BadRequest", "the object provided is unrecognized (must be of type Pod)", False),
        (422, "Invalid", 'Pod "fw-w-0" is invalid: spec.x: Invalid value: "object provided is unrecognized"', True),
    ],
)
def test_words_that_a_user_has_written_make_no_refusal_one_to_try_again(
    code: int, reason: str, message: str, *, is_final: bool
) -> None:
    outcome = asyncio.run(performed(Client(refusal(code, reason, message + "x" * 100_000)), CREATION))
    assert isinstance(outcome, Refused if is_final else Failed)
    assert len(outcome.message) < 3000


@pytest.mark.parametrize("effect", [CreateConfigMap(0, b"{}"), DELETION], ids=["creation", "deletion"])
async def test_an_answer_that_cannot_be_decoded_is_a_failure_to_try_again(effect: Effect) -> None:
    found = await performed(Client(b"<html>sign in</html>"), effect)
    assert isinstance(found, Failed)
    assert "cannot be decoded" in found.message
    assert found.refused, "whoever makes many of them has them tried in turn"


async def test_of_a_pod_that_has_the_name_of_a_tasks_little_is_read_and_kept() -> None:
    """A Pod of some MiB under the name of each Task was 429 MiB in the controller."""
    own = {names.FRAMEWORK_NAME: "fw", "of-a-user": "y" * 1000}
    owner = {"kind": "K" * 1000, "name": "n", "uid": "u", "controller": True}
    owners = [owner, owner | {"controller": False}]
    client = Client(stored("u", "7", labels=own, annotations={"a": "b" * 1000}, ownerReferences=owners))
    outcome = await performed(client, FindPod("worker", 0))
    assert client.accepted == [PARTIAL_METADATA], "of the API server, too"
    assert isinstance(outcome, Found)
    assert (outcome.metadata.labels, outcome.metadata.annotations) == (Labels(framework="fw"), {})
    assert [len(one.kind) for one in outcome.metadata.owner_references] == [256]


class Grown(Client):
    """All names are in use, by objects with MiB of owners; it counts how many of them are sent at a time."""

    reading = most = 0

    async def create(self, *_: Any, **_more: Any) -> bytes:
        raise refusal(409, "AlreadyExists")

    async def get(self, _path: str, *, max_bytes: int | None = None, **_more: Any) -> bytes:
        if max_bytes is not None:
            raise TOO_LARGE
        self.reading += 1
        self.most = max(self.most, self.reading)
        await asyncio.sleep(0)
        self.reading -= 1
        return stored("uid", "7", ownerReferences=[{"kind": "ConfigMap", "name": "c", "uid": "config-map-uid"}])

    async def patch(self, path: str, *_: Any, max_bytes: int | None = None, **_more: Any) -> bytes:
        assert max_bytes is not None
        self.calls.append(path.rsplit("/", 2)[-2])
        raise TOO_LARGE


async def test_large_objects_under_the_names_of_pods_are_read_one_at_a_time() -> None:
    """Of 6.5 MiB of owners each, 64 at once were 344 MiB in the controller; whose they are waits for no other."""
    client, done = Grown(), list[str]()
    performer = Performer(cast("Any", client))

    async def find(namespace: str, index: int) -> None:
        assert isinstance(await performer.perform(Subject(namespace, "fw", "u"), FindPod("worker", index)), Found)
        done.append(namespace)

    await asyncio.gather(*(find("many", index) for index in range(8)), find("one", 0))
    assert client.most == 1
    assert done == ["many", "one", *["many"] * 7]


async def test_access_whose_objects_have_grown_is_read_one_at_a_time_and_written_without_its_answer() -> None:
    """64 Roles with 8 MiB of owners under the names of ours, read at once, were 446 MiB in the controller."""
    client = Grown()
    assert await performed(client, ACCESS) == Done()
    assert client.calls == ["roles", "rolebindings"]
