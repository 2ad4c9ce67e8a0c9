import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.barrier.process import Barrier
from tests.barrier.source.faulty_server import FaultyServer, Script, Serve


def serve_with(tls: ssl.SSLContext | None, request: pytest.FixtureRequest) -> Serve:
    def start(script: Script) -> FaultyServer:
        server = FaultyServer(script, tls)
        request.addfinalizer(server.close)
        return server

    return start


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Serve:
    """Start servers that follow a script; they end with the test."""
    return serve_with(None, request)


@pytest.fixture
def token_dir(tmp_path: Path) -> Path:
    """A service account's folder with token `first`, namespace `lab` and the CA of `serve_tls`."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text("lab")
    return folder


@pytest.fixture
def serve_tls(request: pytest.FixtureRequest, token_dir: Path) -> Serve:
    """The same with TLS; the CA lies in `token_dir`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(token_dir / "ca.crt"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return serve_with(context, request)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shared volume."""
    path = tmp_path / "frameworkbarrier"
    path.mkdir()
    return path


@pytest.fixture
def start(folder: Path, request: pytest.FixtureRequest) -> Callable[..., Barrier]:
    """Start the barrier with an API server's address, an environment and flags; it ends with the test."""

    def run(address: str, environ: dict[str, str], *flags: str) -> Barrier:
        barrier = Barrier(folder, address, environ, *flags)
        request.addfinalizer(barrier.stop)
        return barrier

    return run
