"""What answers of an API server say of the cluster; tests/apiserver asks real ones."""

import asyncio
import json
from typing import Any

import pytest

from frameworkinjector.review.config import EnvFiles
from frameworkinjector.serving import capabilities
from frameworkinjector.serving.capabilities import Capabilities
from frameworkkube.errors import InvalidError, error_of
from tests.injector.loopback_server import until


class StubServer:
    """Refuses PodTemplates for the given causes, or answers with a page that is no JSON."""

    def __init__(self, causes: list[dict[str, str]] | None = None) -> None:
        self._causes = causes
        self.asked = 0

    async def request(self, *_: Any, **__: Any) -> bytes:
        self.asked += 1
        if self._causes is None:
            return b"<html>"
        status = {"kind": "Status", "code": 422, "reason": "Invalid", "details": {"causes": self._causes}}
        raise error_of(422, None, None, json.dumps(status).encode(), now=0)


def asking(server: Any) -> Capabilities:
    return Capabilities(server, "system")


@pytest.mark.parametrize("field", ["env[0].valueFrom", "restartPolicy", "restartPolicyRules[0].action"])
async def test_a_container_that_is_invalid_means_that_the_cluster_cannot(field: str) -> None:
    server = StubServer([{"reason": "FieldValueInvalid", "field": f"template.spec.containers[0].{field}"}])
    assert await asking(server).ask() is EnvFiles.NONE
    assert await asking(server).ask_in_place_restart() is False


async def test_the_refusal_of_an_admission_policy_says_nothing_of_the_cluster() -> None:
    server = StubServer([{"message": "ValidatingAdmissionPolicy 'images' denied request"}])
    with pytest.raises(InvalidError):
        await asking(server).ask()
    with pytest.raises(InvalidError):
        await asking(server).ask_in_place_restart()


async def test_a_proxys_page_is_no_answer_and_the_question_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "RETRY_SECONDS", 0.01)
    server = StubServer()
    found = asking(server)
    running = asyncio.create_task(found.run())
    await until(lambda: server.asked > 1 or running.done())
    assert "JSON is malformed" in (found.status.unready or "")
    running.cancel()
