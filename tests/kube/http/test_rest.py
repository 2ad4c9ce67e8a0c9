"""One request: what is sent, what comes back, and which error every failure raises."""

import asyncio
import contextlib
import gc
import json
import weakref
from typing import Any

import pytest

from frameworkkube import errors
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.http.pages import objects
from frameworkkube.paths import resource_path
from tests.kube.lab import Lab
from tests.kube.scripted import Connection, Step, a_client, answer, hang_up, refusal, reset_connection, silence, watch

POD = "/api/v1/namespaces/default/pods/web-0"
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")


OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}
PRECONDITIONS = {"preconditions": {"uid": "u", "resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("method", "arguments", "content_type", "body"),
    [
        ("create", {"body": b'{"a":1}'}, "json", {"a": 1}),
        ("replace", {"body": b'{"a":1}'}, "json", {"a": 1}),
        ("patch", {"body": b'{"a":1}'}, "merge-patch+json", {"a": 1}),
        ("delete", {}, "json", OPTIONS),
        ("delete", {"uid": "u", "resource_version": "7"}, "json", OPTIONS | PRECONDITIONS),
        ("delete", {"grace_period_seconds": 0}, "json", OPTIONS | {"gracePeriodSeconds": 0}),
        ("delete", {"propagation": "Foreground"}, "json", OPTIONS | {"propagationPolicy": "Foreground"}),
    ],
)
async def test_a_write_sends_its_body_and_returns_the_answer_as_bytes(
    lab: Lab, method: str, arguments: dict[str, Any], content_type: str, body: object
) -> None:
    for verb in VERBS:
        lab.on(verb, answer(201, b'{"a":2}'))
    assert await getattr(lab.client, method)(POD, accept=PARTIAL_METADATA, **arguments) == b'{"a":2}'
    (request,) = lab.requests
    assert json.loads(request.body) == body
    headers = {"content-type": f"application/{content_type}", "accept": PARTIAL_METADATA}
    fixed = {"accept-encoding": "identity", "user-agent": "frameworkcontroller"}
    assert request.headers == request.headers | headers | fixed


async def test_an_answer_may_warn_of_each_field(lab: Lab) -> None:
    """Of fields that no Pod has, in names of 3,000 characters of three bytes: it counted as lost."""
    lab.on("POST", answer(201, b"{}", **{f"Warning{number}": "299 - x" for number in range(400)}, Warning="x" * 50_000))
    assert await lab.client.create("/api/v1/pods", b"{}") == b"{}"


async def test_a_read_sends_its_query_encoded_and_each_header_of_the_endpoint(lab: Lab) -> None:
    headers = (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    query = {"labelSelector": "a in (b,c),d=e f&g"}
    lab.on("GET", answer())
    async with a_client(lab.server, {"headers": headers}) as client:
        await client.get(POD, query=query)
    (request,) = lab.requests
    assert request.query == query
    assert (request.headers["impersonate-user"], request.headers["impersonate-group"]) == ("jane", "a, b")


@pytest.mark.parametrize(
    ("step", "kind", "code", "reason"),
    [
        (refusal(400, "BadRequest"), errors.ApiStatusError, 400, "BadRequest"),
        (refusal(401, "Unauthorized"), errors.UnauthorizedError, 401, "Unauthorized"),
        (refusal(403, "Forbidden"), errors.ForbiddenError, 403, "Forbidden"),
        (refusal(404, "NotFound"), errors.NotFoundError, 404, "NotFound"),
        (refusal(409, "Conflict"), errors.ConflictError, 409, "Conflict"),
        (refusal(409, "AlreadyExists"), errors.AlreadyExistsError, 409, "AlreadyExists"),
        (refusal(410, "Expired"), errors.GoneError, 410, "Expired"),
        (refusal(410, "Gone"), errors.GoneError, 410, "Gone"),
        (refusal(422, "Invalid"), errors.InvalidError, 422, "Invalid"),
        (refusal(429, "TooManyRequests"), errors.TooManyRequestsError, 429, "TooManyRequests"),
        (refusal(500, "InternalError"), errors.ServerError, 500, "InternalError"),
        (refusal(504, "Timeout"), errors.ServerError, 504, "Timeout"),
        (answer(503, b"<html>down</html>", content_type="text/html"), errors.ServerError, 503, "Because"),
        (answer(502, b""), errors.ServerError, 502, "Because"),
        (answer(404, b"404 page not found", content_type="text/plain"), errors.NotFoundError, 404, "Because"),
        (answer(500, b"[" * 5000), errors.ServerError, 500, "Because"),
        (answer(500, [1]), errors.ServerError, 500, "Because"),
        (answer(302, b"", Location="http://127.0.0.1:9/"), errors.ApiStatusError, 302, "Because"),
    ],
)
async def test_every_refusal_has_a_class_by_its_meaning(
    lab: Lab, step: Step, kind: type[errors.ApiStatusError], code: int, reason: str
) -> None:
    lab.on("GET", step)
    with pytest.raises(errors.ApiStatusError) as caught:
        await lab.client.get(POD)
    assert (type(caught.value), caught.value.code, caught.value.reason) == (kind, code, reason)
    assert isinstance(caught.value, errors.ConflictError) == (reason == "Conflict")
    assert len(lab.requests) == 1


async def test_a_refusal_keeps_nothing_once_it_was_handled(lab: Lab) -> None:
    # The frames of its traceback have the body that was sent, up to 3 MiB. Cycles are looked for seldom.
    lab.on("POST", refusal(422, "Invalid"))
    gc.disable()
    try:
        await lab.client.create(POD, b"{}")
    except errors.InvalidError as error:
        refused = weakref.ref(error)
    finally:
        gc.enable()
    assert refused() is None


async def test_an_html_page_is_quoted_in_part(lab: Lab) -> None:
    lab.on("GET", answer(503, b"<html>\n" + b"x" * 10_000, content_type="text/html"))
    with pytest.raises(errors.ServerError, match="503 Because: <html> xxx") as caught:
        await lab.client.get(POD)
    assert len(str(caught.value)) < 400
    assert caught.value.status == {}


async def half_an_answer(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")
    connection.writer.close()


async def no_http(connection: Connection) -> None:
    await connection.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


@pytest.mark.parametrize("step", [reset_connection, hang_up, half_an_answer, no_http], ids=lambda step: step.__name__)
@pytest.mark.parametrize("method", VERBS)
async def test_a_request_whose_answer_is_lost_is_sent_once_and_reported(lab: Lab, method: str, step: Step) -> None:
    lab.on(method, answer(), step, then=answer())
    await lab.client.request(method, POD)
    # The second request goes over the kept connection, where the HTTP library would send it again by itself.
    with pytest.raises(errors.TransportError):
        await lab.client.request(method, POD, body=b"{}" if method != "GET" else None)
    assert [request.connection for request in lab.requests] == [1, 1]


async def test_a_refused_connection_is_a_transport_error(lab: Lab) -> None:
    await lab.server.stop()
    message = f"^GET {POD}: cannot connect to 127.0.0.1:{lab.server.port}: Connection refused$"
    with pytest.raises(errors.TransportError, match=message):
        await lab.client.get(POD)


async def test_an_answer_beyond_its_bound_is_an_error_of_its_own(lab: Lab) -> None:
    lab.on("GET", then=answer(200, b"x" * 1_000))
    assert len(await lab.client.request("GET", "/", max_bytes=1_000)) == 1_000
    with pytest.raises(errors.AnswerTooLargeError, match="GET /: the answer has more than 999 bytes"):
        await lab.client.request("GET", "/", max_bytes=999)
    assert len(await lab.client.request("GET", "/")) == 1_000


@pytest.mark.parametrize("step", [silence, watch(b"{}", end="silence")], ids=["no answer", "half an answer"])
@pytest.mark.parametrize("method", ["create", "replace", "patch", "delete", "get"])
async def test_a_write_is_given_the_time_that_slow_webhooks_may_take(lab: Lab, method: str, step: Step) -> None:
    for verb in VERBS:
        lab.on(verb, step)
    # The API server ends any request after 60 s; it waits for a webhook for 30 s at most.
    seconds, started = 10 if method == "get" else 60, lab.server.clock()
    with pytest.raises(errors.RequestTimeoutError, match=f"no answer within {seconds} s"):
        await getattr(lab.client, method)(POD, **({} if method in {"delete", "get"} else {"body": b"{}"}))
    assert lab.server.clock() - started == pytest.approx(seconds, abs=0.1)


async def test_each_exchange_is_counted_with_its_code(lab: Lab) -> None:
    seen: list[tuple[str, str, str, bool]] = []

    class Counter:
        def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
            seen.append((method, host, code, seconds >= 0))

    lab.on("GET", answer(), refusal(404, "NotFound"), reset_connection)
    async with a_client(lab.server, observer=Counter()) as client:
        await client.get(POD)
        for error in (errors.NotFoundError, errors.TransportError):
            with pytest.raises(error):
                await client.get(POD)
    host = f"127.0.0.1:{lab.server.port}"
    assert seen == [("GET", host, code, True) for code in ("200", "404", "<error>")]


async def test_a_proxy_is_asked_for_the_whole_address(lab: Lab) -> None:
    lab.on("GET", answer())
    client = KubeClient(Endpoint("http://api.internal:8080", proxy=lab.server.url))
    await client.get(POD)
    await client.close()
    assert lab.requests[0].headers["host"] == "api.internal:8080"
    assert lab.requests[0].path == POD


async def test_paths_follow_the_api(lab: Lab) -> None:
    assert resource_path("v1", "pods") == "/api/v1/pods"
    assert resource_path("v1", "pods", namespace="a", name="b") == "/api/v1/namespaces/a/pods/b"
    assert resource_path("g/v1", "things", name="a/../b") == "/apis/g/v1/things/a%2F..%2Fb"
    with pytest.raises(ValueError, match="path: expected it to start with '/', got 'api/v1'"):
        await lab.client.get("api/v1")


async def test_every_request_and_watch_waits_for_the_throttle_but_one_that_passes_pauses(lab: Lab) -> None:
    for kind, step in {"GET": answer(), "PUT": answer(), "watch": watch()}.items():
        lab.on(kind, then=step)
    waited: list[int] = []

    async def throttle() -> None:
        waited.append(len(lab.requests))

    async with a_client(lab.server, throttle=throttle) as client:
        await client.get(POD)
        await client.replace(POD, b"{}")
        assert [line async for line in client.stream(POD, {"watch": "true"})] == []
        await client.request("PUT", POD, flow_controlled=False)
    assert waited == [0, 1, 2]
    assert len(lab.requests) == 4


async def test_the_wait_for_the_throttle_is_not_the_servers_silence(lab: Lab) -> None:
    lab.on("GET", answer())
    async with a_client(lab.server, throttle=lambda: asyncio.sleep(30)) as client:
        await client.request("GET", POD, timeout_seconds=25)


@pytest.mark.parametrize("method", VERBS[1:])
async def test_a_write_that_waited_is_not_sent_once_the_right_to_write_is_lost(lab: Lab, method: str) -> None:
    begun = lab.server.clock()

    async def slow(connection: Connection) -> None:
        await asyncio.sleep(5)
        await answer()(connection)

    def may_write() -> bool:
        return not 3 < lab.server.clock() - begun < 9

    lab.on("GET", slow, answer())
    lab.on(method, answer())
    async with a_client(lab.server, max_connections=1, may_write=may_write) as client:
        reading = asyncio.create_task(client.get(POD))
        await asyncio.sleep(1)
        with pytest.raises(errors.NotSentError, match=f"{method} {POD}: not sent"):
            await client.request(method, POD, body=b"{}")
        await reading
        # A read may be sent, and a write again when it may.
        await client.get(POD)
        await asyncio.sleep(5)
        await client.request(method, POD, body=b"{}")
    assert [request.method for request in lab.requests] == ["GET", "GET", method]


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("size", [10, 100_000, 1_500_000])
async def test_the_right_to_write_is_asked_for_as_the_bytes_go_out(lab: Lab, size: int) -> None:
    """This watches the HTTP library: whenever the right is lost, the request arrives whole or not at all."""
    lab.on("PUT", then=answer())
    for rights in ([False], [True, False], [True, True, False]):
        asked = iter(rights)
        async with a_client(lab.server, may_write=asked.__next__) as client:
            with contextlib.nullcontext() if len(rights) == 3 else pytest.raises(errors.NotSentError):
                await client.replace(POD, b"x" * size)
    assert [request.body for request in lab.requests] == [b"x" * size]
    assert list(asked) == [False], "it was asked twice"


async def test_a_list_is_read_in_spite_of_an_object_that_is_deeper_than_the_decoder_goes(lab: Lab) -> None:
    """One tenant's Framework kept administrators from a list of all namespaces."""
    deep = b'{"b":%s%s}' % (b"[" * 5000, b"]" * 5000)
    page = b'{"metadata":{"continue":"more"},"items":[{"a":1},%s]}' % deep
    lab.on("GET", answer(200, page), answer(200, b'{"metadata":{},"items":null}'))
    found = [one async for one in objects(lab.client, resource_path("v1", "pods", namespace="default"))]
    assert found == [b'{"a":1}', deep]
