"""The first tables."""

from typing import Final

from alembic import op

from frameworkhistory.archive.notation import metadata

revision = "0001"
down_revision = None

_END: Final = "code?:int phrase?:256 result?:16 attributes?:256 diagnostics?:text"
_STATES: Final = "queued waiting scheduling starting gate running hung restarting ending backoff"
_SPENT: Final = " ".join(f"{state}=:double" for state in _STATES.split()) + " lost?=:double"
TABLES: Final = {
    "frameworks": f"""id!:id uid^:64 namespace:63 name:253 person=:253 created:double completed?:double
        deleted?:double seen:double version:64 generation=:big state=:32 attempts=:int restarts=:int tasks=:int
        gpus=:int ready=:32 {_END} {_SPENT} gap=:text document:document""",
    "wholes": "framework!:framework document:document",
    "labels": "framework!:framework key!:317 value:63 created:double",
    "specs": "framework!:framework generation!:big seen:double document:document",
    "attempts": f"""framework!:framework attempt!:int generation=:big namespace:63 started?:double ran?:double
        ended?:double trigger=:128 tasks=:int gpus=:int restarts=:int {_END} {_SPENT} roster?:document gap=:text""",
    "epochs": """framework!:framework attempt!:int epoch!:int began?:double reason=:32 task=:128 code?:int
        message=:text gap=:text""",
    "runs": f"""framework!:framework attempt!:int role!:63 index!:int run!:int namespace:63 state=:32 pod=:253
        pod_uid=:64 node=:253 ip=:64 started?:double ran?:double ended?:double {_END} containers=:text gap=:text""",
    "spans": "framework!:framework began!:double attempt:int state:16 ended?:double",
    "events": """framework!:framework uid!:64 first:double last:double count=:int type=:16 reason=:128 message=:text
        object=:317""",
    "logs": """framework!:framework pod_uid!:64 container!:63 restart!:int attempt:int role:63 index:int run:int
        epoch=:int key=:512 bytes=:big is_whole=:boolean taken:double gap=:text""",
    "days": f"day!:int namespace!:63 attempts:big failed:big {_SPENT.replace('?', '')}",
    "failures": "day!:int node!:253 namespace!:63 phrase!:256 code!:int count:big",
    "gaps": "id!:id began:double ended:double what:text",
    "marks": "key!:64 value:text",
}
# In the order of a page; what follows `id` is looked at where it stands, without the row.
INDICES: Final = {
    "frameworks_created": "created id name",
    "frameworks_namespace": "namespace created id state result",
    "frameworks_name": "name namespace created id",
    "frameworks_person": "person created id namespace state result",
    "frameworks_state": "state created id result",
    "frameworks_result": "result created id",
    "frameworks_deleted": "deleted",
    "labels_value": "key value created framework",
    "logs_task": "framework attempt role index",
}


def upgrade() -> None:
    """Create all tables."""
    metadata(TABLES, INDICES).create_all(op.get_bind(), checkfirst=False)
