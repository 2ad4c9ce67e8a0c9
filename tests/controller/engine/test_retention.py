"""Which answers to the patch that lets go of a Pod are final."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frameworkcontroller.core.effects import Failed, Missing, Refused, RetainPod, Subject
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.errors import ApiStatusError, ConflictError, ForbiddenError, InvalidError, NotFoundError


class Client:
    """Answers each patch with an error."""

    def __init__(self, error: ApiStatusError) -> None:
        self.error = error

    async def patch(self, _path: str, _body: bytes, **_more: Any) -> bytes:
        raise self.error


FINAL = {
    "a policy": InvalidError(422, "Invalid", "no"),
    "a webhook": ApiStatusError(400, "BadRequest", 'admission webhook "validate.example.org" denied the request: no'),
    "an admission plugin": ForbiddenError(403, "Forbidden", 'pods "fw-worker-0" is forbidden: no'),
    "too large": ApiStatusError(413, "RequestEntityTooLarge", "limit is 3145728"),
    "no patch": ApiStatusError(405, "MethodNotAllowed", "no patch"),
}
PASSING = {
    "an API server that has just started": ForbiddenError(
        403, "Forbidden", 'pods "fw-worker-0" is forbidden: User "a" cannot patch resource "pods"'
    ),
    "a change meanwhile": ConflictError(409, "Conflict", "the object has been modified"),
    "a webhook that is down": ApiStatusError(500, "InternalError", "failed calling webhook"),
}
ANOTHER = InvalidError(422, "Invalid", "Pod is invalid: metadata.uid: Invalid value: field is immutable")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((error, Refused) for error in FINAL.values()),
        *((error, Failed) for error in PASSING.values()),
        (ANOTHER, Missing),
        (NotFoundError(404, "NotFound", "gone"), Missing),
    ],
    ids=[*FINAL, *PASSING, "another Pod", "no Pod"],
)
def test_an_answer_to_the_patch_that_lets_go_of_a_pod(error: ApiStatusError, expected: type) -> None:
    performer = Performer(Client(error))  # type: ignore[arg-type]  # all of a client that is asked for
    found = asyncio.run(performer.perform(Subject("n", "fw", "u"), RetainPod("worker", 0, "uid")))
    assert isinstance(found, expected), found
