"""Changes and rows for the tests of the archive."""

import os
import signal
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

from sqlalchemy import Engine, event

from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.tables import METADATA

DAY = 86_400.0


def changes(uid: str = "uid", *, version: int = 1, **columns: Any) -> Changes:
    """A Framework without parts."""
    row: Row = {"namespace": "team", "name": uid, "created": 1.0, "seen": 2.0, "document": b"{}", **columns}
    return Changes(uid, row["namespace"], framework={"version": str(version), **row})


def attempt(number: int = 0, **columns: Any) -> Row:
    """An attempt of a Framework."""
    return {"attempt": number, "namespace": "team", "tasks": 2, **columns}


def run(index: int = 0, **columns: Any) -> Row:
    """An attempt of a Task."""
    return {"attempt": 0, "role": "worker", "index": index, "run": 0, "namespace": "team", **columns}


def log(pod_uid: str, **columns: Any) -> Row:
    """The log of a container."""
    task = {"attempt": 0, "role": "worker", "index": 0, "run": 0}
    return {
        "pod_uid": pod_uid,
        "container": "main",
        "restart": 0,
        **task,
        "key": f"logs/{pod_uid}",
        "taken": 1.0,
        **columns,
    }


def stored(engine: Engine) -> dict[str, list[Row]]:
    """All rows of all tables that have some, in the order of their keys."""
    with engine.connect() as connection:
        rows = {
            table.name: [
                dict(row) for row in connection.execute(table.select().order_by(*table.primary_key)).mappings()
            ]
            for table in METADATA.sorted_tables
        }
    return {name: found for name, found in rows.items() if found}


def is_killed(url: str, after: Callable[[str], bool], work: Callable[[Database], None]) -> bool:
    """Work in another process, which kills itself after a statement; return False if none was that one."""
    process = os.fork()
    if process == 0:
        try:
            with closing(Database(url)) as database:

                @event.listens_for(database.engine, "after_cursor_execute")
                def look(_connection: object, _cursor: object, statement: str, *_: object) -> None:
                    if after(statement):
                        os.kill(os.getpid(), signal.SIGKILL)

                work(database)
            os._exit(0)
        except BaseException:  # noqa: BLE001 -- nothing may leave this process for the tests
            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0
