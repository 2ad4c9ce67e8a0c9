"""Gangs of Jobs beside a namespace whose Pods contradict each other in all that they say of gangs."""

import asyncio
import contextlib
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import POD
from tests.apiserver.conftest import ends_cleanly
from tests.hostile.gauge import Gauge, ReadController
from tests.hostile.plain import remove_all
from tests.support.apiserver import fresh_namespace
from tests.support.beside import foreign_pods as make
from tests.support.beside.foreign_gangs import Gangs, becomes, grant, template
from tests.support.beside.kubelet import Kubelet, ignore_vanished

pytestmark = [pytest.mark.apiserver, pytest.mark.chart, pytest.mark.long, pytest.mark.turns("long")]
PODS, GANGS, WRITERS = 10_000, 40, 8


def said(number: int, uids: list[str]) -> Json:
    """Return what a Pod says: each index twice, sizes that differ, a name of another kind, owners that never were."""
    gang, turn = number // 6 % GANGS, number // 6 // GANGS
    index, size, jobs = turn // 2, 20 + turn % 3, {"name": f"owned{gang}", "of": uids[gang]}
    kinds = (
        make.bare("worker", index, f"worker={size}", gang=f"gang{gang}"),
        make.of_job(index, **jobs),
        make.of_jobset("worker", 0, index, attempt=turn % 3, **jobs),
        make.of_job(0, name=f"never{number}"),
        make.of_lws(gang, index, size),
        make.of_stateful_set(index, name=f"never{gang}"),
    )
    meta: Json = kinds[number % 6]["metadata"]
    owners = [owner | {"apiVersion": "apps/v1"} for owner in meta.get("ownerReferences", ()) if number % 6 == 5]
    return {"labels": meta["labels"], "annotations": meta["annotations"], "ownerReferences": owners}


def change(number: int, gangs: Gangs, uids: list[str]) -> None:
    """Create a Pod, or let one say what others say; now and then resize an owner, and delete every other one."""
    owner, size = f"{gangs.jobs}/owned{number // 50 % GANGS}", number // 50 % 19 + 1
    with ignore_vanished():  # the garbage collector deletes Pods whose owners never were
        if number < PODS:
            meta = said(number, uids) | {"name": f"hostile{number}"}
            gangs.raw.create(f"{gangs.core}/pods", {"metadata": meta, "spec": POD["spec"]})
        else:
            gangs.raw.merge(f"{gangs.core}/pods/hostile{number - PODS}", {"metadata": said(number + 1, uids)})
        if number % 50 == 0:
            gangs.raw.merge(owner, {"spec": {"completions": size, "parallelism": size}})
        if number % 100 == 50 and number > PODS // 2:
            gangs.raw.delete(owner, {"propagationPolicy": "Background"})


def test_gangs_are_complete_while_ten_thousand_hostile_pods_are_created_and_changed(
    cluster: Cluster, raw: RawClient, tmp_path: Path
) -> None:
    grant(cluster)
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(fresh_namespace(raw, what)) for what in ("healthy", "hostile")]
        healthy, hostile = (Gangs(raw, Kubelet(raw, name), name) for name in names)
        for owner in (f"owned{number}" for number in range(GANGS)):
            of = {"manualSelector": True, "selector": {"matchLabels": {"of": owner}}}  # not of the hostile Pods
            hostile.job(owner, 20, suspend=True, template=template("Never", {"of": owner}), **of)
        uids = [raw.get(f"{hostile.jobs}/owned{number}")["metadata"]["uid"] for number in range(GANGS)]
        settings = {"namespaces": names, "foreignGangs": {"enabled": True}}
        controller = ReadController(cluster, tmp_path, settings, health_port=free_port())
        stack.callback(controller.close)
        stack.enter_context(ends_cleanly(controller))
        controller.start()
        gauge, begun, kinds = Gauge(raw, controller), time.monotonic(), set[str]()
        with ThreadPoolExecutor(WRITERS) as pool:
            changes = [pool.submit(change, number, hostile, uids) for number in range(2 * PODS)]
            for name, after in (("created", PODS // 2), ("changed", PODS + PODS // 4)):
                changes[after].result()
                kinds |= {roster.partition(".")[0] for roster in hostile.rosters()}
                healthy.job(name, 4)
                healthy.complete(healthy.pods(4, **{"batch.kubernetes.io/job-name": name}))
                assert not changes[-1].done(), name
        assert (kinds, [one.result() for one in changes]) == ({"gang-pod", "gang-job"}, [None] * 2 * PODS)
        # Pods of Jobs say now that they are of JobSets, which nobody has.
        becomes(lambda: {roster.partition(".")[0] for roster in hostile.rosters()}, {"gang-pod"})
        asyncio.run(remove_all(cluster.kubeconfig, [f"{hostile.core}/pods"], 600))
        becomes(hostile.rosters, {})
        gauge.look()
        requests, seconds = gauge.counts().requests, time.monotonic() - begun
        assert (gauge.faults, gauge.peak_mib < 300, requests < 1000 + 25 * seconds) == ([], True, True), (
            f"{requests} requests in {seconds} s, {gauge.peak_mib} MiB"
        )
        assert not re.search(r"(?m)^\S+ (error|critical) .*", controller.log)
