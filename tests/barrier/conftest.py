import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tests.barrier.faulty_server import FaultyServer, Script
from tests.barrier.process import Barrier


def servers(tls: ssl.SSLContext | None = None) -> Iterator[Callable[[Script], FaultyServer]]:
    made: list[FaultyServer] = []

    def start(script: Script) -> FaultyServer:
        made.append(FaultyServer(script, tls))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Script], FaultyServer]]:
    """Start servers that follow a script; they end with the test."""
    yield from servers()


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
    yield from servers(context)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shared volume."""
    path = tmp_path / "frameworkbarrier"
    path.mkdir()
    return path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Barrier]]:
    """Start the barrier with an API server's address, an environment and flags; it ends with the test."""
    started: list[Barrier] = []

    def run(address: str, environ: dict[str, str], *flags: str) -> Barrier:
        started.append(Barrier(folder, address, environ, *flags))
        return started[-1]

    yield run
    for barrier in started:
        barrier.stop()
