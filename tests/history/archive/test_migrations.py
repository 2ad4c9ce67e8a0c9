import contextlib
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import NoSuchModuleError

from frameworkhistory.archive import tables
from frameworkhistory.archive.database import Database, NewerSchemaError
from frameworkhistory.archive.tables import METADATA
from frameworkhistory.archive.writer import Writer
from tests.history.archive.made import changes, is_killed, log, stored
from tests.support.postgres import Postgres


def _of_sqlite(url: str) -> str:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        lines = connection.execute("SELECT sql FROM sqlite_master WHERE tbl_name != 'alembic_version' ORDER BY name")
        return "\n".join(" ".join(str(line).split()) for (line,) in lines)


def _of_tables(url: str) -> None:
    with contextlib.closing(Database(url)) as database:
        METADATA.create_all(database.engine)


def _migrated(url: str) -> None:
    for _ in range(2):
        with contextlib.closing(Database(url)) as database:
            database.open()
            database.open()


def test_the_versions_make_the_tables_of_the_program_in_sqlite(tmp_path_factory: pytest.TempPathFactory) -> None:
    schemas = []
    for create in (_migrated, _of_tables):
        url = f"sqlite:///{tmp_path_factory.mktemp('schema')}/archive.db"
        create(url)
        schemas.append(_of_sqlite(url))
    assert schemas[0] == schemas[1]
    assert "frameworks_created" in schemas[0]
    for table in (tables.FRAMEWORKS, tables.ATTEMPTS, tables.DAYS):
        assert set(tables.SPENT) < set(table.c.keys()), "what a ledger knows has a column"


def test_the_versions_make_the_tables_of_the_program_in_postgresql(server: Postgres) -> None:
    schemas = []
    for create in (_migrated, _of_tables):
        url = server.database()
        create(url)
        with contextlib.closing(Database(url)) as database, database.engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS alembic_version"))
        schemas.append(server.schema(url))
    assert schemas[0] == schemas[1]
    assert "frameworks_created" in schemas[0]


def test_of_logs_that_were_kept_before_it_is_not_known_what_their_objects_fill(database: Database) -> None:
    kept = changes()
    kept.logs = [log("pod", packed=7)]
    Writer(database.engine).apply([kept])
    with database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE logs DROP COLUMN packed"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    database.open()
    assert [row["packed"] for row in stored(database.engine)["logs"]] == [None]


def test_tables_of_a_newer_program_are_refused_as_they_are(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerSchemaError, match=r"version 9999, .* knows \d{4} at most: run .* a newer one"):
        database.open()
    with database.engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"


def test_a_program_that_is_killed_while_it_creates_the_tables_leaves_none(url: str) -> None:
    assert is_killed(url, lambda statement: "CREATE TABLE runs" in statement, Database.open)
    with contextlib.closing(Database(url)) as database:
        assert inspect(database.engine).get_table_names() == []
        database.open()
        assert set(METADATA.tables) < set(inspect(database.engine).get_table_names())


def test_a_database_of_another_kind_is_named() -> None:
    with pytest.raises(NoSuchModuleError, match="postgres"):
        Database("postgres://host/archive")


def test_what_sqlite_has_written_is_on_the_disk(tmp_path: Path) -> None:
    with contextlib.closing(Database(f"sqlite:///{tmp_path}/archive.db")) as database, database.engine.connect() as one:
        assert one.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert one.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
