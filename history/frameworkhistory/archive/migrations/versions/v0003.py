"""Logs have the bytes that their objects fill, NULL where they were stored before."""

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column

from frameworkhistory.archive.migrations.versions import v0002 as before

revision = "0003"
down_revision = before.revision

TABLES: Final = before.TABLES | {"logs": f"{before.TABLES['logs']} packed?:big"}
INDICES: Final = before.INDICES


def upgrade() -> None:
    """Add the column, which takes no time whatever is there."""
    op.add_column("logs", Column("packed", BigInteger))
