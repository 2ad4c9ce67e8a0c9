"""A database of each kind, for each test anew."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworkhistory.archive.database import Database
from tests.support.postgres import Postgres, postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL for all tests of a process."""
    with postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    server: Postgres = request.getfixturevalue("server")
    return server.database()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database with its tables."""
    with contextlib.closing(Database(url)) as opened:
        opened.open()
        yield opened
