"""The database: how it is opened, brought to the newest tables, and written to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url

_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x66_72_61_6D_65  # of PostgreSQL, for migrations
_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "sqlite": {"timeout": 10},  # seconds to wait for another writer
    "postgresql": {"connect_timeout": 10, "tcp_user_timeout": 30_000},
}
# What is written is on the disk: a finalizer is removed for it, and a node may lose its power.
_PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16384")


class NewerSchemaError(Exception):
    """A newer program has changed the tables in a way that this one does not know."""


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Run a block in one transaction, for which SQLite waits at its begin, not in the middle."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


class Database:
    """A database by its SQLAlchemy URL: `sqlite:///FILE`, or `postgresql+psycopg://USER:PASSWORD@HOST/NAME`.

    Where it is away, locked or full, what uses it raises `sqlalchemy.exc.DBAPIError`, and works again once it is back.
    """

    def __init__(self, url: str) -> None:
        place = make_url(url)
        options = _OPTIONS[place.get_dialect().name]
        options = {key: value for key, value in options.items() if key not in place.query}
        # An error that is logged must not carry the values of a statement, which may be megabytes.
        self.engine = create_engine(place, connect_args=options, pool_pre_ping=True, hide_parameters=True)
        if self.engine.dialect.name == "sqlite":

            @event.listens_for(self.engine, "connect")
            def after(connection: Any, _record: object) -> None:
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}").close()

    def open(self) -> None:
        """Bring the tables to the newest version, in one transaction, one program at a time.

        Raises:
            NewerSchemaError: They have one that this program does not know.
        """
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
        with writing(self.engine) as connection:
            if self.engine.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            stored = MigrationContext.configure(connection).get_current_revision()
            if stored not in (None, *known):
                raise NewerSchemaError(
                    f"the database has the tables of version {stored}, and this frameworkhistory knows {known[0]}"
                    " at most: run the frameworkhistory that was here, or a newer one"
                )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
