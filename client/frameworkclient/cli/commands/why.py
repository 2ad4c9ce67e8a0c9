"""`why`: gathers the evidence and writes one page."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from frameworkclient.cli.commands.reading import pods_and_events
from frameworkclient.cli.options import Format
from frameworkclient.cli.output import write, write_document
from frameworkclient.cli.terminal import program
from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings, summary
from frameworkclient.errors import ClientError
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.pods import Stage
from frameworkclient.views.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frameworkclient.aio import AsyncClient
    from frameworkclient.views.pods import TaskPod

ASKED_BARRIERS: Final = 3
"""They all wait for the same Tasks."""


async def why(client: AsyncClient, name: str, output: Format) -> None:
    """Write why a Framework does not run, and what to do; what the user may not read is left out with a line about it.

    Raises:
        ClientError: There is no such Framework.
    """
    view = await client.get(name)
    pods, events = await pods_and_events(client, view)
    logs = await _barrier_logs(client, name, pods)
    evidence = Evidence(view, pods, events, datetime.now(UTC), barrier_logs=logs, program=program())
    found = findings(evidence)
    if output in {Format.JSON, Format.YAML}:
        document = {
            "framework": f"{view.namespace}/{view.name}",
            "findings": [{"tasks": list(one.tasks), "what": one.what, "todo": one.todo} for one in found],
        }
        write_document(document, output)
        return
    write(summary(evidence, found) + "\n")
    for one in found:
        write("\n" + "\n".join(sanitize(line) for line in str(one).splitlines()) + "\n")


async def _barrier_logs(client: AsyncClient, name: str, pods: Mapping[str, TaskPod]) -> dict[str, str]:
    """Return the last line of some barriers that wait."""
    waiting = [task for task, pod in pods.items() if pod.stage in {Stage.BARRIER, Stage.BARRIER_FAILED}]
    found = {}
    for task in waiting[:ASKED_BARRIERS]:
        batches = client.log_batches(name, LogSelection(task=task, barrier=True, tail=1))
        try:
            async with aclosing(batches):
                async for batch in batches:
                    found.update({line.source.task: line.text for line in batch.lines})
        except ClientError:
            # The page goes on without a log that cannot be read.
            continue
    return found
