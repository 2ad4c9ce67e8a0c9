import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tests.barrier.faulty_server import FaultyServer, Script


@pytest.fixture
def serve() -> Iterator[Callable[[Script], FaultyServer]]:
    """Start servers that follow a script; they end with the test."""
    servers: list[FaultyServer] = []

    def start(script: Script) -> FaultyServer:
        servers.append(FaultyServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def token_dir(tmp_path: Path) -> Path:
    """A service account's folder with token `first`, namespace `lab` and the CA of `serve_tls`."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text("lab")
    return folder


@pytest.fixture
def serve_tls(token_dir: Path) -> Iterator[Callable[[Script], FaultyServer]]:
    """The same with TLS; the CA lies in `token_dir`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(token_dir / "ca.crt"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    servers: list[FaultyServer] = []

    def start(script: Script) -> FaultyServer:
        servers.append(FaultyServer(script, context))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shared volume."""
    path = tmp_path / "frameworkbarrier"
    path.mkdir()
    return path
