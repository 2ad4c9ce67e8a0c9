"""`why`: gathers the evidence and writes one page."""

from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands.reading import look_up, pods_and_events
from frameworkclient.cli.options import Format
from frameworkclient.cli.output import write, write_document
from frameworkclient.cli.terminal import program
from frameworkclient.diagnosis.evidence import Evidence
from frameworkclient.diagnosis.framework import findings, summary
from frameworkclient.errors import ClientError
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import Stage, TaskPod
from frameworkclient.views.text import sanitize
from frameworkcontroller.api.workload import KUEUE_API, WORKLOAD_DECODER, WORKLOADS, Workload
from frameworkkube.errors import ApiStatusError, KubeError
from frameworkkube.paths import resource_path

ASKED_BARRIERS: Final = 3
"""They all wait for the same Tasks."""
VISIBILITY_API: Final = "visibility.kueue.x-k8s.io/v1beta2"
ORDER_SECONDS: Final = 5.0
"""For the number in the queue, without which the page is complete."""


async def why(client: AsyncClient, name: str, output: Format) -> None:
    """Write why a Framework does not run, and what to do; what the user may not read is left out with a line about it.

    Raises:
        ClientError: There is no such Framework.
    """
    seen = await look_up(client, name)
    view, is_gone = seen.view, seen.archive is not None
    pods, events = await pods_and_events(client, seen)
    logs = await _barrier_logs(client, name, pods)
    queue = ("", None) if is_gone else await _queue(client, view)
    evidence = Evidence(view, pods, events, seen.time, logs, *queue, program=program(), is_gone=is_gone)
    found = findings(evidence)
    if output in {Format.JSON, Format.YAML}:
        document = {
            "framework": f"{view.namespace}/{view.name}",
            "findings": [{"tasks": list(one.tasks), "what": one.what, "todo": one.todo} for one in found],
        }
        write_document(document, output)
        return
    write(sanitize(summary(evidence, found)) + "\n")
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


async def _queue(client: AsyncClient, view: FrameworkView) -> tuple[Workload | str, int | None]:
    """Return the Workload of a Framework that waits, or why it cannot be read, and its number in its LocalQueue."""
    queue = view.status.queue if view.status is not None else None
    if not queue or not queue.waiting:
        return "", None
    path = resource_path(KUEUE_API, WORKLOADS, namespace=view.namespace, name=queue.workload)
    try:
        workload = WORKLOAD_DECODER.decode(await client.kube.get(path))
    except (ApiStatusError, msgspec.MsgspecError) as error:
        return str(error), None
    path = resource_path(VISIBILITY_API, "localqueues", namespace=view.namespace, name=queue.name) + "/pendingworkloads"
    # Kueue may be without this API, or the user without the permission.
    with suppress(KubeError, msgspec.MsgspecError, LookupError, TypeError):
        waiting = msgspec.json.decode(await client.kube.request("GET", path, timeout_seconds=ORDER_SECONDS))["items"]
        numbers = {one["metadata"]["name"]: one["positionInLocalQueue"] + 1 for one in waiting}
        return workload, numbers[queue.workload]
    return workload, None
