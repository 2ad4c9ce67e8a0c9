"""What an answer of the API server means in the core's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeletePod,
    Done,
    Effect,
    Failed,
    GrantRosterAccess,
    Missing,
    Outcome,
    Refused,
)
from frameworkcontroller.engine.manifests import Subject
from frameworkcontroller.engine.performer import Performer
from frameworkkube.rest import Conflict, Invalid, KubeError, NotFound, TooManyRequests, TransportError

if TYPE_CHECKING:
    from frameworkcontroller.core.template import PodTemplate

SUBJECT = Subject("n", "fw", "u")


class Client:
    """Every request answers or raises this."""

    def __init__(self, answer: bytes | KubeError) -> None:
        self.answer = answer

    async def delete(self, _path: str, **_more: Any) -> bytes:
        return self._give()

    async def create(self, _path: str, _body: bytes, **_more: Any) -> bytes:
        return self._give()

    def _give(self) -> bytes:
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


class Template:
    """Renders an empty Pod."""

    def render(self, *_more: Any) -> bytes:
        return b"{}"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"{}", Done()),
        (NotFound(404, "NotFound", "gone"), Missing()),
        (Conflict(409, "Conflict", "the UID in the precondition does not match"), Missing()),
        (TooManyRequests(429, "TooManyRequests", "slow down", retry_after_seconds=3), None),
        (TransportError("reset"), Failed("reset")),
    ],
    ids=["done", "not found", "another instance", "too many requests", "lost"],
)
async def test_the_outcome_of_a_deletion(answer: bytes | KubeError, outcome: Outcome | None) -> None:
    performer = Performer(Client(answer))  # type: ignore[arg-type]
    found = await performer.perform(SUBJECT, DeletePod("worker", 0, "uid"))
    assert found == (outcome or Failed("429 TooManyRequests: slow down", 3))


async def test_the_refusal_of_a_pod_has_the_form_of_microsofts_controller() -> None:
    status = {"kind": "Status", "status": "Failure", "message": "no", "reason": "Invalid", "code": 422}
    refusal = Invalid(422, "Invalid", "no", status=status)
    performer = Performer(Client(refusal))  # type: ignore[arg-type]
    template = cast("PodTemplate", Template())
    expected = '{"ErrStatus":{"metadata":{},"status":"Failure","message":"no","reason":"Invalid","code":422}}'
    assert await performer.perform(SUBJECT, CreatePod("worker", 0, "uid", 0, template)) == Refused(422, expected)
    assert await performer.perform(SUBJECT, CreateConfigMap(0, b"{}")) == Refused(422, "422 Invalid: no")


@pytest.mark.parametrize(
    "effect", [CreateConfigMap(0, b"{}"), DeletePod("worker", 0, "uid")], ids=["creation", "deletion"]
)
async def test_an_answer_that_cannot_be_decoded_is_a_failure_to_try_again(effect: Effect) -> None:
    performer = Performer(Client(b"<html>sign in</html>"))  # type: ignore[arg-type]
    found = await performer.perform(SUBJECT, effect)
    assert isinstance(found, Failed)
    assert "cannot be decoded" in found.message


async def test_access_to_the_roster_is_a_role_and_its_binding() -> None:
    performer = Performer(Client(b"{}"))  # type: ignore[arg-type]
    assert await performer.perform(SUBJECT, GrantRosterAccess(("default",), "config-map-uid")) == Done()
