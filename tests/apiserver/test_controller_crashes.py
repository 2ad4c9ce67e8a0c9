"""The controller dies before or after any of its requests, on a real API server, and the next one continues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from localcluster.client import ApiStatusError
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually_async, patience

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Effect, Outcome, Subject
    from localcluster import Cluster
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver


class Death(BaseException):
    """The controller's process ends here."""


class DyingPerformer(Performer):
    """Dies at one request: before it is sent, or after it was answered and before the outcome is used."""

    def __init__(self, client: KubeClient, counter: list[int], cut: int, *, before: bool) -> None:
        super().__init__(client)
        self._counter, self._cut, self._before = counter, cut, before
        self.died = asyncio.Event()

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self._counter[0] += 1
        mine = self._counter[0] == self._cut
        if mine and self._before:
            await self._die()
        outcome = await super().perform(subject, effect)
        if mine:
            await self._die()
        return outcome

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()  # whatever it was about to do never happens


async def live(cluster: Cluster, frameworks: Frameworks, name: str, cut: int, *, before: bool) -> int:
    """Run controllers until the Framework is Completed, the first dies at the cut; return how many requests it took."""
    counter = [0]
    endpoint = from_kubeconfig(cluster.kubeconfig)
    async with asyncio.timeout(patience(90)):
        while True:
            client = KubeClient(endpoint)
            performer = DyingPerformer(client, counter, cut, before=before)
            engine = asyncio.create_task(
                Engine(client, performer, Settings().core, namespaces=[frameworks.namespace]).run()
            )
            death = asyncio.create_task(performer.died.wait())
            end = asyncio.create_task(until_completed(frameworks, name))
            done, _ = await asyncio.wait({engine, death, end}, return_when=asyncio.FIRST_COMPLETED)
            for task in (engine, death, end):
                task.cancel()
            await asyncio.gather(engine, death, end, return_exceptions=True)
            await client.close()
            if engine in done:
                engine.result()
            if end in done:
                return counter[0]


async def until_completed(frameworks: Frameworks, name: str) -> None:
    async def is_completed() -> None:
        assert await asyncio.to_thread(state_of, frameworks, name) == "Completed"

    await eventually_async(is_completed, timeout=60, interval=0.1)


def state_of(frameworks: Frameworks, name: str) -> str:
    try:
        return str((frameworks.get(name).get("status") or {}).get("state"))
    except ApiStatusError:
        return ""


def place(frameworks: Frameworks, name: str) -> dict[str, Any]:
    status = frameworks.status(name)
    return {
        "code": status["attemptStatus"]["completionStatus"]["code"],
        "retried": status["retryPolicyStatus"],
        "tasks": {
            slot: (
                task["state"],
                task["attemptStatus"]["completionStatus"]["code"],
                task["retryPolicyStatus"]["totalRetriedCount"],
            )
            for slot, task in frameworks.tasks(name).items()
        },
    }


async def test_a_life_cut_at_any_request_ends_in_the_same_place(
    cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    roles = (role("ps", 1), role("worker", 2, retry=retry, completion={"minSucceededTaskCount": 2}))
    player.plan = {"ps-0": ["stay"], "worker-1": [1, 0]}
    with player.playing():
        await asyncio.to_thread(frameworks.create, "whole", *roles)
        requests = await live(cluster, frameworks, "whole", 0, before=True)
        expected = place(frameworks, "whole")
        assert expected["code"] == 0
        assert requests > 10
        for cut in range(1, requests):
            name = f"cut{cut}"
            await asyncio.to_thread(frameworks.create, name, *roles)
            await live(cluster, frameworks, name, cut, before=cut % 2 == 0)
            assert place(frameworks, name) == expected, f"cut at request {cut}"
            frameworks.raw.delete(f"{frameworks.path}/{name}")
