"""What `why` and `doctor` say of a real Kueue, which says itself why: no reason is written down."""

import json
from typing import Any

import pytest
import yaml

from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit import kueue
from testkit.frameworks import role
from testkit.waiting import eventually
from tests.support.beside.queued import CONFIG_MAPS, Queued, workers
from tests.support.frameworkctl import Frameworkctl

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("kueue")]
CONFIG = f"/api/v1/namespaces/{kueue.SYSTEM}/configmaps/kueue-manager-config"


@pytest.mark.usefixtures("running", "queueing")
def test_why_says_which_quota_is_missing_and_who_has_deactivated_it(
    raw: RawClient, queued: Queued, ctl: Frameworkctl
) -> None:
    queued.quota()

    for name in ("one", "two"):
        queued.create(name, workers(3))
        queued.expect(name, QuotaReserved=name == "one")
    missing = "it waits in LocalQueue main: 2 more cpu needed in pool-a (couldn't assign"
    ctl.says("why two", missing, "-> wait until others end")
    queued.create("large", workers(5))
    larger = "-> ask for less cpu, or for a larger quota: it never"
    ctl.says("why large", "insufficient quota for cpu in flavor pool-a", larger)
    queued.create("lost", role("worker", 1), queue="none")
    ctl.says("why lost", "it waits in LocalQueue none: LocalQueue none doesn't exist", "-> name another queue")
    raw.merge(queued.path_of("two"), {"spec": {"active": False}})
    activate = "-> activate it again: kubectl patch workloads.kueue.x-k8s.io framework-two-"
    ctl.says("why two", "somebody has deactivated its Workload", activate)
    waits = {row[0]: row[-1] for row in ctl.ok("list").table}
    assert waits["two"] == "admission by LocalQueue main"


@pytest.mark.usefixtures("running")
def test_doctor_says_what_kueue_lacks(cluster: Cluster, raw: RawClient, ctl: Frameworkctl) -> None:
    def says(*args: str) -> list[str]:
        lines = json.loads(ctl("doctor", "-o", "json", *args).output)
        return [f"{one['grade']}: {one['text']}" for one in lines if one["subject"] == "Kueue"]

    unknown = says()
    assert len(unknown) == 1
    assert unknown[0].startswith("warning: whether Frameworks are queued is not known: ")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kueue.OUR_SYSTEM}}
    ours = next(one for one in kueue.our_chart(cluster) if one["kind"] == "ConfigMap" and "kueue:" in str(one["data"]))
    cluster.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all([namespace, ours]))
    assert [f"externalFrameworks lacks {CONFIG_MAPS}" in one for one in says()] == [True]

    def configure(**changes: Any) -> None:
        text = raw.get(CONFIG)["data"]["controller_manager_config.yaml"]
        config: Json = yaml.safe_load(text) | changes
        config["integrations"] |= {"externalFrameworks": [CONFIG_MAPS]}
        raw.merge(CONFIG, {"data": {"controller_manager_config.yaml": yaml.safe_dump(config)}})

    configure()
    sound = ["ok: kueue.x-k8s.io/v1beta2 is served and set up for Frameworks"]
    assert says() == sound
    configure(manageJobsWithoutQueueName=True)
    assert ["Frameworks without a queue run past its quota" in one for one in says()] == [True]
    configure(manageJobsWithoutQueueName=False)
    cluster.kubectl("delete", "clusterrolebinding", "frameworkcontroller-kueue-readers")
    account = "system:serviceaccount:kueue-system:kueue-controller-manager"

    def may_not() -> None:
        assert [f"{account} may not list ConfigMaps" in one for one in says()] == [True]

    def is_sound() -> None:
        assert says() == sound

    eventually(may_not, 30)
    kueue.grant(cluster)
    eventually(is_sound, 30)
    raw.delete(f"/api/v1/namespaces/{kueue.OUR_SYSTEM}/configmaps/{ours['metadata']['name']}")
