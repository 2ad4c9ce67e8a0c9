"""The resources and the pull secrets of the barrier as the API server judges them: QoS, LimitRanges, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError
from testkit.waiting import eventually
from tests.injector.replica_processes import LABEL, called, create, framework_pod
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster.client import RawClient
    from tests.injector.golden_pods import JSON
    from tests.injector.replica_processes import Replica

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector"), pytest.mark.usefixtures("injector")]

MODES = ("init", "sidecar")


@pytest.fixture(scope="module")
def injector(raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """Start a replica with pull secrets, which the API server calls."""
    secrets = ("--barrier-image-pull-secret=for-the-barrier", "--barrier-image-pull-secret=of-the-account")
    with called(raw, identity, tmp_path_factory.mktemp("injector"), *secrets) as replica:
        yield replica


def pod_of(namespace: str, *resources: JSON, **settings: str) -> JSON:
    """Return a Pod with a container for each of these resources; `settings` become annotations."""
    pod = framework_pod(namespace, **settings)
    (app,) = pod["spec"]["containers"]
    pod["spec"]["containers"] = [
        {**app, "name": f"app-{index}", "resources": each} for index, each in enumerate(resources)
    ]
    return pod


def both(**amounts: str) -> JSON:
    return {"requests": amounts, "limits": amounts}


def barrier_of(pod: JSON) -> JSON:
    (found,) = [one for one in pod["spec"]["initContainers"] if one["name"] == "frameworkbarrier"]
    return dict(found["resources"])


GUARANTEED = both(cpu="1", memory="1Gi")
CLASSES: dict[str, tuple[list[JSON], str]] = {
    "guaranteed": ([GUARANTEED, both(cpu="100m", memory="64Mi")], "Guaranteed"),
    "limits without requests": ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
    "less than the barrier needs": ([both(cpu="5m", memory="16Mi")], "Guaranteed"),
    "requests below limits": (
        [{"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi"}}],
        "Burstable",
    ),
    "requests": ([{"requests": {"cpu": "1", "memory": "1Gi"}}], "Burstable"),
    "memory alone": ([both(memory="1Gi")], "Burstable"),
    "one container of two": ([GUARANTEED, {}], "Burstable"),
    "nothing": ([{}, {}], "BestEffort"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CLASSES)
def test_a_pod_keeps_its_qos_class(case: str, mode: str, raw: RawClient, namespace: str) -> None:
    resources, expected = CLASSES[case]
    plain = pod_of(namespace, *resources)
    del plain["metadata"]["labels"][LABEL]
    dry = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", plain)
    created = create(raw, namespace, pod_of(namespace, *resources, mode=mode))
    assert created["spec"]["initContainers"][-1]["name"] == "frameworkbarrier"
    assert created["status"]["qosClass"] == dry["status"]["qosClass"] == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_pod_with_resources_of_its_own_shares_them_with_the_barrier(
    mode: str, raw: RawClient, namespace: str
) -> None:
    """A server before 1.34 leaves them out, and the Pod has none."""
    pod = pod_of(namespace, {}, {"requests": {"cpu": "1"}}, mode=mode)
    pod["spec"]["resources"] = both(cpu="1", memory="1Gi")
    plain = pod_of(namespace, {}, {"requests": {"cpu": "1"}})
    del plain["metadata"]["labels"][LABEL]
    plain["spec"]["resources"] = pod["spec"]["resources"]
    dry = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", plain)
    created = create(raw, namespace, pod)
    if "resources" in created["spec"]:
        assert barrier_of(created) == {}
    assert created["status"]["qosClass"] == dry["status"]["qosClass"]


def limit_range(raw: RawClient, namespace: str, of: str, **item: Any) -> None:
    """Create a LimitRange, and wait until the server enforces it."""
    limits = {"limits": [{"type": of, **item}]}
    raw.create(f"/api/v1/namespaces/{namespace}/limitranges", {"metadata": {"name": "limits"}, "spec": limits})
    refused = pod_of(namespace, both(cpu="1m", memory="1Mi") | {"limits": {"cpu": "100", "memory": "1Ti"}})
    del refused["metadata"]["labels"][LABEL]

    def enforced() -> None:
        assert "forbidden" in refusal_of(raw, f"/api/v1/namespaces/{namespace}/pods", refused)

    eventually(enforced, timeout=30)


LARGE: JSON = both(cpu="2", memory="4Gi")
MIXED: JSON = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
RANGES: dict[str, tuple[str, JSON, JSON]] = {
    "max": ("Container", {"max": {"cpu": "4", "memory": "8Gi"}}, LARGE),
    "max of a Pod": ("Pod", {"max": {"cpu": "4", "memory": "8Gi"}}, LARGE),
    "min of a Pod": ("Pod", {"min": {"cpu": "1", "memory": "1Gi"}}, LARGE),
    "ratio 1": ("Container", {"maxLimitRequestRatio": {"cpu": "1", "memory": "1"}}, LARGE),
    "ratio 2": ("Container", {"maxLimitRequestRatio": {"cpu": "2", "memory": "2"}}, MIXED),
    "ratio 2 of a Pod": ("Pod", {"maxLimitRequestRatio": {"cpu": "2", "memory": "2"}}, MIXED),
    "ratio and defaults": (
        "Container",
        {"maxLimitRequestRatio": {"cpu": "2"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", RANGES)
def test_a_limit_range_that_accepts_the_application_accepts_the_barrier(
    case: str, mode: str, raw: RawClient, namespace: str
) -> None:
    of, item, resources = RANGES[case]
    limit_range(raw, namespace, of, **item)
    created = create(raw, namespace, pod_of(namespace, resources, mode=mode))
    assert barrier_of(created)["limits"]


MINIMUM = {"min": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}}


def test_a_minimum_that_the_application_meets_is_met_by_an_init_container(raw: RawClient, namespace: str) -> None:
    limit_range(raw, namespace, "Container", **MINIMUM)
    amounts = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "2Gi"}
    created = create(raw, namespace, pod_of(namespace, both(**amounts)))
    assert barrier_of(created) == both(**amounts)


def test_a_minimum_needs_an_annotation_of_a_sidecar(raw: RawClient, namespace: str) -> None:
    limit_range(raw, namespace, "Container", **MINIMUM)
    application = both(cpu="2", memory="4Gi", **{"ephemeral-storage": "2Gi"})
    with pytest.raises(ApiStatusError, match="minimum memory usage per Container is 1Gi"):
        create(raw, namespace, pod_of(namespace, application, mode="sidecar"))
    asked = "cpu=1,memory=1Gi,ephemeral-storage=1Gi"
    created = create(raw, namespace, pod_of(namespace, application, mode="sidecar", requests=asked))
    expected = {"cpu": "1", "memory": "1Gi"}
    assert {name: barrier_of(created)["limits"][name] for name in expected} == expected
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize("mode", MODES)
def test_a_quota_that_wants_limits_accepts_the_barrier(mode: str, raw: RawClient, namespace: str) -> None:
    hard = dict.fromkeys(("requests.cpu", "limits.cpu"), "100")
    hard |= dict.fromkeys(("requests.memory", "limits.memory"), "100Gi")
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    raw.create(path, {"metadata": {"name": "quota"}, "spec": {"hard": hard}})
    without = pod_of(namespace, {"requests": {"cpu": "1", "memory": "1Gi"}})
    del without["metadata"]["labels"][LABEL]

    def enforced() -> None:
        assert "must specify limits.cpu" in refusal_of(raw, f"/api/v1/namespaces/{namespace}/pods", without)

    eventually(enforced, timeout=30)
    create(raw, namespace, pod_of(namespace, MIXED, LARGE, mode=mode))


def test_an_init_container_takes_nothing_of_a_quota(raw: RawClient, namespace: str) -> None:
    hard = {"requests.cpu": "2", "limits.cpu": "2", "requests.memory": "4Gi", "limits.memory": "4Gi"}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    raw.create(path, {"metadata": {"name": "quota"}, "spec": {"hard": hard}})

    def enforced() -> None:
        assert "exceeded quota" in refusal_of(
            raw, f"/api/v1/namespaces/{namespace}/pods", pod_of(namespace, LARGE, mode="sidecar")
        )

    eventually(enforced, timeout=30)
    create(raw, namespace, pod_of(namespace, LARGE))


def test_the_secrets_of_the_account_stay_and_those_of_the_barrier_are_added_once(
    raw: RawClient, namespace: str
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    raw.merge(account, {"imagePullSecrets": [{"name": "of-the-account"}]})
    expected = [{"name": "of-the-account"}, {"name": "for-the-barrier"}]

    def merged() -> None:
        dry = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", framework_pod(namespace))
        assert dry["spec"]["imagePullSecrets"] == expected

    eventually(merged, timeout=30)
    pod = framework_pod(namespace)
    pod["spec"]["imagePullSecrets"] = [{"name": "own"}]
    found = create(raw, namespace, pod)["spec"]["imagePullSecrets"]
    assert found == [{"name": "own"}, {"name": "for-the-barrier"}, {"name": "of-the-account"}]
