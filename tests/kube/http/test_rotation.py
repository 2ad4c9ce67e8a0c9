"""Tokens and certificates change under a running client, which leaves no connection open when it is closed."""
# ruff: noqa: ASYNC240 -- the files are a few bytes long

import asyncio
import contextlib
import gc
import socket
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
from frameworkkube.http.rotation import RELOAD_EVERY_SECONDS, RotatingCredentials
from tests.kube.lab import Lab
from tests.kube.scripted import Connection, ScriptedServer, Step, a_client, answer, refusal, serving, watch

PATH = "/api/v1/pods"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


@pytest.fixture
async def client(server: ScriptedServer, token: Path) -> AsyncIterator[KubeClient]:
    async with a_client(server, {"token_file": token}) as made:
        yield made


def sent(lab: Lab) -> list[str]:
    """The tokens of all requests."""
    return [request.headers["authorization"].removeprefix("Bearer ") for request in lab.requests]


async def test_the_token_is_stripped_and_read_again_after_a_minute(lab: Lab, token: Path) -> None:
    lab.on("GET", then=answer())
    await lab.client.get(PATH)
    token.write_text("two")
    for seconds in (59, 1.1):
        await asyncio.sleep(seconds)
        await lab.client.get(PATH)
    assert sent(lab) == ["one", "one", "two"]


REFUSED = refusal(401, "Unauthorized")


@pytest.mark.parametrize("kind", ["POST", "watch"])
@pytest.mark.parametrize(
    ("then", "answers", "tokens"),
    [("two", [REFUSED, watch()], "one one two"), ("two", [REFUSED] * 2, "one one two"), ("one", [REFUSED], "one one")],
    ids=["it works", "it is refused, too", "it is the same"],
)
async def test_a_401_reads_the_token_at_once_and_tries_once_more_with_another(
    lab: Lab, token: Path, kind: str, then: str, answers: list[Step], tokens: str
) -> None:
    async def ask() -> object:
        if kind == "POST":
            return await lab.client.create(PATH, b"{}")
        return [line async for line in lab.client.stream(PATH, {"watch": "true"})]

    lab.on(kind, watch(), *answers)
    await ask()
    token.write_text(then)
    with pytest.raises(UnauthorizedError) if answers[-1] is REFUSED else contextlib.nullcontext():
        await ask()
    assert sent(lab) == tokens.split()
    assert len({request.body for request in lab.requests}) == 1


@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb", b"\xff\xfe", b"a b", None])
async def test_an_unusable_token_file_is_named_or_the_old_token_kept(
    lab: Lab, token: Path, content: bytes | None
) -> None:
    lab.on("GET", then=answer())
    for written, is_usable in ((content, False), (b"one", True), (content, True), (b"two", True)):
        token.unlink(missing_ok=True)
        if written is not None:
            token.write_bytes(written)
        await asyncio.sleep(61)
        named = pytest.raises(CredentialsError, match=r"token file .*token is empty or unreadable")
        with contextlib.nullcontext() if is_usable else named:
            await lab.client.get(PATH)
    assert sent(lab) == ["one", "one", "two"]


@pytest.mark.usefixtures("real_time")
async def test_a_burst_of_401_runs_the_plugin_once(lab: Lab) -> None:
    runs, now = 0, 0.0

    def reload() -> Endpoint:
        nonlocal runs
        runs += 1
        return replace(endpoint, authorization=f"Bearer {runs}")

    endpoint = Endpoint(lab.server.url, authorization="Bearer 0", reload=reload)

    async def only_the_first(connection: Connection) -> None:
        fresh = connection.request.headers["authorization"] == "Bearer 1"
        await (answer() if fresh else REFUSED)(connection)

    lab.on("GET", then=only_the_first)
    client = KubeClient(endpoint, clock=lambda: now)
    await asyncio.gather(*(client.get(PATH) for _ in range(30)))
    assert runs == 1
    lab.on("GET", then=REFUSED)
    for _ in range(50):
        with pytest.raises(UnauthorizedError):
            await client.get(PATH)
        now += 1
    await client.close()
    assert runs <= 6


async def test_what_a_plugin_says_after_its_request_was_given_up_is_used() -> None:
    """A plugin that needs longer than a request was run again and again, and none of its tokens was ever used."""
    may_end, runs = threading.Event(), 0

    def slow() -> Endpoint:
        nonlocal runs
        runs += 1
        may_end.wait()
        return replace(endpoint, authorization="Bearer 1")

    endpoint = Endpoint("http://127.0.0.1:1", authorization="Bearer 0", reload=slow)
    credentials = RotatingCredentials(endpoint, asyncio.get_running_loop().time)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(credentials.refused("Bearer 0"), 0.05)
        await asyncio.sleep(60)
    may_end.set()
    assert await credentials.refused("Bearer 0")
    assert (credentials.token.current(), runs) == ("Bearer 1", 1)


async def test_a_reload_without_credentials_keeps_the_old_ones_and_is_tried_again(lab: Lab) -> None:
    """After one failure of its plugin a client was anonymous for good: it then got 403, which loads nothing."""
    found = [None, "Bearer 1"]

    def load() -> Endpoint:
        return Endpoint(lab.server.url, authorization=found.pop(0))

    lab.on("GET", REFUSED, REFUSED, then=answer())
    async with a_client(lab.server, {"authorization": "Bearer 0", "reload": load}) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(PATH)
        await asyncio.sleep(RELOAD_EVERY_SECONDS)
        await client.get(PATH)
    assert sent(lab) == ["0", "0", "1"]


# --- TLS -------------------------------------------------------------------------------------------------------------


NAMES = ("127.0.0.1", "api.internal")


def written(authority: trustme.CA, file: Path) -> Path:
    authority.cert_pem.write_to_path(str(file))
    return file


async def test_a_rotated_ca_is_trusted_for_new_connections(https: ScriptedServer, tmp_path: Path) -> None:
    first, second, file = trustme.CA(), trustme.CA(), tmp_path / "ca.crt"
    await https.start(serving(first, *NAMES))
    async with a_client(https, {"ca_file": written(first, file)}) as client:
        await client.get(PATH)
        await https.stop()
        await https.start(serving(second, *NAMES))
        with pytest.raises(TransportError, match=r"(?i)certificate verify failed"):
            await client.get(PATH)
        written(second, file)
        # The first failure reads the CA again; no minute has to pass.
        with pytest.raises(TransportError):
            await client.get(PATH)
        await client.get(PATH)
        for unusable in ("garbage", ""):
            file.write_text(unusable)
            await asyncio.sleep(61)
            await client.get(PATH)


async def test_whom_to_trust_is_said_by_a_ca_and_a_name_or_not_at_all(https: ScriptedServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    await https.start(serving(authority, "api.internal"))
    trusting = {"ca_file": written(authority, tmp_path / "ca.crt"), "authorization": "Bearer secret"}
    name = {"tls_server_name": "api.internal"}
    for credentials, works in (
        (trusting, False),
        (trusting | name, True),
        ({"verify": False}, True),
        ({}, False),
        (trusting | name | {"ca_file": written(trustme.CA(), tmp_path / "other.crt")}, False),
    ):
        before = len(https.requests)
        async with a_client(https, credentials) as client:
            with contextlib.nullcontext() if works else pytest.raises(TransportError):
                await client.get(PATH)
        assert len(https.requests) - before == works, "who is not trusted gets no request, and so no token"


async def test_a_client_certificate_is_rotated_but_no_half_of_its_pair(https: ScriptedServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = serving(authority, *NAMES)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    await https.start(context)
    shown: list[str] = []

    async def who(connection: Connection) -> None:
        certificate = connection.writer.get_extra_info("peercert")
        shown.extend(value for kind, value in certificate["subjectAltName"])
        await answer()(connection)

    https.on("GET", then=who)
    files = {"client_certificate_file": tmp_path / "cert", "client_key_file": tmp_path / "key"}
    async with a_client(https, {"ca_file": written(authority, tmp_path / "ca"), **files}) as client:
        for name, half in (("one", False), ("two", True), ("three", False)):
            issued = authority.issue_cert(name)
            files["client_certificate_file"].write_bytes(issued.cert_chain_pems[0].bytes())
            if not half:
                files["client_key_file"].write_bytes(issued.private_key_pem.bytes())
            await asyncio.sleep(61)
            await client.get(PATH)
    assert shown == ["one", "one", "three"]


@pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
async def test_a_missing_or_empty_ca_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca").write_text(content)
    client = KubeClient(Endpoint("https://127.0.0.1:1", ca_file=tmp_path / "ca"))
    with pytest.raises(CredentialsError, match=r"TLS files of https://127.0.0.1:1: .*ca"):
        await client.get(PATH)
    await client.close()


def open_sockets(server: ScriptedServer) -> list[socket.socket]:
    """The sockets of this process that are connected to the server."""
    found = [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() != -1]
    return [one for one in found if one.family == socket.AF_INET and _peer(one) == server.port]


def _peer(one: socket.socket) -> int:
    try:
        return int(one.getpeername()[1])
    except OSError:  # it listens
        return 0


async def test_a_closed_client_leaves_none_of_its_connections_open(https: ScriptedServer) -> None:
    deaf: list[asyncio.Transport] = []

    async def last_answer(connection: Connection) -> None:
        """The connection is not used again, and the server never notices that the client ends TLS."""
        transport = connection.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        deaf.append(transport)
        await answer(Connection="close")(connection)

    await https.start(serving(trustme.CA(), *NAMES))
    client = KubeClient(Endpoint(https.url, verify=False))
    https.on("PUT", then=last_answer)
    https.on("watch", watch(b"{}", end="silence"))
    await asyncio.gather(*(client.replace(PATH, b"{}") for _ in range(10)))
    await client.get(PATH)
    lines = client.stream(PATH, {"watch": "true"})
    assert await anext(lines) == b"{}"
    assert len(open_sockets(https)) > 2, "that of the watch, one that is kept, and some that are not used again"
    await client.close()
    assert not open_sockets(https)
    await lines.aclose()
    for transport in deaf:
        transport.abort()
