"""The server asks for a pause: nothing is sent meanwhile, then one request asks, then all go on."""

import asyncio
import json
from email.utils import formatdate
from typing import Any

import pytest

from frameworkkube.errors import (
    ApiStatusError,
    RequestTimeoutError,
    TooManyRequestsError,
    error_of,
    is_unknown_version,
)
from frameworkkube.http.flow_control import PROBE_SECONDS, FlowControl
from tests.kube.lab import Lab
from tests.kube.scripted import TEXT_429, Connection, Step, a_client, answer, refusal, reset_connection, silence
from tests.kube.virtualtime import in_virtual_time

JSON_429 = refusal(429, "TooManyRequests", retryAfterSeconds=1)
HTML_503 = answer(503, b"<html></html>", content_type="text/html", Retry_After="1")
PATH = "/api/v1/pods"


async def create(lab: Lab) -> bytes:
    return await lab.client.create(PATH, b"{}")


async def refused(lab: Lab, *then: Step) -> ApiStatusError:
    """How a create is refused, by the server or before it is sent; `then` is what the server says to those after it."""
    lab.on("POST", *then)
    with pytest.raises(ApiStatusError) as caught:
        await create(lab)
    return caught.value


@pytest.mark.parametrize("step", [TEXT_429, HTML_503], ids=["429 text", "503 html"])
async def test_nothing_is_sent_during_the_pause(lab: Lab, step: Step) -> None:
    assert (await refused(lab, step, answer(201))).retry_after_seconds == 1
    for _ in range(1000):
        held = await refused(lab)
        assert isinstance(held, TooManyRequestsError)
        assert (held.reason, held.retry_after_seconds) == ("ClientPaused", 1)
    await asyncio.sleep(0.6)
    assert (await refused(lab)).retry_after_seconds == pytest.approx(0.4)
    assert len(lab.requests) == 1
    await asyncio.sleep(0.41)
    await create(lab)
    assert len(lab.requests) == 2


async def test_a_collection_that_is_not_ready_holds_up_no_other_request(lab: Lab) -> None:
    assert (await refused(lab, JSON_429, answer(201))).retry_after_seconds == 1
    await create(lab)


async def test_an_overloaded_minute_costs_one_request_per_second_however_many_ask(lab: Lab) -> None:
    lab.on("POST", then=TEXT_429)
    lab.on("GET", then=TEXT_429)

    async def insist(method: str) -> None:
        with pytest.raises((TooManyRequestsError, RequestTimeoutError)):
            await lab.client.request(method, PATH)

    for _ in range(600):
        await asyncio.gather(*(insist(method) for method in ["GET", "POST"] * 16))
        await asyncio.sleep(0.1)
    # The first burst is out before the first refusal is in.
    burst = sum(request.at == lab.requests[0].at for request in lab.requests)
    assert burst <= 32
    assert len(lab.requests) - burst <= 60


async def test_waiters_follow_a_probe_that_succeeds_at_once(lab: Lab) -> None:
    in_flight: list[int] = []

    async def slow(connection: Connection) -> None:
        in_flight.append(len(lab.requests))
        await asyncio.sleep(0.05)
        await answer(201)(connection)

    lab.on("POST", then=answer(201))
    await refused(lab, TEXT_429, slow)
    await asyncio.sleep(1.01)
    await asyncio.gather(*(create(lab) for _ in range(50)))
    assert in_flight == [2]
    assert len(lab.requests) == 51


async def test_a_lost_probe_lets_the_next_one_probe_alone(lab: Lab) -> None:
    await refused(lab, TEXT_429, reset_connection, TEXT_429, answer(201))
    await asyncio.sleep(1.01)
    results = await asyncio.gather(*(create(lab) for _ in range(20)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["TooManyRequestsError"] * 19 + ["TransportError"]
    assert len(lab.requests) == 3


async def test_a_cancelled_probe_does_not_hold_requests_for_ever(lab: Lab) -> None:
    await refused(lab, TEXT_429, silence, answer(201), answer(201))
    await asyncio.sleep(1.01)
    with pytest.raises(RequestTimeoutError):
        await lab.client.request("POST", PATH, body=b"{}", timeout_seconds=0.1)
    await create(lab)
    await create(lab)


@in_virtual_time
async def test_beside_a_probe_that_is_not_answered_for_long_another_one_goes() -> None:
    """A webhook kept one write for its thirty seconds, and with it all requests of the process."""
    flow_control = FlowControl(asyncio.get_running_loop().time)
    flow_control.pause(1)
    await asyncio.sleep(1)
    assert await flow_control.enter()
    waiting = [asyncio.create_task(flow_control.enter()) for _ in range(2)]
    await asyncio.sleep(PROBE_SECONDS - 0.1)
    waiting.append(asyncio.create_task(flow_control.enter()))
    await asyncio.sleep(0.2)
    assert [task.done() and task.result() for task in waiting] == [True, False, False]
    flow_control.leave(answered=True)
    async with asyncio.timeout(0.1):
        assert await asyncio.gather(*waiting[1:]) == [False, False]
    flow_control.leave(answered=False)
    assert not await flow_control.enter()


async def test_a_shorter_pause_does_not_shorten_a_longer_one_and_each_ends_to_the_moment() -> None:
    now = 0.0
    flow_control = FlowControl(lambda: now)
    flow_control.pause(30)
    flow_control.pause(1)
    now = 2.0
    with pytest.raises(TooManyRequestsError) as held:
        await flow_control.enter()
    assert held.value.retry_after_seconds == 28
    now = 30.0
    assert await flow_control.enter()


WEBHOOK = 'admission webhook "a" denied the request: x'


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        (refusal(429, "TooManyRequests", WEBHOOK, retryAfterSeconds=300), 300),
        (refusal(429, "TooManyRequests"), None),
        (answer(429, b"", Retry_After="0"), 0),
    ],
    ids=["a webhook's, of one object", "without a pause", "with a pause of zero"],
)
async def test_some_refusals_hold_up_nothing_else(lab: Lab, step: Step, seconds: float | None) -> None:
    assert (await refused(lab, step, answer(201))).retry_after_seconds == seconds
    await create(lab)


LATER, EARLIER = (formatdate(2_000_000_000 + seconds, usegmt=True) for seconds in (30, -1000))
RETRY_AFTER = {"7": 7, " 7 ": 7, LATER: 30, EARLIER: 0, "86400": 300} | dict.fromkeys(["-1", "soon", "", "1e999"])


@pytest.mark.parametrize(("header", "seconds"), RETRY_AFTER.items())
async def test_retry_after_is_seconds_or_a_date_and_has_a_ceiling(lab: Lab, header: str, seconds: float | None) -> None:
    lab.on("GET", answer(429, b"", Retry_After=header))
    async with a_client(lab.server, wall_clock=lambda: 2_000_000_000.0) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.get(PATH)
    assert caught.value.retry_after_seconds == seconds


STATUS = {"kind": "Status", "message": 'admission webhook "a" denied the request: no', "code": 429}
ODD = {
    "a pause of many digits": (STATUS | {"details": {"retryAfterSeconds": 10**400}}, None, 300),
    "causes that are a number": (STATUS | {"details": {"causes": 3}}, None, None),
    "a date in no year": (STATUS, "Tue, 01 Jan 2030 00:00:00 +9999999999999", None),
    "a Status that is cut off": (STATUS | {"message": STATUS["message"] + "x" * 9}, "7", 7),
}


@pytest.mark.parametrize(("status", "header", "seconds"), ODD.values(), ids=ODD)
def test_what_proxies_and_webhooks_say_is_an_error_whatever_it_is(
    status: dict[str, Any], header: str | None, seconds: float | None
) -> None:
    body = json.dumps(status).encode()
    error = error_of(429, None, header, body[:-50] if header == "7" else body, now=0.0)
    assert (type(error), error.by_webhook, error.retry_after_seconds) == (TooManyRequestsError, True, seconds)
    assert not is_unknown_version(error)


def test_a_refusal_of_thousands_of_causes_is_read_in_brief() -> None:
    """64 of them took turns of 320 ms, and nobody shows more than the first words."""
    causes = [{"reason": "FieldValueInvalid", "field": f"spec.containers[{number}].env"} for number in range(7000)]
    details = {"retryAfterSeconds": 3, "causes": causes}
    status = {"kind": "Status", "message": "x" * 500_000, "reason": "Invalid", "code": 422, "details": details}
    error = error_of(422, None, None, json.dumps(status).encode(), now=0.0)
    assert (error.code, error.reason, error.retry_after_seconds) == (422, "Invalid", 3.0)
    assert error.status["details"] == {"retryAfterSeconds": 3}
    assert 1000 < len(error.message) < 20_000
