"""One request: what is sent, what comes back, and which error every failure raises."""

import asyncio
import json
from typing import Any

import pytest

from frameworkkube.errors import (
    AlreadyExistsError,
    ApiStatusError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotSentError,
    RequestTimeoutError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from frameworkkube.http.client import PARTIAL_METADATA, REQUEST_TIMEOUT_SECONDS, KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.paths import resource_path
from testkit.waiting import patience
from tests.kube.faketime import FakeTime
from tests.kube.scripted import (
    Connection,
    ScriptedServer,
    Step,
    a_client,
    a_server,
    after,
    answer,
    hang_up,
    refusal,
    reset_connection,
    silence,
    watch,
)
from tests.kube.virtualtime import in_virtual_time

POD = "/api/v1/namespaces/default/pods/web-0"


async def test_a_create_sends_the_body_and_returns_the_answer_as_bytes(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.on("POST", answer(201, {"metadata": {"uid": "u"}}))
    made = await client.create("/api/v1/namespaces/default/pods", b'{"a":1}', accept=PARTIAL_METADATA)
    (request,) = server.requests
    assert json.loads(made) == {"metadata": {"uid": "u"}}
    assert request.body == b'{"a":1}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == PARTIAL_METADATA
    assert request.headers["user-agent"] == "frameworkcontroller"
    assert request.headers["accept-encoding"] == "identity"


async def test_headers_of_the_endpoint_are_sent_each_time_a_name_occurs(server: ScriptedServer) -> None:
    headers = (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    client = KubeClient(Endpoint(server.url, headers=headers))
    server.on("GET", answer())
    await client.get("/api/v1/pods")
    await client.close()
    sent = server.requests[0].headers
    assert (sent["impersonate-user"], sent["impersonate-group"]) == ("jane", "a, b")


async def test_queries_are_encoded(client: KubeClient, server: ScriptedServer) -> None:
    server.on("GET", answer())
    await client.get("/api/v1/pods", query={"labelSelector": "a in (b,c),d=e f&g"})
    assert server.requests[0].query == {"labelSelector": "a in (b,c),d=e f&g"}


async def test_a_delete_carries_its_preconditions(client: KubeClient, server: ScriptedServer) -> None:
    server.on("DELETE", then=answer())
    await client.delete(POD, uid="u-1", resource_version="7", grace_period_seconds=0, propagation="Foreground")
    await client.delete(POD)
    full, bare = (json.loads(request.body) for request in server.requests)
    assert full == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u-1", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
    }
    assert bare == {"apiVersion": "v1", "kind": "DeleteOptions"}


async def test_a_patch_names_its_content_type(client: KubeClient, server: ScriptedServer) -> None:
    server.on("PATCH", answer())
    await client.patch(POD, b"{}")
    assert server.requests[0].headers["content-type"] == "application/merge-patch+json"


async def test_a_body_above_one_mebibyte_arrives_whole(client: KubeClient, server: ScriptedServer) -> None:
    server.on("PUT", answer())
    body = b"x" * 1_500_000
    await client.replace(POD, body)
    assert server.requests[0].body == body


@pytest.mark.parametrize(
    ("step", "kind", "code", "reason"),
    [
        (refusal(400, "BadRequest"), ApiStatusError, 400, "BadRequest"),
        (refusal(401, "Unauthorized"), UnauthorizedError, 401, "Unauthorized"),
        (refusal(403, "Forbidden"), ForbiddenError, 403, "Forbidden"),
        (refusal(404, "NotFound"), NotFoundError, 404, "NotFound"),
        (refusal(409, "Conflict"), ConflictError, 409, "Conflict"),
        (refusal(409, "AlreadyExists"), AlreadyExistsError, 409, "AlreadyExists"),
        (refusal(410, "Expired"), GoneError, 410, "Expired"),
        (refusal(410, "Gone"), GoneError, 410, "Gone"),
        (refusal(422, "Invalid"), InvalidError, 422, "Invalid"),
        (refusal(429, "TooManyRequests"), TooManyRequestsError, 429, "TooManyRequests"),
        (refusal(500, "InternalError"), ServerError, 500, "InternalError"),
        (refusal(504, "Timeout"), ServerError, 504, "Timeout"),
        (answer(503, b"<html>down</html>", content_type="text/html"), ServerError, 503, "Because"),
        (answer(502, b""), ServerError, 502, "Because"),
        (answer(404, b"404 page not found", content_type="text/plain"), NotFoundError, 404, "Because"),
        (answer(500, b"[" * 5000), ServerError, 500, "Because"),
        (answer(500, [1]), ServerError, 500, "Because"),
        (answer(302, b"", Location="http://127.0.0.1:9/"), ApiStatusError, 302, "Because"),
    ],
)
async def test_every_refusal_has_a_class_by_its_meaning(
    client: KubeClient, server: ScriptedServer, step: object, kind: type[ApiStatusError], code: int, reason: str
) -> None:
    server.on("GET", step)
    with pytest.raises(ApiStatusError) as caught:
        await client.get(POD)
    assert (type(caught.value), caught.value.code, caught.value.reason) == (kind, code, reason)
    assert len(server.requests) == 1


async def test_already_exists_is_no_conflict_of_versions() -> None:
    assert not issubclass(AlreadyExistsError, ConflictError)


async def test_an_html_page_is_quoted_in_part(client: KubeClient, server: ScriptedServer) -> None:
    server.on("GET", answer(503, b"<html>\n" + b"x" * 10_000, content_type="text/html"))
    with pytest.raises(ServerError, match="503 Because: <html> xxx") as caught:
        await client.get(POD)
    assert len(str(caught.value)) < 400
    assert caught.value.status == {}


@pytest.mark.parametrize("step", [reset_connection(), hang_up()], ids=["reset", "closed"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_whose_answer_is_lost_is_sent_once_and_reported(
    client: KubeClient, server: ScriptedServer, method: str, step: object
) -> None:
    made: list[str] = []
    server.on(method, answer(), after(lambda: made.append("object"), step), then=answer())
    await client.request(method, POD)
    # The second request goes over the kept connection, where the HTTP library would send it again by itself.
    with pytest.raises(TransportError):
        await client.request(method, POD, body=b"{}" if method != "GET" else None)
    assert len(made) == 1
    assert len(server.requests) == 2
    assert server.requests[0].connection == server.requests[1].connection


async def test_a_refused_connection_is_a_transport_error(client: KubeClient, server: ScriptedServer) -> None:
    await server.stop()
    with pytest.raises(
        TransportError, match=f"^GET {POD}: cannot connect to 127.0.0.1:{server.port}: Connection refused$"
    ):
        await client.get(POD)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"])
async def test_what_is_no_whole_answer_is_a_transport_error(
    client: KubeClient, server: ScriptedServer, sent: bytes
) -> None:
    async def step(connection: Connection) -> None:
        await connection.send(sent)
        if sent.startswith(b"HTTP"):
            connection.writer.close()

    server.on("GET", step)
    with pytest.raises(TransportError):
        await client.get(POD)


@pytest.mark.parametrize("step", [silence(), watch(b"{}", end="silence")], ids=["no answer", "half an answer"])
@in_virtual_time
async def test_a_silent_server_times_out(step: Step) -> None:
    async with a_server() as server, a_client(server) as client:
        server.on("PUT", step)
        started = server.clock()
        with pytest.raises(RequestTimeoutError, match=r"no answer within 20 s"):
            await client.request("PUT", POD, body=b"{}", timeout_seconds=20)
        assert server.clock() - started == pytest.approx(20, abs=0.1)


async def test_requests_share_one_connection(client: KubeClient, server: ScriptedServer) -> None:
    server.on("GET", then=answer())
    for _ in range(5):
        await client.get(POD)
    assert {request.connection for request in server.requests} == {1}


async def test_each_exchange_is_counted_with_its_code(server: ScriptedServer) -> None:
    seen: list[tuple[str, str, str]] = []

    class Counter:
        def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
            assert seconds >= 0
            seen.append((method, host, code))

    client = KubeClient(Endpoint(server.url), observer=Counter())
    server.on("GET", answer(), refusal(404, "NotFound"), reset_connection())
    await client.get(POD)
    for _ in range(2):
        with pytest.raises((NotFoundError, TransportError)):
            await client.get(POD)
    await client.close()
    host = f"127.0.0.1:{server.port}"
    assert seen == [("GET", host, "200"), ("GET", host, "404"), ("GET", host, "<error>")]


async def test_a_proxy_is_asked_for_the_whole_address(server: ScriptedServer) -> None:
    client = KubeClient(Endpoint("http://api.internal:8080", proxy=server.url))
    server.on("GET", answer())
    await client.get(POD)
    await client.close()
    assert server.requests[0].headers["host"] == "api.internal:8080"
    assert server.requests[0].path == POD


def test_paths_follow_the_api() -> None:
    assert resource_path("v1", "pods") == "/api/v1/pods"
    assert resource_path("v1", "pods", namespace="a", name="b") == "/api/v1/namespaces/a/pods/b"
    assert resource_path("g/v1", "things", name="a/../b") == "/apis/g/v1/things/a%2F..%2Fb"


async def test_a_path_without_a_leading_slash_is_refused(client: KubeClient) -> None:
    with pytest.raises(ValueError, match="path: expected it to start with '/', got 'api/v1'"):
        await client.get("api/v1")


async def test_a_write_is_given_the_time_that_slow_webhooks_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, float] = {}

    async def request(_client: KubeClient, method: str, _path: str, **options: Any) -> bytes:
        given[method] = options.get("timeout_seconds", REQUEST_TIMEOUT_SECONDS)
        return b""

    monkeypatch.setattr(KubeClient, "request", request)
    client = KubeClient(Endpoint("http://127.0.0.1:1"))
    await client.create(POD, b"{}")
    await client.replace(POD, b"{}")
    await client.patch(POD, b"{}")
    await client.delete(POD)
    await client.get(POD)
    # The API server ends any request after 60 s; it waits for a webhook for 30 s at most.
    assert given == {"POST": 60, "PUT": 60, "PATCH": 60, "DELETE": 60, "GET": 10}


async def test_every_request_and_watch_waits_for_the_throttle_but_one_that_passes_pauses(
    server: ScriptedServer, time: FakeTime
) -> None:
    server.on("GET", then=answer())
    server.on("PUT", then=answer())
    server.on("watch", then=watch())
    waited: list[int] = []

    async def throttle() -> None:
        waited.append(len(server.requests))

    client = KubeClient(Endpoint(server.url), throttle=throttle, clock=time.clock)
    await client.get(POD)
    await client.replace(POD, b"{}")
    assert [line async for line in client.stream(POD, {"watch": "true"})] == []
    await client.request("PUT", POD, flow_controlled=False)
    await client.close()
    assert waited == [0, 1, 2]
    assert len(server.requests) == 4


@in_virtual_time
async def test_the_wait_for_the_throttle_is_not_the_servers_silence() -> None:
    async def throttle() -> None:
        await asyncio.sleep(30)

    async with a_server() as server, a_client(server, throttle=throttle) as client:
        server.on("GET", then=answer())
        await client.request("GET", POD, timeout_seconds=25)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_that_waited_for_a_connection_is_not_sent_once_the_right_to_write_is_lost(
    server: ScriptedServer, method: str
) -> None:
    free, allowed = asyncio.Event(), True

    async def slow(connection: Connection) -> None:
        await free.wait()
        await answer()(connection)

    server.on("GET", then=slow)
    server.on(method, then=answer())
    client = KubeClient(Endpoint(server.url), max_connections=1, may_write=lambda: allowed)
    reading = asyncio.create_task(client.get(POD))
    async with asyncio.timeout(patience(5)):
        while not server.requests:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0.002)
    writing = asyncio.create_task(client.request(method, POD, body=b"{}"))
    await asyncio.sleep(0)
    allowed = False
    free.set()
    with pytest.raises(NotSentError, match=f"{method} {POD}: not sent"):
        await writing
    await reading
    # A read may be sent, and a write again when it may.
    await client.get(POD)
    allowed = True
    await client.request(method, POD, body=b"{}")
    await client.close()
    assert [request.method for request in server.requests] == ["GET", "GET", method]


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
async def test_the_right_to_write_is_asked_for_as_the_bytes_go_out(server: ScriptedServer, size: int) -> None:
    """This watches the HTTP library: whenever the right is lost, the request arrives whole or not at all."""
    server.on("PUT", then=answer())
    asked = 0

    def lost_at(question: int) -> bool:
        nonlocal asked
        asked += 1
        return asked < question

    for question in (1, 2):
        asked = 0
        client = KubeClient(Endpoint(server.url), may_write=lambda question=question: lost_at(question))
        with pytest.raises(NotSentError):
            await client.replace(POD, b"x" * size)
        await client.close()
    assert server.requests == []
    asked = 0
    client = KubeClient(Endpoint(server.url), may_write=lambda: lost_at(3))
    await client.replace(POD, b"x" * size)
    await client.close()
    assert [len(request.body) for request in server.requests] == [size]
    assert asked == 2
