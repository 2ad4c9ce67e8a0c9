"""The index of a namespace has names, too: of how one begins, the newest are found without the rows."""

from typing import Final

from alembic import op

from frameworkhistory.archive.migrations.versions import v0001 as before

revision = "0002"
down_revision = before.revision

_OLD: Final = "frameworks_namespace"
_NEW: Final = "frameworks_namespace_name"
TABLES: Final = before.TABLES
INDICES: Final = {name: columns for name, columns in before.INDICES.items() if name != _OLD} | {
    _NEW: f"{before.INDICES[_OLD]} name"
}


def upgrade() -> None:
    """Make the index, and let that before go last: readers wait for nothing else."""
    op.create_index(_NEW, "frameworks", INDICES[_NEW].split())
    op.drop_index(_OLD, "frameworks")
