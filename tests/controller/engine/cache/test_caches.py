"""What the caches read and keep, and what they tell the engine: each deletion of a Pod once, watched or missed."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, cast
from unittest.mock import Mock, call

import pytest

from frameworkcontroller.api.pod_group import GROUP_DECODER
from frameworkcontroller.api.workload import SHAPE, WORKLOAD_DECODER, Workload, WorkloadSpec, WorkloadStatus
from frameworkcontroller.engine.cache.caches import Caches, Listener
from frameworkcontroller.engine.cache.companions import Companions, _kept_workload
from frameworkkube.errors import GoneError
from tests.controller.core.values import core_config
from tests.controller.engine.stubs import Client, beside
from tests.kube.virtualtime import in_virtual_time
from tests.support.memory import memory


def pod(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    metadata |= {"labels": {"FC_FRAMEWORK_NAME": "fw"}} | more
    status = {"phase": "Failed", "podIP": "10.0.0.1"}
    return {"metadata": metadata, "spec": {"nodeName": "node", "hostNetwork": True}, "status": status}


@contextlib.asynccontextmanager
async def running(client: Client, **config: Any) -> AsyncIterator[tuple[Caches, Mock]]:
    """Caches that have listed what the client lists first, and who is told."""
    told = Mock(spec=Listener)
    told.keep_framework = lambda found: found
    caches = Caches(cast("Any", client), (), told, core_config(**config), Mock())
    async with beside(caches.run()):
        await caches.synced()
        yield caches, told


@in_virtual_time
async def test_a_framework_is_told_of_a_pod_whose_label_somebody_has_changed() -> None:
    """And not of the second event, of which nothing is kept that is new: 40 a second took a third of a core."""
    owner = {"kind": "ConfigMap", "name": "fw-attempt", "uid": "u", "controller": True}
    async with running(client := Client(pods=[pod("fw-a-0")])) as (_, told):
        for version in ("6", "7"):
            labels = {"FC_FRAMEWORK_NAME": "other"}
            changed = pod("fw-a-0", labels=labels, ownerReferences=[owner], resourceVersion=version)
            client.shows("MODIFIED", changed, "pods")
        await asyncio.sleep(1)
    heard = [call.args for call in told.on_pod.call_args_list]
    assert heard == [(("n", "fw"), "fw-a-0")] * 2, "it is no Task's Pod of the other"


@pytest.mark.parametrize(
    ("plural", "name", "method", "heard"),
    [
        pytest.param("pods", "fw-a-0", "on_pod", call(("n", "fw"), "fw-a-0"), id="a Pod"),
        pytest.param("configmaps", "fw-attempt", "on_config_map", call(("n", "fw")), id="its ConfigMap"),
    ],
)
@in_virtual_time
async def test_a_framework_is_told_that_a_name_of_its_own_is_free_that_others_had(
    plural: str, name: str, method: str, heard: object
) -> None:
    """Its Task waited for ever: only the Framework was told that the label named."""
    in_the_way = pod(name, labels={"FC_FRAMEWORK_NAME": "other"})
    async with running(client := Client(**{plural: [in_the_way]})) as (_, told):
        await asyncio.sleep(5)
        told.reset_mock()
        client.shows("DELETED", in_the_way, plural)
        await asyncio.sleep(5)
    assert getattr(told, method).call_args_list == [heard]


@in_virtual_time
async def test_the_caches_keep_nothing_of_what_others_write_into_an_object() -> None:
    """100 Pods with owners of some MiB, or 40 ConfigMaps with labels, took 400 to 600 MiB."""
    large, found = {f"key-{entry}": str(entry) * 100 for entry in range(200)}, list[dict[str, Any]]()
    for number in range(20):
        owner = {"kind": f"{number}" + "k" * 100_000, "name": "n" * 100_000, "uid": "u" * 100_000}
        found.append(pod(f"fw-a-{number}", annotations=large, ownerReferences=[owner, owner | {"controller": True}]))
        found[-1]["metadata"]["labels"] |= large
    client = Client(pods=found, configmaps=[{"metadata": one["metadata"]} for one in found])
    with memory() as used:
        async with running(client) as (caches, _):
            assert used() < 500_000
            assert caches.sizes["pods"] == 20


def forget(client: Client) -> None:
    """Let the watch of Pods expire, when there are none any more."""
    client.others["pods"] = []
    client.watched["pods"].put_nowait(GoneError(410, "Expired", "too old"))


@in_virtual_time
async def test_large_pods_that_are_gone_take_no_room_whether_that_was_watched_or_not() -> None:
    init = [{"name": f"s{place}", "restartPolicy": "Always"} for place in range(100)]
    client = Client(pods=[pod(name) | {"spec": {"initContainers": init}} for name in ("fw-a-0", "fw-a-1")])
    async with running(client) as (caches, _):
        client.shows("DELETED", pod("fw-a-0"), "pods")
        await asyncio.sleep(10)
        assert len(caches._slim_pods.large) == 1
        forget(client)
        await asyncio.sleep(60)
        assert len(caches._slim_pods.large) == 0


@in_virtual_time
async def test_a_pod_whose_deletion_no_watch_showed_is_reported_with_what_the_cache_held() -> None:
    async with running(client := Client(pods=[pod("fw-a-0"), pod("fw-a-1")])) as (_, told):
        client.shows("DELETED", pod("fw-a-0"), "pods")
        await asyncio.sleep(10)
        (watched,) = (json.loads(call.args[0]) for call in told.on_pod_gone.call_args_list)
        assert watched["metadata"]["name"] == "fw-a-0"
        assert watched["spec"]["hostNetwork"], "the whole Pod"
        forget(client)
        await asyncio.sleep(60)
    _, missed = (json.loads(call.args[0]) for call in told.on_pod_gone.call_args_list)
    assert (missed["metadata"]["uid"], missed["spec"]["nodeName"]) == ("uid-fw-a-1", "node")
    assert (missed["status"]["phase"], missed["status"]["podIP"]) == ("Failed", "10.0.0.1")


@in_virtual_time
async def test_of_the_config_maps_with_the_label_only_that_of_the_framework_concerns_it() -> None:
    """A patch of any other one cost a pass over 1,000 TaskRoles: 100 a second took half of the loop."""
    labelled = [pod("fw-attempt"), pod("mine"), pod("fw-attempt-1", labels={"FC_FRAMEWORK_NAME": "other"})]
    async with running(Client(configmaps=[{"metadata": one["metadata"]} for one in labelled])) as (_, told):
        assert told.on_config_map.call_args_list == [call(("n", "fw"))]


PROGRAM = """
import json, threading, time
from frameworkcontroller.api.meta import PARTIAL_DECODER
from frameworkkube.deep_objects import read_deep_objects
from frameworkkube.informer.watch_events import WireDecoder

metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
line = json.dumps({"type": "MODIFIED", "object": {"metadata": metadata | {"managedFields": 0}}}).encode()
line = line.replace(b'"managedFields": 0', b'"managedFields": ' + b'{"f:a":' * 9_900 + b"1" + b"}" * 9_900)
wire = WireDecoder(PARTIAL_DECODER)
assert wire.quick(line) is None, "Python's own limit"
read_deep_objects()
found = []
threads = [threading.Thread(target=lambda: found.append(wire.quick(line))) for _ in range(2)]
for thread in threads:
    thread.start()
    thread.join()
assert [one.resource_version for one in (*found, wire.quick(line))] == ["7"] * 3
"""


def test_managed_fields_as_deep_as_the_api_server_stores_them_are_no_slow_line() -> None:
    """The API server stores what nests 10,000 deep at most.

    Lines of 250 KB, 25 a second, held back the events of other namespaces by 13 s, and the Lease by 5 s.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


YOUNG = """
import gc
from frameworkcontroller.__main__ import collect_seldom
collect_seldom()
before = gc.get_stats()[2]["collections"]
kept = [[[]] for _ in range(300_000)]
for _ in range(20):
    kept = [[[]] for _ in kept]
assert gc.get_stats()[2]["collections"] == before, gc.get_stats()
cycles = sum(one["collected"] for one in gc.get_stats())
for _ in range(10_000):
    one = []
    one.append(one)
assert sum(one["collected"] for one in gc.get_stats()) - cycles > 9_000
"""


def test_only_young_objects_are_looked_through_for_cycles() -> None:
    """Of 3,000 Frameworks, a few of which were made again each second, each look took 370 ms of the loop."""
    done = subprocess.run([sys.executable, "-c", YOUNG], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_groups_are_unknown_until_they_are_read_and_those_of_others_for_ever() -> None:
    config = core_config(group_schedulers=("kubernetes",))
    groups = Companions(cast("Any", None), ("team",), config, Mock(), Mock(), Mock())
    assert "PodGroups of scheduling.k8s.io/v1beta1 are not read yet" in groups.unknown("kubernetes")
    assert groups.get("kubernetes", "team", "gang") is None
    assert "gangScheduling.schedulers of the controller lacks" in groups.unknown("volcano")


def test_of_the_groups_with_the_label_only_those_of_the_framework_concern_it() -> None:
    told = Mock()
    groups = Companions(cast("Any", None), (), core_config(), told, Mock(), Mock())
    for name, label in (("fw-attempt-0", "fw"), ("mine", "fw"), ("fw-attempt-0", "other")):
        document = {"metadata": pod(name, labels={"FC_FRAMEWORK_NAME": label})["metadata"]}
        seen = GROUP_DECODER.decode(json.dumps(document))
        groups._on_group(seen, seen)
    assert told.call_args_list == [call(("n", "fw"), "fw-attempt-0")]


def workload(shape: str, message: str = "", updates: int = 0) -> Workload:
    """Of two podSets, in a state that says this much."""
    sets = [{"name": name, "template": {"metadata": {"annotations": {SHAPE: shape}}}} for name in ("ps", "worker")]
    given = {"name": "check", "podSetUpdates": [{"name": "ps", "tolerations": [{}] * updates}]}
    said = {"type": "QuotaReserved", "status": "False", "message": message}
    document = {"metadata": pod("w")["metadata"], "spec": {"podSets": sets}}
    return WORKLOAD_DECODER.decode(
        json.dumps(document | {"status": {"conditions": [said], "admissionChecks": [given]}})
    )


@pytest.mark.parametrize(
    ("seen", "fits"),
    [
        (workload("0123456789abcdef", "no room " * 4096, updates=100), True),
        (workload("x" * 4096), False),
        (workload("", "x" * 300_000), False),
        (workload("", updates=40_000), False),
    ],
)
def test_of_a_workload_that_is_too_large_nothing_is_kept(seen: Workload, *, fits: bool) -> None:
    """A hundred whose annotation of a shape has a mebibyte took 600 MiB, again after each restart."""
    kept = _kept_workload(seen)
    assert (kept.spec, kept.status) == ((seen.spec, seen.status) if fits else (WorkloadSpec(), WorkloadStatus()))
    assert kept.metadata.uid == seen.metadata.uid
