"""The loop of gangs of other controllers: whatever one gang raises, the others go on."""

import asyncio
import itertools
import json
from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest
from structlog.testing import capture_logs

from frameworkcontroller.api.meta import Meta
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    DeleteConfigMap,
    Done,
    Effect,
    FindOwner,
    Found,
    Outcome,
    Subject,
    WriteRoster,
)
from frameworkcontroller.core.foreign.pods import FOREIGN_POD_DECODER
from frameworkcontroller.core.gang.publisher import GangStatus, Phase
from frameworkcontroller.engine.foreign import PODS, ForeignGangs
from frameworkcontroller.engine.observe.event_recorder import EventRecorder
from frameworkcontroller.engine.observe.metrics import Metrics
from tests.controller.engine import stubs
from tests.controller.engine.stubs import Client, beside, running, until
from tests.kube.virtualtime import in_virtual_time
from tests.support.beside import foreign_pods as make


def of_jobs(*names: str) -> Client:
    """A client that lists a Pod of each of these Jobs."""
    return Client(pods=[make.of_job(0, name=name, ip="10.1.0.1") for name in names])


class Performer:
    """Raises for one gang, and answers another what its gang cannot take in."""

    def __init__(self) -> None:
        self.done: list[tuple[str, type[Effect]]] = []

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.done.append((subject.name.split(".")[1], type(effect)))
        if ".bad." in subject.name:
            raise ZeroDivisionError
        if ".worse." in subject.name:
            return cast("Outcome", Found(cast("Meta", None), document=cast("bytes", 7)))
        if isinstance(effect, FindOwner):
            meta = Meta(name="good", uid="uid-of-good", resource_version="1")
            return Found(meta, document=msgspec.json.encode(make.owner({"completions": 1}, name="good")))
        return Done("uid", "5")


def made(client: Client, performer: Performer, metrics: Metrics | None = None) -> ForeignGangs:
    return ForeignGangs(
        cast("Any", client),
        (),
        cast("Any", performer),
        EventRecorder(cast("Any", client)),
        metrics or Metrics(),
        grants=True,
        slots=4,
        may_act=lambda: True,
        now=lambda: Now(*[datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)] * 2),
    )


def config_map(version: int, of: str = "good.uid-of-good", uid: str = "u", **more: Any) -> dict[str, Any]:
    """The ConfigMap of the gang of a Job."""
    metadata = {"name": f"gang-job.{of}-attempt", "namespace": "default", "uid": uid, "resourceVersion": f"{version}"}
    return {"metadata": metadata | more}


@in_virtual_time
async def test_a_gang_that_raises_is_told_and_the_others_go_on() -> None:
    performer, metrics = Performer(), Metrics()
    with capture_logs() as logs:
        async with beside(made(of_jobs("bad", "good", "worse"), performer, metrics).run()):
            await asyncio.sleep(30)
    assert 'frameworkcontroller_foreign_gangs{phase="gathering"} 0.0' in metrics.text().decode()
    since = datetime.fromtimestamp(1000, UTC)
    metrics.frameworks.foreign = lambda: [GangStatus(Phase.LATE, since, not_created=2, not_ready=1)]
    for line in (
        'foreign_gangs{phase="late"} 1.0',
        'gang_missing_tasks{reason="not-created"} 2.0',
        'gang_missing_tasks{reason="not-ready"} 1.0',
        "gang_oldest_wait_timestamp_seconds 1000.0",
    ):
        assert f"frameworkcontroller_{line}" in metrics.text().decode().splitlines()
    told = {line["gang"].split(".")[1] for line in logs if "cannot be processed" in line["event"]}
    assert told == {"bad", "worse"}
    assert performer.done.count(("bad", FindOwner)) > 3
    assert ("good", CreateConfigMap) in performer.done


@in_virtual_time
async def test_of_many_new_gangs_of_a_namespace_a_hundred_begin_at_once_and_ten_a_second() -> None:
    """A Pod that named another gang fifty times a second cost 157 requests a second."""
    performer, many = Performer(), of_jobs(*(f"many{number}" for number in range(300)))
    async with beside(made(many, performer).run()):
        for seconds, number in ((0.5, 100), (10, 200), (10, 300)):
            await asyncio.sleep(seconds)
            assert number - 5 <= len({name for name, _ in performer.done}) <= number + 10


@in_virtual_time
async def test_of_a_config_map_that_waits_to_be_gone_and_has_no_pods_nothing_is_kept() -> None:
    """10,000 of them with a finalizer took 45 MiB."""
    client, performer = Client(), Performer()
    gangs = made(client, performer)
    async with beside(gangs.run()):
        client.shows("ADDED", config_map(2, "left.u"), "configmaps")
        await until(lambda: ("left", DeleteConfigMap) in performer.done)
        gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
        client.shows("MODIFIED", config_map(3, "left.u", **gone), "configmaps")
        await until(lambda: not gangs._gangs)
        client.shows("DELETED", config_map(4, "left.u", **gone), "configmaps")
        await asyncio.sleep(10)
    assert performer.done.count(("left", DeleteConfigMap)) == 1


@in_virtual_time
async def test_of_a_gang_whose_config_map_is_deleted_again_and_again_one_more_is_made_in_ten_seconds() -> None:
    """Ten a second, with 7,000 Pods as owners, were 22 MB a second."""
    client, performer, shown = of_jobs("good"), Performer(), 0
    async with beside(made(client, performer).run()):
        for _ in range(300):
            await asyncio.sleep(0.1)
            if performer.done.count(("good", CreateConfigMap)) > shown:
                shown += 1
                client.shows("ADDED", config_map(shown + 1), "configmaps")
                await asyncio.sleep(0.1)
                client.shows("DELETED", config_map(shown + 1), "configmaps")
    assert 5 <= shown <= 7


@pytest.mark.parametrize("uids", [["u"], ["u", "v"]], ids=["takes its label off and on", "makes another one"])
@in_virtual_time
async def test_whoever_hides_or_replaces_the_config_map_has_the_roster_written_once_in_ten_seconds(
    uids: list[str],
) -> None:
    """Ten a second were written of a gang whose ConfigMap was hidden as often: with 1,000 Pods 1.1 MB a second."""
    client, performer, versions = of_jobs("good"), Performer(), itertools.count(2)
    async with beside(made(client, performer).run()):
        for _, uid in zip(range(300), itertools.cycle(uids), strict=False):
            for kind in ("ADDED", "DELETED"):
                client.shows(kind, config_map(next(versions), uid=uid), "configmaps")
                await asyncio.sleep(0.05)
    assert 4 <= performer.done.count(("good", WriteRoster)) <= 8


def test_a_large_pod_that_is_gone_takes_no_room() -> None:
    gangs = made(Client(), Performer())
    large = make.of_job(0)
    large["spec"]["initContainers"] = [{"name": f"s{place}", "restartPolicy": "Always"} for place in range(100)]
    kept = gangs._slim_pods(FOREIGN_POD_DECODER.decode(json.dumps(large)))
    gangs._on_pod(None, kept)
    assert len(gangs._slim_pods.large) == 1
    gangs._on_pod(kept, None)
    assert len(gangs._slim_pods.large) == 0


class Late(Client):
    """Lists no Pods of other controllers until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if PODS in str(more):
            await self.lists.wait()
        return await super().request(method, path, **more)


@in_virtual_time
async def test_the_engine_is_ready_when_these_caches_are_full_and_stalls_when_this_loop_does() -> None:
    client = Late()
    async with running(client, stubs.Performer(), foreign_gangs=True) as engine:
        await until(lambda: engine._caches.has_synced)
        assert (engine.has_synced, engine.stalled_seconds) == (False, 0)
        client.lists.set()
        await until(lambda: engine.has_synced)
        assert engine._foreign is not None
        engine._foreign._queue = cast("Any", Mock(stalled_seconds=7.0))
        assert engine.stalled_seconds == 7
