"""What an answer of the API server means in the core's terms."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Labels
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeletePod,
    Done,
    Effect,
    Failed,
    FindPod,
    Found,
    GrantRosterAccess,
    LabelConfigMap,
    Missing,
    Outcome,
    Refused,
    RetainPod,
    Subject,
    WriteRoster,
)
from frameworkcontroller.core.pods.template import PodSource, RoleAttempt
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.errors import (
    AlreadyExistsError,
    AnswerTooLargeError,
    ApiStatusError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
)
from frameworkkube.http.client import PARTIAL_METADATA
from tests.support.rows import each

if TYPE_CHECKING:
    from collections.abc import Sequence

SUBJECT = Subject("n", "fw", "u")
ATTEMPT = RoleAttempt("n", "fw", "u", 0, "config-map-uid", "worker", "role-uid")


class Client:
    """Reads answer or raise one after another, every other request answers or raises `answer`."""

    def __init__(self, answer: bytes | KubeError, reads: Sequence[bytes | KubeError] = ()) -> None:
        self.answer, self.reads = answer, list(reads)
        self.deletions: list[tuple[str, str | None]] = []
        self.accepted: list[str | None] = []

    async def get(self, _path: str, **more: Any) -> bytes:
        self.accepted.append(more.get("accept"))
        return self._give(self.reads.pop(0))

    async def delete(self, _path: str, *, uid: str, resource_version: str | None = None, **_more: Any) -> bytes:
        self.deletions.append((uid, resource_version))
        return self._give(self.answer)

    async def create(self, _path: str, _body: bytes, **_more: Any) -> bytes:
        return self._give(self.answer)

    async def patch(self, _path: str, _body: bytes, *, max_bytes: int | None = None, **_more: Any) -> bytes:
        assert max_bytes is not None, "64 at once of 5 MiB each were 190 MiB in the controller"
        return self._give(self.answer)

    def _give(self, answer: bytes | KubeError) -> bytes:
        if isinstance(answer, KubeError):
            raise answer
        return answer


GONE = NotFoundError(404, "NotFound", "gone")
TOO_LARGE = AnswerTooLargeError("the answer has more than 524288 bytes")
DENIED = 'admission webhook "validate.example.org" denied the request: no'
NO_POD = 'pods "fw-worker-0" is forbidden: '
REFUSAL = InvalidError(
    422,
    "Invalid",
    "no",
    status={"kind": "Status", "status": "Failure", "message": "no", "reason": "Invalid", "code": 422},
)
CREATION = CreatePod("worker", 0, "uid", 0, PodSource(ATTEMPT, msgspec.Raw(b"{}"), 100))
DELETION = DeletePod("worker", 0, "uid", on_node=True)
RETENTION = RetainPod("worker", 0, "uid")
LABEL = LabelConfigMap("config-map-uid", 0)
ROSTER = WriteRoster("config-map-uid", 0, b"{}", "{}", complete=True)
ACCESS = GrantRosterAccess(("default",), "config-map-uid")
OUTCOMES: dict[str, tuple[Effect, bytes | KubeError, Outcome]] = {
    "a deletion": (DELETION, b"{}", Done()),
    "a deletion of what is not found": (DELETION, GONE, Missing()),
    "a deletion of another instance": (DELETION, ConflictError(409, "Conflict", "the UID does not match"), Missing()),
    "too many requests": (
        DELETION,
        TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after_seconds=3),
        Failed("429 TooManyRequests: slow down", 3),
    ),
    "a lost answer": (DELETION, TransportError("reset"), Failed("reset")),
    # The diagnostics of a Pod are those of Microsoft's controller.
    "a refused Pod": (
        CREATION,
        REFUSAL,
        Refused(422, '{"ErrStatus":{"metadata":{},"status":"Failure","message":"no","reason":"Invalid","code":422}}'),
    ),
    "a refused ConfigMap": (CreateConfigMap(0, b"{}"), REFUSAL, Refused(422, "422 Invalid: no")),
    "access to the roster, a Role and its binding": (ACCESS, b"{}", Done()),
    # Which answers to the patch that lets go of a Pod are final.
    "a policy": (RETENTION, InvalidError(422, "Invalid", "no"), Refused(422, "no")),
    "a webhook": (RETENTION, ApiStatusError(400, "BadRequest", DENIED), Refused(400, DENIED)),
    "an admission plugin": (RETENTION, ForbiddenError(403, "Forbidden", NO_POD + "no"), Refused(403, NO_POD + "no")),
    "a patch that is too large": (RETENTION, ApiStatusError(413, "TooLarge", "limit is 3"), Refused(413, "limit is 3")),
    "no patch": (RETENTION, ApiStatusError(405, "MethodNotAllowed", "no patch"), Refused(405, "no patch")),
    "an API server that has just started": (
        RETENTION,
        ForbiddenError(403, "Forbidden", NO_POD + 'User "a" cannot patch resource "pods"'),
        Failed(f'403 Forbidden: {NO_POD}User "a" cannot patch resource "pods"'),
    ),
    "a change meanwhile": (RETENTION, ConflictError(409, "Conflict", "modified"), Failed("409 Conflict: modified")),
    "a webhook that is down": (
        RETENTION,
        ApiStatusError(500, "InternalError", "failed calling webhook"),
        Failed("500 InternalError: failed calling webhook"),
    ),
    "a patch of another Pod": (
        RETENTION,
        InvalidError(422, "Invalid", "Pod is invalid: metadata.uid: Invalid value: field is immutable"),
        Missing(),
    ),
    "a patch of no Pod": (RETENTION, GONE, Missing()),
    # A change whose answer is too large has happened.
    "a large answer to a deletion": (DELETION, TOO_LARGE, Done()),
    "a large answer to a retention": (RETENTION, TOO_LARGE, Done()),
    "a large answer to a label": (LABEL, TOO_LARGE, Done()),
    "a large answer to a roster": (ROSTER, TOO_LARGE, Done()),
}


@each("effect, answer, outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_an_answer_means_an_outcome(effect: Effect, answer: bytes | KubeError, outcome: Outcome) -> None:
    performer = Performer(Client(answer))  # type: ignore[arg-type]
    assert asyncio.run(performer.perform(SUBJECT, effect)) == outcome


CHANGED = ConflictError(409, "Conflict", "the ResourceVersion in the precondition does not match")


def pod(uid: str, version: str, **more: Any) -> bytes:
    return json.dumps({"metadata": {"name": "fw-worker-0", "uid": uid, "resourceVersion": version} | more}).encode()


@pytest.mark.parametrize(
    ("reads", "deletion", "outcome", "sent"),
    [
        ([pod("uid", "7")], b"{}", Done(), [("uid", "7")]),
        ([GONE], b"{}", Missing(), []),
        ([pod("other", "7")], b"{}", Missing(), []),
        (
            [pod("uid", "7"), pod("uid", "8")],
            CHANGED,
            Failed("Pod fw-worker-0 changed while it was to be deleted"),
            [("uid", "7")],
        ),
        ([pod("uid", "7"), pod("other", "8")], CHANGED, Missing(), [("uid", "7")]),
        ([pod("uid", "7"), GONE], CHANGED, Missing(), [("uid", "7")]),
        ([TransportError("reset")], b"{}", Failed("reset"), []),
    ],
    ids=["unchanged", "gone", "another", "changed", "replaced", "gone meanwhile", "lost"],
)
async def test_a_pod_without_a_node_is_deleted_only_as_it_was_read(
    reads: list[bytes | KubeError], deletion: bytes | KubeError, outcome: Outcome, sent: list[tuple[str, str]]
) -> None:
    client = Client(deletion, reads)
    performer = Performer(client)  # type: ignore[arg-type]
    assert await performer.perform(SUBJECT, DeletePod("worker", 0, "uid")) == outcome
    assert (client.deletions, client.reads) == (sent, [])


async def test_a_forced_deletion_asks_nothing() -> None:
    client = Client(b"{}")
    performer = Performer(client)  # type: ignore[arg-type]
    assert await performer.perform(SUBJECT, DeletePod("worker", 0, "uid", grace_seconds=0)) == Done()
    assert client.deletions == [("uid", None)]


@pytest.mark.parametrize(
    ("code", "message", "is_final"),
    [
        (403, 'pods "fw-w-0" is forbidden: exceeded quota: compute', False),
        (422, 'Pod "fw-w-0" is invalid: spec.x: Invalid value: "exceeded quota"', True),
        (400, "the object provided is unrecognized (must be of type Pod)", False),
        (422, 'Pod "fw-w-0" is invalid: spec.x: Invalid value: "object provided is unrecognized"', True),
    ],
)
async def test_words_that_a_user_has_written_make_no_refusal_one_to_try_again(
    code: int, message: str, *, is_final: bool
) -> None:
    refusal = ApiStatusError(code, "Invalid", message + "x" * 100_000)
    outcome = await Performer(Client(refusal)).perform(SUBJECT, CREATION)  # type: ignore[arg-type]
    assert isinstance(outcome, Refused if is_final else Failed)
    assert len(outcome.message) < 3000


@pytest.mark.parametrize("effect", [CreateConfigMap(0, b"{}"), DELETION], ids=["creation", "deletion"])
async def test_an_answer_that_cannot_be_decoded_is_a_failure_to_try_again(effect: Effect) -> None:
    performer = Performer(Client(b"<html>sign in</html>"))  # type: ignore[arg-type]
    found = await performer.perform(SUBJECT, effect)
    assert isinstance(found, Failed)
    assert "cannot be decoded" in found.message


async def test_of_a_pod_that_has_the_name_of_a_tasks_little_is_read_and_kept() -> None:
    """A Pod of some MiB under the name of each Task was 429 MiB in the controller."""
    own = {names.FRAMEWORK_NAME: "fw", "of-a-user": "y" * 1000}
    owner = {"kind": "K" * 1000, "name": "n", "uid": "u", "controller": True}
    owners = [owner, owner | {"controller": False}]
    client = Client(b"", reads=[pod("u", "7", labels=own, annotations={"a": "b" * 1000}, ownerReferences=owners)])
    outcome = await Performer(client).perform(SUBJECT, FindPod("worker", 0))  # type: ignore[arg-type]
    assert client.accepted == [PARTIAL_METADATA], "of the API server, too"
    assert isinstance(outcome, Found)
    assert (outcome.metadata.labels, outcome.metadata.annotations) == (Labels(framework="fw"), {})
    assert [len(one.kind) for one in outcome.metadata.owner_references] == [256]


async def test_large_objects_under_the_names_of_pods_are_read_one_at_a_time() -> None:
    """Of 6.5 MiB of owners each, 64 at once were 344 MiB in the controller."""
    reading, most = 0, 0

    class Large(Client):
        async def get(self, _path: str, *, max_bytes: int | None = None, **_more: Any) -> bytes:
            nonlocal reading, most
            if max_bytes is not None:
                raise AnswerTooLargeError(f"the answer has more than {max_bytes} bytes")
            reading += 1
            most = max(most, reading)
            await asyncio.sleep(0)
            reading -= 1
            return pod("uid", "7")

    performer = Performer(Large(b"{}"))  # type: ignore[arg-type]
    found = await asyncio.gather(*(performer.perform(SUBJECT, FindPod("worker", index)) for index in range(8)))
    assert all(isinstance(one, Found) for one in found)
    assert most == 1


async def test_access_whose_objects_have_grown_is_read_one_at_a_time_and_written_without_its_answer() -> None:
    """64 Roles with 8 MiB of owners under the names of ours, read at once, were 446 MiB in the controller."""
    patched: list[str] = []

    class Grown(Client):
        async def create(self, *_: Any, **_more: Any) -> bytes:
            raise AlreadyExistsError(409, "AlreadyExists", "it exists")

        async def get(self, _path: str, *, max_bytes: int | None = None, **_more: Any) -> bytes:
            if max_bytes is not None:
                raise AnswerTooLargeError(f"the answer has more than {max_bytes} bytes")
            return pod("uid", "7", ownerReferences=[{"kind": "ConfigMap", "name": "c", "uid": "config-map-uid"}])

        async def patch(self, path: str, *_: Any, max_bytes: int | None = None, **_more: Any) -> bytes:
            patched.append(path.rsplit("/", 2)[-2])
            assert max_bytes is not None
            raise AnswerTooLargeError(f"the answer has more than {max_bytes} bytes")

    performer = Performer(Grown(b"{}"))  # type: ignore[arg-type]
    assert await performer.perform(SUBJECT, ACCESS) == Done()
    assert patched == ["roles", "rolebindings"]
