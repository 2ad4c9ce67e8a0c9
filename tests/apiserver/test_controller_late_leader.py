"""A leader that was frozen with a request on its way: when it goes out late, it does no harm.

No election can recall bytes that were sent (docs/decisions/kubernetes-client.md). What holds then are the UIDs and
resourceVersions that each write carries, and the deterministic names. A late status write is accepted if the successor
has not written yet, and the successor goes on from it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually_async, patience
from tests.apiserver.test_controller_crashes import place, until_completed

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Effect, Outcome, Subject
    from localcluster import Cluster
    from tests.support.player import Player

pytestmark = pytest.mark.apiserver

NEVER = 1_000_000
LATER = (1, 3, 8, NEVER)
"""The late request goes out after so many requests of the successor, at the latest after the Framework is Completed."""


class Frozen(Performer):
    """Is frozen as it sends its nth request; `thaw` sends that one."""

    def __init__(self, client: KubeClient, freeze_at: int) -> None:
        super().__init__(client)
        self.client = client
        self.count, self._freeze_at = 0, freeze_at
        self.frozen = asyncio.Event()
        self._held: tuple[Subject, Effect] | None = None

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.count += 1
        if self.count == self._freeze_at:
            self._held = (subject, effect)
            self.frozen.set()
            await asyncio.Event().wait()
        return await super().perform(subject, effect)

    async def thaw(self) -> None:
        assert self._held is not None
        await super().perform(*self._held)


async def live(cluster: Cluster, frameworks: Frameworks, name: str, freeze_at: int, later: int) -> int:
    """Run a leader until it is frozen, then its successor, and the late request; return the first one's requests."""
    async with asyncio.timeout(patience(120)):
        end = asyncio.create_task(until_completed(frameworks, name))
        first = Frozen(KubeClient(from_kubeconfig(cluster.kubeconfig)), freeze_at)
        await lead(frameworks, first, until={end, asyncio.create_task(first.frozen.wait())})
        if first.frozen.is_set():
            second = Frozen(KubeClient(from_kubeconfig(cluster.kubeconfig)), NEVER)

            async def late() -> None:
                while second.count < later and not end.done():  # noqa: ASYNC110 -- either of two conditions
                    await asyncio.sleep(0.01)
                await first.thaw()

            async def all_over() -> None:
                await late()
                await end
                await eventually_async(lambda: is_clean(frameworks, name), timeout=60)

            await lead(frameworks, second, until={asyncio.create_task(all_over())})
            await second.client.close()
        await first.client.close()
        await end
        return first.count


async def lead(frameworks: Frameworks, performer: Frozen, until: set[asyncio.Task[None]]) -> None:
    engine = Engine(performer.client, performer, Settings().core, namespaces=[frameworks.namespace])
    leading = asyncio.create_task(engine.run())
    done, _ = await asyncio.wait({leading, *until}, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)


async def is_clean(frameworks: Frameworks, name: str) -> None:
    left = [pod for pod in await asyncio.to_thread(frameworks.pods) if pod.startswith(f"{name}-")]
    assert not left, left


def accounted(frameworks: Frameworks, name: str) -> dict[str, int]:
    """Return the retries of each Task that its policy counts."""
    return {key: task["retryPolicyStatus"]["accountableRetriedCount"] for key, task in frameworks.tasks(name).items()}


def retries(frameworks: Frameworks, name: str) -> int:
    """Return how often any Task was retried."""
    return sum(task["retryPolicyStatus"]["totalRetriedCount"] for task in frameworks.tasks(name).values())


def without_retries(found: dict[str, Any]) -> dict[str, Any]:
    """Return the place where a Framework ended, without the number of retries."""
    return {**found, "tasks": {key: end[:2] for key, end in found["tasks"].items()}}


async def test_a_request_that_goes_out_late_changes_nothing(
    cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    roles = (role("ps", 1), role("worker", 2, retry=retry, completion={"minSucceededTaskCount": 2}))
    player.plan = {"ps-0": ["stay"], "worker-1": [1, 0]}
    with player.playing():
        await asyncio.to_thread(frameworks.create, "whole", *roles)
        requests = await live(cluster, frameworks, "whole", NEVER, NEVER)
        expected = without_retries(place(frameworks, "whole"))
        counted, retried = accounted(frameworks, "whole"), retries(frameworks, "whole")
        assert expected["code"] == 0
        assert requests > 10
        for freeze_at in range(1, requests):
            name = f"late{freeze_at}"
            await asyncio.to_thread(frameworks.create, name, *roles)
            await live(cluster, frameworks, name, freeze_at, LATER[freeze_at % len(LATER)])
            assert without_retries(place(frameworks, name)) == expected, f"frozen at request {freeze_at}"
            assert accounted(frameworks, name) == counted, f"frozen at request {freeze_at}"
            assert retries(frameworks, name) == retried, f"frozen at request {freeze_at}"
            await asyncio.to_thread(frameworks.raw.delete, f"{frameworks.path}/{name}")
