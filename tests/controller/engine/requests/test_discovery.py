"""The start of the controller: it waits until the API server serves Frameworks with everything that it needs."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from frameworkcontroller.api import names
from frameworkcontroller.engine.requests.discovery import NotServedError, wait_until_served, what_is_missing
from frameworkkube.errors import ForbiddenError, KubeError, NotFoundError, TransportError

FRAMEWORKS = {"name": "frameworks", "kind": "Framework", "namespaced": True, "verbs": ["get", "list"], "shortNames": []}
STATUS = {"name": "frameworks/status", "kind": "Framework", "namespaced": True, "verbs": ["get", "patch", "update"]}


def discovery(*resources: dict[str, object]) -> bytes:
    return json.dumps({"kind": "APIResourceList", "groupVersion": names.API_VERSION, "resources": resources}).encode()


SERVED = discovery(FRAMEWORKS, STATUS)


class Client:
    """Gives these answers, the last one again and again."""

    def __init__(self, *answers: KubeError | bytes) -> None:
        self.answers, self.asked = list(answers), 0

    async def get(self, path: str) -> bytes:
        assert path == names.DISCOVERY_PATH
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


async def wait_for(client: Any, within: float = 60) -> None:
    await wait_until_served(client, every=0.01, within=within)


async def test_whatever_fails_is_tried_again_and_logged_once() -> None:
    missing = NotFoundError(404, "NotFound", "the server could not find the requested resource")
    client = Client(TransportError("refused"), missing, missing, ForbiddenError(403, "Forbidden", "no"), SERVED)
    with capture_logs() as logs:
        await wait_for(client)
    assert client.asked == 5
    assert [str(entry["error"]).partition(":")[0] for entry in logs] == ["refused", "404 NotFound", "403 Forbidden"]


class Hanging(Client):
    """Answers nothing."""

    async def get(self, path: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (Client(NotFoundError(404, "NotFound", "gone")), "after 0.05 s: 404 NotFound: gone; apply this version's CRD"),
        (Client(discovery(FRAMEWORKS)), "no status subresource.*; apply this"),
        (Hanging(), "no answer"),
    ],
    ids=["not found", "it lacks something", "a request that hangs"],
)
async def test_when_the_time_is_up_the_last_error_is_named(client: Client, words: str) -> None:
    with capture_logs() as logs, pytest.raises(NotServedError, match=words):
        await wait_for(client, within=0.05)
    assert len(logs) <= 1, "it is logged once"


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (SERVED, ""),
        (discovery(STATUS, FRAMEWORKS | {"unknown": 1}), ""),
        (discovery(FRAMEWORKS), "has no status subresource"),
        (discovery(FRAMEWORKS, STATUS | {"verbs": ["get"]}), "has no status subresource"),
        (discovery(STATUS), "has no namespaced resource frameworks of kind Framework"),
        (discovery(FRAMEWORKS | {"namespaced": False}, STATUS), "has no namespaced resource frameworks"),
        (discovery(FRAMEWORKS | {"kind": "Other"}, STATUS), "has no namespaced resource frameworks"),
        (b"{}", "has no namespaced resource frameworks"),
    ],
)
def test_what_is_missing_is_said(found: bytes, missing: str) -> None:
    assert missing in what_is_missing(found)
    assert bool(missing) == bool(what_is_missing(found))


async def test_only_an_answer_that_is_no_discovery_is_tried_again() -> None:
    client = Client(b"<html>login</html>", b"", b'{"resources":3}', SERVED)
    await wait_for(client)
    assert client.asked == 4
    await wait_for(client)
    assert client.asked == 5
