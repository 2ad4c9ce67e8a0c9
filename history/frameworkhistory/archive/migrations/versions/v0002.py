"""The index of a namespace has names, too: of how one begins, the newest are found without the rows."""

from typing import Final

from alembic import op

from frameworkhistory.archive.migrations.versions import v0001 as before

revision = "0002"
down_revision = before.revision

_NAME: Final = "frameworks_namespace"
TABLES: Final = before.TABLES
INDICES: Final = before.INDICES | {_NAME: f"{before.INDICES[_NAME]} name"}


def upgrade() -> None:
    """Make the index anew."""
    op.drop_index(_NAME, "frameworks")
    op.create_index(_NAME, "frameworks", INDICES[_NAME].split())
