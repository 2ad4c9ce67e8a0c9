"""A plain client that makes the objects of a hostile Framework without one: `python -m tests.hostile.plain KUBECONFIG`.

The standard input is a JSON object: `namespace`, `frameworks` to create where no controller looks, the `template` of
`pods` Pods, and whether they are made again when they have failed. It runs until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.engine.executor import DEFAULT_SLOTS
from frameworkkube.credentials import from_kubeconfig
from frameworkkube.errors import KubeError
from frameworkkube.rest import PARTIAL_METADATA, PARTIAL_METADATA_LIST, KubeClient, resource_path

if TYPE_CHECKING:
    from localcluster.client import Json

LOOK_SECONDS = 0.5


class Plain:
    """The client.

    Args:
        client: Of the API server.
        work: What to do, see the module.
    """

    def __init__(self, client: KubeClient, work: Json) -> None:
        self._client, self._work = client, work
        self._pods = resource_path("v1", "pods", namespace=work["namespace"])
        # As many requests at a time as the controller sends.
        self._slots = asyncio.Semaphore(DEFAULT_SLOTS)

    async def run(self) -> NoReturn:
        """Make the objects, and make again what has failed."""
        frameworks = resource_path(names.API_VERSION, names.PLURAL, namespace=self._work["namespace"])
        for manifest in self._work["frameworks"]:
            await self._client.create(frameworks, msgspec.json.encode(manifest), accept=PARTIAL_METADATA)
        async with asyncio.TaskGroup() as group:
            for index in range(self._work["pods"]):
                group.create_task(self._create(f"hostile-worker-{index}"))
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._work["isRetried"]:
                await self._retry()

    async def _retry(self) -> None:
        with contextlib.suppress(KubeError):
            failures = {"fieldSelector": "status.phase=Failed"}
            answer = await self._client.get(self._pods, query=failures, accept=PARTIAL_METADATA_LIST)
            failed = [one["metadata"]["name"] for one in msgspec.json.decode(answer)["items"]]
            async with asyncio.TaskGroup() as group:
                for name in failed:
                    group.create_task(self._replace(name))

    async def _replace(self, name: str) -> None:
        async with self._slots:
            with contextlib.suppress(KubeError):
                await self._client.delete(f"{self._pods}/{name}", accept=PARTIAL_METADATA)
        await self._create(name)

    async def _create(self, name: str) -> None:
        template = self._work["template"]
        body = template | {"apiVersion": "v1", "kind": "Pod", "metadata": template.get("metadata", {}) | {"name": name}}
        async with self._slots:
            # Some are to be refused.
            with contextlib.suppress(KubeError):
                await self._client.create(self._pods, msgspec.json.encode(body), accept=PARTIAL_METADATA)


async def main() -> None:
    """Work until killed."""
    client = KubeClient(from_kubeconfig(Path(sys.argv[1])), max_connections=2 * DEFAULT_SLOTS)
    await Plain(client, json.loads(sys.stdin.read())).run()


if __name__ == "__main__":
    asyncio.run(main())
