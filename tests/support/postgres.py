"""A PostgreSQL of Debian's package, in a temporary folder, on a Unix socket alone."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from localcluster import packages

_USER = "postgres"  # whom the package has made: root may not run it


class Postgres:
    """A server that listens in a folder. What it stores is lost with the machine, since it never waits for the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = max(Path("/usr/lib/postgresql").iterdir(), key=lambda path: float(path.name)) / "bin"
        self._names = count()
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", f"--username={_USER}")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off -c max_wal_size=4GB"
        self._run("pg_ctl", "start", "--wait", f"--log={self._folder}/log", f"--options={options}")

    def stop(self) -> None:
        """Stop it at once: connections break."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def database(self) -> str:
        """Create a database, and return its URL for SQLAlchemy."""
        name = f"test{next(self._names)}"
        with psycopg.connect(host=str(self._folder), user=_USER, dbname=_USER, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{_USER}@/{name}?host={self._folder}"

    def schema(self, url: str) -> str:
        """Return the statements that create the tables of a database, without psql's own commands."""
        text = self._run("pg_dump", "--schema-only", f"--host={self._folder}", str(make_url(url).database))
        return "\n".join(line for line in text.splitlines() if not line.startswith("\\"))

    def _run(self, program: str, *arguments: str) -> str:
        """Run one of its programs on its data, without an output that it would leave to the server."""
        user = {"user": _USER, "group": _USER, "extra_groups": []} if os.geteuid() == 0 else {}
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self._programs / program, *arguments],
                cwd=self._folder,
                env={"PGDATA": f"{self._folder}/data", "PGUSER": _USER, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **user,  # type: ignore[call-overload]  # its overloads do not know
            )
            output.seek(0)
            text = output.read()
        assert done.returncode == 0, f"{program}: {text}"
        return text


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server until the block ends."""
    packages.require(("postgres",))
    # Not below the folder of pytest, which others than its owner cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _USER, _USER)
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
