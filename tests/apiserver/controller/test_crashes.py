"""A leader dies or is frozen at any of its requests, on a real API server, and its successor continues.

A frozen one has a request on its way that goes out late: no election can recall bytes that were sent
(docs/decisions/kubernetes-client.md). What holds then are the UIDs and resourceVersions that each write carries, and
the deterministic names. A late status write is accepted if the successor has not written yet, which goes on from it.
"""

import asyncio
from typing import Any

import pytest

from frameworkcontroller.core.effects import Effect, Outcome, Subject
from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from localcluster import Cluster
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually_async, patience
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver

NEVER = 1_000_000
LATER = (1, 3, 8, NEVER)
"""The late request goes out after so many requests of the successor, at the latest after the Framework is Completed."""


class Leader(Performer):
    """Stops for ever at its nth request: before it is sent, which `thaw` does later, or once it was answered."""

    def __init__(self, cluster: Cluster, stop_at: int = NEVER, *, answered: bool = False) -> None:
        self.client = KubeClient(from_kubeconfig(cluster.kubeconfig))
        super().__init__(self.client)
        self.count, self._stop_at, self._answered = 0, stop_at, answered
        self.stopped = asyncio.Event()
        self._held: list[tuple[Subject, Effect]] = []

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.count += 1
        if self.count == self._stop_at:
            if self._answered:
                await super().perform(subject, effect)
            else:
                self._held.append((subject, effect))
            self.stopped.set()
            await asyncio.Event().wait()
        return await super().perform(subject, effect)

    async def thaw(self) -> None:
        for subject, effect in self._held:
            await super().perform(subject, effect)

    async def lead(self, frameworks: Frameworks, until: set[asyncio.Task[Any]]) -> None:
        engine = Engine(self.client, self, Settings().core, namespaces=[frameworks.namespace])
        leading = asyncio.create_task(engine.run())
        done, _ = await asyncio.wait({leading, *until}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


async def live(frameworks: Frameworks, name: str, first: Leader, second: Leader, later: int = NEVER) -> None:
    """Run a leader until it stops, then its successor, and send what the first one held after so many requests."""

    async def is_completed() -> None:
        assert (await asyncio.to_thread(frameworks.status, name))["state"] == "Completed"

    async def is_clean() -> None:
        left = [pod for pod in await asyncio.to_thread(frameworks.pods) if pod.startswith(f"{name}-")]
        assert not left, left

    async with asyncio.timeout(patience(120)):
        end = asyncio.create_task(eventually_async(is_completed, timeout=60, interval=0.1))
        await first.lead(frameworks, until={end, asyncio.create_task(first.stopped.wait())})
        if first.stopped.is_set():

            async def all_over() -> None:
                while second.count < later and not end.done():  # noqa: ASYNC110 -- either of two conditions
                    await asyncio.sleep(0.01)
                await first.thaw()
                await end
                await eventually_async(is_clean, timeout=60)

            await second.lead(frameworks, until={asyncio.create_task(all_over())})
        await end
    for leader in (first, second):
        await leader.client.close()


def place(frameworks: Frameworks, name: str) -> dict[str, Any]:
    """Return where a Framework has ended."""
    status = frameworks.status(name)
    ends = {"framework": status, **frameworks.tasks(name)}
    return {
        key: (end["state"], end["attemptStatus"]["completionStatus"]["code"], end["retryPolicyStatus"])
        for key, end in ends.items()
    }


async def test_a_life_cut_at_any_request_ends_in_the_same_place_also_if_that_goes_out_late(
    cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    roles = (role("ps", 1), role("worker", 2, retry=retry, completion={"minSucceededTaskCount": 2}))
    player.plan = {"ps-0": ["stay"], "worker-1": [1, 0]}
    with player.playing():
        await asyncio.to_thread(frameworks.create, "whole", *roles)
        undisturbed = Leader(cluster)
        await live(frameworks, "whole", undisturbed, Leader(cluster))
        expected = place(frameworks, "whole")
        assert expected["framework"][1] == 0
        assert undisturbed.count > 10
        for stop_at in range(1, undisturbed.count):
            for answered in (False, True) if stop_at % 2 else (False,):
                name = f"{'answered' if answered else 'late'}{stop_at}"
                await asyncio.to_thread(frameworks.create, name, *roles)
                first = Leader(cluster, stop_at, answered=answered)
                await live(frameworks, name, first, Leader(cluster), LATER[stop_at % len(LATER)])
                assert place(frameworks, name) == expected, f"{name}: stopped at this request"
                await asyncio.to_thread(frameworks.raw.delete, f"{frameworks.path}/{name}")
