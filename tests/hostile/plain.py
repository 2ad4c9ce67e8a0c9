"""A plain client that makes the Pods of hostile Frameworks without one: `python -m tests.hostile.plain KUBECONFIG`.

The standard input is a JSON object: `namespace`, and `pods` as `Kind.pods` has them. The client watches its Pods, as
each must that acts on their ends, and the Frameworks, as each must that acts on edits. A Pod that has ended is deleted
and made again, without a pause, and so is one that others delete; one that is refused for good is asked for once. It
runs until it is killed.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.engine.workers import DEFAULT_SLOTS
from frameworkkube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError
from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST, KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from frameworkkube.paths import resource_path
from localcluster.client import Json
from tests.hostile.kinds import SCALE_SECONDS

LOOK_SECONDS = 0.1
ENDED = {"Succeeded", "Failed"}
PAGE = 100
KEPT = "kube-root-ca.crt"
"""The ConfigMap that each namespace has."""


def pod_of(template: Json, name: str, index: int) -> bytes:
    """Return a Pod as large as the controller's: with as many annotations and variables, and without its labels."""
    mark = f"{{{{{names.TASK_INDEX}}}}}".encode()
    pod = msgspec.json.decode(msgspec.json.encode(template).replace(mark, str(index).encode()))
    values = dict.fromkeys(names.POD_ANNOTATIONS, "x" * 36)
    more = {names.POD_UID: "x" * 36, names.TASK_ATTEMPT_INSTANCE_UID: "x" * 36}
    env = [{"name": key, "value": value} for key, value in (values | more).items()]
    meta = pod.setdefault("metadata", {})
    meta |= {"name": name, "annotations": meta.get("annotations", {}) | values}
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        container["env"] = env
    return msgspec.json.encode(pod | {"apiVersion": "v1", "kind": "Pod"})


class _Event(msgspec.Struct):
    type: str
    object: Pod


_EVENT = msgspec.json.Decoder(_Event)


class Plain:
    """The client, which does the work that the module tells of."""

    def __init__(self, client: KubeClient, work: Json) -> None:
        self._client, self._groups = client, work["pods"]
        self._pods = resource_path("v1", "pods", namespace=work["namespace"])
        self._frameworks = resource_path(names.API_VERSION, names.PLURAL, namespace=work["namespace"])
        # As many requests at a time as the controller sends.
        self._slots = asyncio.Semaphore(DEFAULT_SLOTS)
        self._prefixes = tuple(f"{group['prefix']}-" for group in self._groups)
        """Of the names of its Pods: others are the tenant's."""
        self._made = set[str]()
        """The Pods that are there or refused for good."""
        self._busy = set[str]()
        self._ended: dict[str, str] = {}
        """The UIDs of the Pods that have ended, by name."""

    async def run(self) -> None:
        """Make the Pods, and make again what has ended."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._read_frameworks())
            while True:
                wanted = self._wanted(int((time.monotonic() - begun) / SCALE_SECONDS))
                steps = [(name, self._delete(name, uid)) for name, uid in self._ended.items()]
                steps += [(name, self._delete(name)) for name in self._made - wanted.keys()]
                steps += [(name, self._create(name, *wanted[name])) for name in wanted.keys() - self._made]
                for name, step in steps:
                    if name in self._busy:
                        step.close()
                    else:
                        self._busy.add(name)
                        group.create_task(self._do(name, step))
                await asyncio.sleep(LOOK_SECONDS)

    def _wanted(self, turn: int) -> dict[str, tuple[Json, int]]:
        """Return template and index of each Pod by its name."""
        return {
            f"{group['prefix']}-{index}": (group["template"], index)
            for group in self._groups
            for index in range(group["scales"][turn % len(group["scales"])])
        }

    async def _do(self, name: str, step: Coroutine[None, None, None]) -> None:
        async with self._slots:
            # What has failed is tried again after the next look.
            with contextlib.suppress(KubeError):
                await step
        self._busy.discard(name)

    async def _watch(self) -> None:
        """Learn which Pods have ended; without a version, a watch begins with those that are there."""
        while True:
            # A watch that cannot follow ends with an event that is no Pod.
            with contextlib.suppress(KubeError, msgspec.ValidationError):
                self._ended.clear()
                async for line in self._client.stream(self._pods, {"watch": "true"}):
                    event = _EVENT.decode(line)
                    meta = event.object.metadata
                    if not meta.name.startswith(self._prefixes):
                        continue
                    if event.type == "DELETED":
                        self._made.discard(meta.name)
                    elif event.type == "ADDED":
                        self._made.add(meta.name)
                    if event.type != "DELETED" and event.object.status.phase in ENDED:
                        self._ended[meta.name] = meta.uid
                    else:
                        self._ended.pop(meta.name, None)
            await asyncio.sleep(LOOK_SECONDS)

    async def _read_frameworks(self) -> None:
        """Read each change of a Framework, and do nothing with it."""
        while True:
            with contextlib.suppress(KubeError):
                async for _ in self._client.stream(self._frameworks, {"watch": "true"}):
                    pass
            await asyncio.sleep(LOOK_SECONDS)

    async def _delete(self, name: str, uid: str | None = None) -> None:
        path = f"{self._pods}/{name}"
        with contextlib.suppress(NotFoundError):
            # As the controller does: what runs has its time to end.
            await self._client.delete(path, uid=uid, accept=PARTIAL_METADATA)
        self._made.discard(name)

    async def _create(self, name: str, template: Json, index: int) -> None:
        with contextlib.suppress(InvalidError, ForbiddenError):
            await self._client.create(self._pods, pod_of(template, name, index), accept=PARTIAL_METADATA)
        self._made.add(name)


async def remove_all(kubeconfig: Path, paths: list[str], seconds: float) -> None:
    """Delete all objects of some collections, and return when nothing is left.

    Raises:
        TimeoutError: Something is left after so many seconds.
    """
    slots = asyncio.Semaphore(DEFAULT_SLOTS)
    client = KubeClient(from_kubeconfig(kubeconfig), max_connections=DEFAULT_SLOTS)

    async def remove(path: str) -> None:
        async with slots:
            # It may be gone, or be tried again.
            with contextlib.suppress(KubeError):
                await client.delete(path, grace_period_seconds=0, accept=PARTIAL_METADATA)

    async def is_empty(path: str) -> bool:
        answer = await client.get(path, query={"limit": str(PAGE)}, accept=PARTIAL_METADATA_LIST)
        found = [one["metadata"]["name"] for one in msgspec.json.decode(answer)["items"] or ()]
        left = [f"{path}/{name}" for name in found if name != KEPT]
        await asyncio.gather(*map(remove, left))
        return not left

    try:
        async with asyncio.timeout(seconds):
            is_over = False
            while not is_over:
                with contextlib.suppress(KubeError):
                    # All of them at one look: the controller may have made Pods of a Framework that was going.
                    is_over = all([await is_empty(path) for path in paths])
                await asyncio.sleep(0.01)
    finally:
        await client.close()


async def main() -> None:
    """Work until killed."""
    client = KubeClient(from_kubeconfig(Path(sys.argv[1])), max_connections=2 * DEFAULT_SLOTS)
    await Plain(client, json.loads(sys.stdin.read())).run()


if __name__ == "__main__":
    asyncio.run(main())
