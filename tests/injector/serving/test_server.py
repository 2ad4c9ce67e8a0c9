"""The HTTPS server, called over real TLS on loopback: what it answers, and how it stops."""

import asyncio
import time
from typing import Any

import pytest

from frameworkinjector.review.review import Answer, answer
from testkit.waiting import patience
from tests.injector.loopback_server import WHOLE_REQUEST, read_until_closed
from tests.injector.reviews import CONFIG, small_review


async def test_a_review_is_answered(serve: Any) -> None:
    serving = await serve()
    status, body = await serving.review()
    assert (status, body["response"]["allowed"], body["response"]["patchType"]) == (200, True, "JSONPatch")
    assert serving.counted("injected") == 1


@pytest.mark.parametrize(
    ("reason", "status", "options"),
    [
        ("wrong-media-type", 415, {"headers": {"Content-Type": "text/plain"}}),
        ("wrong-media-type", 415, {"headers": {"Content-Type": "application/yaml"}}),
        ("wrong-media-type", 415, {"headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"}}),
        ("wrong-path", 404, {"path": "/"}),
        ("wrong-path", 404, {"path": "/mutate/../mutate2"}),
        ("not-a-review", 400, {"body": b""}),
        ("not-a-review", 400, {"body": b"{"}),
        ("not-a-review", 400, {"body": b"\xff\xfe{}"}),
        ("not-a-review", 400, {"body": b'{"apiVersion":"v1","kind":"List","request":{"uid":"1"}}'}),
        ("not-a-review", 400, {"body": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}'}),
        ("not-a-review", 400, {"body": small_review().replace(b'"uid": "1"', b'"uid": ""')}),
        ("not-a-review", 400, {"body": small_review().replace(b'"uid": "1"', b'"uid": 5')}),
        ("not-a-review", 400, {"body": small_review().replace(b'"demo"', b'"%s"' % (b"$" * 64))}),
        ("not-a-review", 400, {"body": b'{"request":' * 200_000}),
        ("not-a-review", 400, {"body": b"[" * 3_000_000}),
    ],
)
async def test_a_request_that_is_not_a_review_gets_a_4xx_with_the_sentence_and_the_next_one_is_served(
    serve: Any, reason: str, status: int, options: dict[str, Any]
) -> None:
    serving = await serve()
    body = options.pop("body", small_review())
    async with serving.session() as session:
        started = time.thread_time()
        found, decoded = await serving.post(session, body, **options)
        # Server and client run in this thread; quadratic time for three million characters would be hours.
        assert time.thread_time() - started < 10
        assert (found, decoded["reason"]) == (status, reason)
        assert decoded["error"].endswith(".")
        assert (await serving.post(session, small_review()))[0] == 200
    assert serving.counted(reason) == 1


async def test_a_body_of_almost_three_mebibytes_is_read(serve: Any) -> None:
    status, _ = await (await serve()).review(small_review(3 * 1024 * 1024 - 1000))
    assert status == 200


async def test_as_many_reviews_at_once_as_an_api_server_sends_are_all_answered(serve: Any) -> None:
    """An API server has at most 200 mutating requests in flight by default."""
    # Two hundred handshakes of both sides in one thread take seconds, and most connections wait for a place meanwhile.
    serving = await serve(handshake_seconds=patience(10), first_request_seconds=patience(20), body_seconds=patience(10))
    async with serving.session() as session:
        answers = await asyncio.gather(*(serving.post(session, small_review(size * 100)) for size in range(200)))
    assert {status for status, _ in answers} == {200}
    assert serving.counted("injected") == 200


async def test_a_reviewer_that_fails_costs_one_refusal(serve: Any) -> None:
    def failing(body: bytes) -> Answer:
        return answer(body, CONFIG, None)  # type: ignore[arg-type]

    serving = await serve(failing)
    status, body = await serving.review()
    assert (status, body["response"]["allowed"], body["response"]["status"]["code"]) == (200, False, 500)
    assert serving.counted("internal-error") == 1


async def test_stopping_lets_requests_end_and_closes_idle_connections(serve: Any) -> None:
    serving = await serve(first_request_seconds=60)
    idle_reader, _ = await serving.connect()
    reader, writer = await serving.connect()
    writer.write(WHOLE_REQUEST[:-50])
    await writer.drain()
    await asyncio.sleep(0.1)
    # The idle connection may bring a request for as long as that, so the test lasts as long.
    stopping = asyncio.create_task(serving.server.stop(2))
    await asyncio.sleep(0.2)
    writer.write(WHOLE_REQUEST[-50:])
    assert (await read_until_closed(reader)).startswith(b"HTTP/1.1 200 ")
    assert await read_until_closed(idle_reader) == b""
    await stopping
    with pytest.raises(ConnectionError):
        await serving.connect()


async def test_while_draining_each_answer_closes_its_connection(serve: Any) -> None:
    serving = await serve()
    serving.server.drain()
    received = await serving.exchange(WHOLE_REQUEST)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"Connection: close" in received
