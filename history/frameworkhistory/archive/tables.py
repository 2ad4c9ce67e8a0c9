"""The tables of the archive, as the newest version says them.

Times are seconds since 1970 in UTC. Documents are JSON, compressed by zlib. What is not known is NULL, and a `gap` says
in a sentence what of a row could not be seen. Everything goes with its Framework, but for what is counted by days.
"""

from typing import Final

from frameworkcontroller.api.states import LedgerState
from frameworkhistory.archive.migrations.versions import v0003 as newest
from frameworkhistory.archive.notation import metadata

METADATA: Final = metadata(newest.TABLES, newest.INDICES)
DAY: Final = 86_400
"""Seconds."""
SPENT: Final = (*LedgerState, "lost")
"""The columns of a ledger: seconds by what they were spent on, and those that a failure has made void."""

FRAMEWORKS: Final = METADATA.tables["frameworks"]
"""One row for each Framework instance; `document` is the newest state without its Tasks.

How an attempt has ended, are its `code`, its `phrase`, its `result`, Succeeded or Failed, what is known of that as
`attributes`, and `diagnostics` with the reason.
"""
WHOLES: Final = METADATA.tables["wholes"]
"""The newest state with all its Tasks, written at the end of attempts, at the end, and now and then."""
LABELS: Final = METADATA.tables["labels"]
"""`created` is that of the Framework: a search by a label finds the newest first."""
SPECS: Final = METADATA.tables["specs"]
ATTEMPTS: Final = METADATA.tables["attempts"]
"""Attempts of Frameworks, from 0; `trigger` is the Task that has decided the end, `roster` the last one."""
EPOCHS: Final = METADATA.tables["epochs"]
"""Restarts of a gang in its Pods: when the epoch began, and why the one before it has ended."""
RUNS: Final = METADATA.tables["runs"]
"""Attempts of Tasks, from 0; `containers` is JSON of how they have ended."""
SPANS: Final = METADATA.tables["spans"]
"""What a Framework spent its time on (`LedgerState`), from when to when."""
EVENTS: Final = METADATA.tables["events"]
LOGS: Final = METADATA.tables["logs"]
"""The log of one run of a container: where it is stored ("": it is not, and `gap` says why), its plain bytes, and those
that its object fills, `packed`.
"""
DAYS: Final = METADATA.tables["days"]
"""What the attempts have spent that ended on a day, counted since 1970 in UTC: seconds times Tasks.

The writer counts here, so that statistics need not look at each attempt.
"""
FAILURES: Final = METADATA.tables["failures"]
"""How many attempts of Frameworks (`node` is "") and of Tasks on nodes have failed on a day, by why; 0: no code."""
GAPS: Final = METADATA.tables["gaps"]
"""Times in which nothing was followed."""
MARKS: Final = METADATA.tables["marks"]
"""What the archive remembers of itself, such as when it was last at work."""
