"""Tokens and certificates change under a running client."""
# ruff: noqa: ASYNC240 -- the files are a few bytes long

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from frameworkkube.errors import CredentialsError, TransportError, UnauthorizedError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.http.rotation import RotatingCredentials
from tests.kube.faketime import FakeTime
from tests.kube.scripted import Connection, ScriptedServer, answer, refusal

PATH = "/api/v1/pods"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


@pytest.fixture
async def client(server: ScriptedServer, time: FakeTime, token: Path) -> AsyncIterator[KubeClient]:
    made = KubeClient(Endpoint(server.url, token_file=token), clock=time.clock)
    yield made
    await made.close()


def sent(server: ScriptedServer) -> list[str]:
    return [request.headers.get("authorization", "") for request in server.requests]


async def test_the_token_is_stripped_and_read_again_after_a_minute(
    client: KubeClient, server: ScriptedServer, time: FakeTime, token: Path
) -> None:
    server.on("GET", then=answer())
    await client.get(PATH)
    token.write_text("two")
    time.now += 59
    await client.get(PATH)
    time.now += 1
    await client.get(PATH)
    assert sent(server) == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_401_reads_the_token_at_once_and_tries_once_more(
    client: KubeClient, server: ScriptedServer, token: Path
) -> None:
    server.on("POST", answer(201), refusal(401, "Unauthorized"), answer(201))
    await client.create(PATH, b"{}")
    token.write_text("two")
    await client.create(PATH, b"{}")
    assert sent(server) == ["Bearer one", "Bearer one", "Bearer two"]
    assert [request.body for request in server.requests] == [b"{}"] * 3


async def test_a_401_with_the_same_token_is_not_repeated(client: KubeClient, server: ScriptedServer) -> None:
    server.on("GET", then=refusal(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        await client.get(PATH)
    assert len(server.requests) == 1


async def test_a_second_401_is_the_callers(client: KubeClient, server: ScriptedServer, token: Path) -> None:
    server.on("GET", answer(), then=refusal(401, "Unauthorized"))
    await client.get(PATH)
    token.write_text("two")
    with pytest.raises(UnauthorizedError):
        await client.get(PATH)
    assert len(server.requests) == 3


@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb", b"\xff\xfe", b"a b"])
async def test_an_unusable_token_file_keeps_the_old_token(
    client: KubeClient, server: ScriptedServer, time: FakeTime, token: Path, content: bytes
) -> None:
    server.on("GET", then=answer())
    await client.get(PATH)
    token.write_bytes(content)
    time.now += 61
    await client.get(PATH)
    token.unlink()
    time.now += 61
    await client.get(PATH)
    token.write_text("two")
    time.now += 61
    await client.get(PATH)
    assert sent(server) == ["Bearer one", "Bearer one", "Bearer one", "Bearer two"]


async def test_a_token_file_that_was_never_usable_is_named_and_recovers(
    client: KubeClient, server: ScriptedServer, token: Path
) -> None:
    server.on("GET", then=answer())
    token.write_text("")
    with pytest.raises(CredentialsError, match=r"token file .*token is empty or unreadable"):
        await client.get(PATH)
    token.write_text("three")
    await client.get(PATH)
    assert sent(server) == ["Bearer three"]


async def test_a_burst_of_401_runs_the_plugin_once(server: ScriptedServer, time: FakeTime) -> None:
    runs: list[float] = []

    def reload() -> Endpoint:
        runs.append(time.now)
        return replace(endpoint, authorization=f"Bearer {len(runs)}")

    endpoint = Endpoint(server.url, authorization="Bearer 0", reload=reload)

    async def only_the_first(connection: Connection) -> None:
        fresh = connection.request.headers["authorization"] == "Bearer 1"
        await (answer() if fresh else refusal(401, "Unauthorized"))(connection)

    server.on("GET", then=only_the_first)
    client = KubeClient(endpoint, clock=time.clock)
    await asyncio.gather(*(client.get(PATH) for _ in range(30)))
    assert len(runs) == 1
    server.on("GET", then=refusal(401, "Unauthorized"))
    for _ in range(50):
        with pytest.raises(UnauthorizedError):
            await client.get(PATH)
        time.now += 1
    await client.close()
    assert len(runs) <= 6


async def test_what_a_plugin_says_after_its_request_was_given_up_is_used(time: FakeTime) -> None:
    """A plugin that needs longer than a request was run again and again, and none of its tokens was ever used."""
    may_end, runs = threading.Event(), 0

    def slow() -> Endpoint:
        nonlocal runs
        runs += 1
        may_end.wait()
        return replace(endpoint, authorization="Bearer 1")

    endpoint = Endpoint("http://127.0.0.1:1", authorization="Bearer 0", reload=slow)
    credentials = RotatingCredentials(endpoint, time.clock)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(credentials.refused("Bearer 0"), 0.05)
        time.now += 60
    may_end.set()
    assert await credentials.refused("Bearer 0")
    assert (credentials.authorization(), runs) == ("Bearer 1", 1)


# --- TLS ----------------------------------------------------------------


def serving(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "api.internal").configure_cert(context)
    return context


@pytest.fixture
async def https(time: FakeTime) -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer(time.clock)
    made.on("GET", then=answer())
    yield made
    await made.stop()


async def test_a_rotated_ca_is_trusted_for_new_connections(
    https: ScriptedServer, time: FakeTime, tmp_path: Path
) -> None:
    first, second = trustme.CA(), trustme.CA()
    await https.start(serving(first))
    file = tmp_path / "ca.crt"
    first.cert_pem.write_to_path(str(file))
    client = KubeClient(Endpoint(https.url, ca_file=file), clock=time.clock)
    await client.get(PATH)

    await https.stop()
    await https.start(serving(second))
    with pytest.raises(TransportError, match=r"(?i)certificate verify failed"):
        await client.get(PATH)
    second.cert_pem.write_to_path(str(file))
    # The first failure reads the CA again; no minute has to pass.
    with pytest.raises(TransportError):
        await client.get(PATH)
    await client.get(PATH)

    file.write_text("garbage")
    time.now += 61
    await client.get(PATH)
    file.write_text("")
    time.now += 61
    await client.get(PATH)
    await client.close()


async def test_a_server_with_another_ca_gets_no_token(https: ScriptedServer, tmp_path: Path) -> None:
    await https.start(serving(trustme.CA()))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    client = KubeClient(Endpoint(https.url, ca_file=tmp_path / "ca.crt", authorization="Bearer secret"))
    with pytest.raises(TransportError):
        await client.get(PATH)
    await client.close()
    assert https.requests == []


async def test_the_certificate_may_be_for_another_name_or_go_unverified(https: ScriptedServer, tmp_path: Path) -> None:
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("api.internal").configure_cert(context)
    await https.start(context)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    trusting = Endpoint(https.url, ca_file=tmp_path / "ca.crt")
    for endpoint, works in (
        (trusting, False),
        (replace(trusting, tls_server_name="api.internal"), True),
        (Endpoint(https.url, verify=False), True),
        (Endpoint(https.url), False),
    ):
        client = KubeClient(endpoint)
        if works:
            await client.get(PATH)
        else:
            with pytest.raises(TransportError):
                await client.get(PATH)
        await client.close()


async def test_a_rotated_client_certificate_is_presented_and_a_half_rotated_pair_is_not_used(
    https: ScriptedServer, time: FakeTime, tmp_path: Path
) -> None:
    ca = trustme.CA()
    context = serving(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    await https.start(context)
    shown: list[str] = []

    async def who(connection: Connection) -> None:
        certificate = connection.writer.get_extra_info("peercert")
        shown.extend(value for kind, value in certificate["subjectAltName"])
        await answer()(connection)

    https.on("GET", then=who)
    ca.cert_pem.write_to_path(str(tmp_path / "ca"))
    cert, key = tmp_path / "cert", tmp_path / "key"

    def rotate(name: str, *, half: bool = False) -> None:
        issued = ca.issue_cert(name)
        cert.write_bytes(issued.cert_chain_pems[0].bytes())
        if not half:
            key.write_bytes(issued.private_key_pem.bytes())

    rotate("one")
    client = KubeClient(
        Endpoint(https.url, ca_file=tmp_path / "ca", client_certificate_file=cert, client_key_file=key),
        clock=time.clock,
    )
    for name, half in (("one", False), ("two", True), ("three", False)):
        rotate(name, half=half)
        time.now += 61
        await client.get(PATH)
    await client.close()
    assert shown == ["one", "one", "three"]


async def test_a_missing_or_empty_ca_is_named(time: FakeTime, tmp_path: Path) -> None:
    for content in (None, ""):
        if content is not None:
            (tmp_path / "ca").write_text(content)
        client = KubeClient(Endpoint("https://127.0.0.1:1", ca_file=tmp_path / "ca"))
        with pytest.raises(CredentialsError, match=r"TLS files of https://127.0.0.1:1: .*ca"):
            await client.get(PATH)
        await client.close()
