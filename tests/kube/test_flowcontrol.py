"""The server asks for a pause: nothing is sent meanwhile, then one request asks, then all go on."""

import asyncio
import json
import time as real_time
from email.utils import formatdate
from itertools import pairwise

import pytest

from frameworkkube.errors import RequestTimeoutError, ServerError, TooManyRequestsError, error_of
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.kube.faketime import FakeTime
from tests.kube.scripted import Connection, ScriptedServer, Step, answer, refusal, reset_connection, silence

TEXT_429 = answer(429, b"Too many requests, please try again later.\n", content_type="text/plain", Retry_After="1")
JSON_429 = refusal(429, "TooManyRequests", retryAfterSeconds=1)
HTML_503 = answer(503, b"<html></html>", content_type="text/html", Retry_After="1")
PATH = "/api/v1/pods"


@pytest.mark.parametrize("refused", [TEXT_429, JSON_429, HTML_503], ids=["429 text", "429 json", "503 html"])
async def test_nothing_is_sent_during_the_pause(
    client: KubeClient, server: ScriptedServer, time: FakeTime, refused: Step
) -> None:
    server.on("POST", refused, then=answer(201))
    with pytest.raises((TooManyRequestsError, ServerError)) as first:
        await client.create(PATH, b"{}")
    assert first.value.retry_after_seconds == 1
    for _ in range(1000):
        with pytest.raises(TooManyRequestsError) as held:
            await client.create(PATH, b"{}")
        assert held.value.reason == "ClientPaused"
        assert held.value.retry_after_seconds == 1
    assert len(server.requests) == 1
    time.now += 0.6
    with pytest.raises(TooManyRequestsError) as held:
        await client.create(PATH, b"{}")
    assert held.value.retry_after_seconds == pytest.approx(0.4)
    time.now += 0.4
    await client.create(PATH, b"{}")
    assert len(server.requests) == 2


async def test_an_overloaded_minute_costs_one_request_per_second_however_many_ask(
    client: KubeClient, server: ScriptedServer, time: FakeTime
) -> None:
    server.on("POST", then=TEXT_429)
    server.on("GET", then=TEXT_429)

    async def insist(method: str) -> None:
        with pytest.raises((TooManyRequestsError, RequestTimeoutError)):
            await client.request(method, PATH)

    for _ in range(600):
        await asyncio.gather(*(insist(method) for method in ["GET", "POST"] * 16))
        time.now += 0.1
    # The first burst is out before the first refusal is in.
    burst = sum(request.at == server.requests[0].at for request in server.requests)
    assert burst <= 32
    assert len(server.requests) - burst <= 60


async def test_waiters_follow_a_probe_that_succeeds_at_once(
    client: KubeClient, server: ScriptedServer, time: FakeTime
) -> None:
    in_flight: list[int] = []

    async def slow(connection: Connection) -> None:
        in_flight.append(len(server.requests))
        await asyncio.sleep(0.05)
        await answer(201)(connection)

    server.on("POST", TEXT_429, slow, then=answer(201))
    with pytest.raises(TooManyRequestsError):
        await client.create(PATH, b"{}")
    time.now += 1
    await asyncio.gather(*(client.create(PATH, b"{}") for _ in range(50)))
    assert in_flight == [2]
    assert len(server.requests) == 51


async def test_a_lost_probe_lets_the_next_one_probe_alone(
    client: KubeClient, server: ScriptedServer, time: FakeTime
) -> None:
    server.on("POST", TEXT_429, reset_connection(), TEXT_429, then=answer(201))
    with pytest.raises(TooManyRequestsError):
        await client.create(PATH, b"{}")
    time.now += 1
    results = await asyncio.gather(*(client.create(PATH, b"{}") for _ in range(20)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["TooManyRequestsError"] * 19 + ["TransportError"]
    assert len(server.requests) == 3


async def test_a_cancelled_probe_does_not_hold_requests_for_ever(
    client: KubeClient, server: ScriptedServer, time: FakeTime
) -> None:
    server.on("POST", TEXT_429, silence(), then=answer(201))
    with pytest.raises(TooManyRequestsError):
        await client.create(PATH, b"{}")
    time.now += 1
    with pytest.raises(RequestTimeoutError):
        await client.request("POST", PATH, body=b"{}", timeout_seconds=0.1)
    await client.create(PATH, b"{}")
    await client.create(PATH, b"{}")


async def test_a_shorter_pause_does_not_shorten_a_longer_one(
    client: KubeClient, server: ScriptedServer, time: FakeTime
) -> None:
    server.on("POST", answer(429, b"", Retry_After="30"), TEXT_429)
    await asyncio.gather(*(client.create(PATH, b"{}") for _ in range(2)), return_exceptions=True)
    assert len(server.requests) == 2
    time.now += 2
    with pytest.raises(TooManyRequestsError) as held:
        await client.create(PATH, b"{}")
    assert held.value.retry_after_seconds == 28


async def test_a_lease_may_pass_the_pause(client: KubeClient, server: ScriptedServer) -> None:
    server.on("POST", TEXT_429)
    server.on("PUT", answer())
    with pytest.raises(TooManyRequestsError):
        await client.create(PATH, b"{}")
    await client.request("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", body=b"{}", flow_controlled=False)
    with pytest.raises(TooManyRequestsError, match="the server asked for a pause"):
        await client.create(PATH, b"{}")


async def test_a_webhook_s_refusal_of_one_object_holds_up_no_other(client: KubeClient, server: ScriptedServer) -> None:
    denied = refusal(429, "TooManyRequests", 'admission webhook "a" denied the request: x', retryAfterSeconds=300)
    server.on("POST", denied, answer(201))
    with pytest.raises(TooManyRequestsError) as caught:
        await client.create(PATH, b"{}")
    assert caught.value.retry_after_seconds == 300
    await client.create(PATH, b"{}")


async def test_a_refusal_without_a_pause_leaves_the_decision_to_the_caller(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.on("POST", refusal(429, "TooManyRequests"), answer(429, b"", Retry_After="0"), answer(201))
    with pytest.raises(TooManyRequestsError) as caught:
        await client.create(PATH, b"{}")
    assert caught.value.retry_after_seconds is None
    with pytest.raises(TooManyRequestsError) as caught:
        await client.create(PATH, b"{}")
    assert caught.value.retry_after_seconds == 0
    await client.create(PATH, b"{}")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        (formatdate(2_000_000_030, usegmt=True), 30),
        (formatdate(1_999_999_000, usegmt=True), 0),
        ("86400", 300),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("1e999", None),
    ],
)
async def test_retry_after_is_seconds_or_a_date_and_has_a_ceiling(
    server: ScriptedServer, header: str, seconds: float | None
) -> None:
    client = KubeClient(Endpoint(server.url), wall_clock=lambda: 2_000_000_000.0)
    server.on("GET", answer(429, b"", Retry_After=header))
    with pytest.raises(TooManyRequestsError) as caught:
        await client.get(PATH)
    await client.close()
    assert caught.value.retry_after_seconds == seconds


async def test_in_real_time_too_429_costs_at_most_one_request_in_a_second() -> None:
    server = ScriptedServer(real_time.monotonic)
    await server.start()
    client = KubeClient(Endpoint(server.url))
    server.on("GET", then=TEXT_429)
    while len(server.requests) < 3:
        with pytest.raises(TooManyRequestsError):
            await client.get(PATH)
        await asyncio.sleep(0)
    await client.close()
    await server.stop()
    assert all(later.at - earlier.at >= 1 - 1e-3 for earlier, later in pairwise(server.requests))


def test_a_refusal_of_thousands_of_causes_is_read_in_brief() -> None:
    """64 of them took turns of 320 ms, and nobody shows more than the first words."""
    causes = [{"reason": "FieldValueInvalid", "field": f"spec.containers[{number}].env"} for number in range(7000)]
    details = {"retryAfterSeconds": 3, "causes": causes}
    status = {"kind": "Status", "message": "x" * 500_000, "reason": "Invalid", "code": 422, "details": details}
    error = error_of(422, None, None, json.dumps(status).encode(), now=0.0)
    assert (error.code, error.reason, error.retry_after_seconds) == (422, "Invalid", 3.0)
    assert error.status["details"] == {"retryAfterSeconds": 3}
    assert 1000 < len(error.message) < 20_000
