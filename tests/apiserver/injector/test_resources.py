"""The resources and the pull secrets of the barrier as the API server judges them: QoS, LimitRanges, quotas."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.client import ApiStatusError, RawClient
from tests.injector.golden_pods import JSON
from tests.injector.replica_processes import LABEL, Replica, called, create, framework_pod
from tests.support.beside.refusals import refusal_of
from tests.support.rows import each
from tests.support.waiting import becomes, has

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector"), pytest.mark.usefixtures("injector")]

MODES = ("init", "sidecar")


@pytest.fixture(scope="module")
def injector(raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A replica with pull secrets."""
    secrets = ("--barrier-image-pull-secret=for-the-barrier", "--barrier-image-pull-secret=of-the-account")
    with called(raw, identity, tmp_path_factory.mktemp("injector"), *secrets) as replica:
        yield replica


def pod_of(namespace: str, *resources: JSON, **settings: str) -> JSON:
    """Return a Pod with a container for each of these resources; `settings` become annotations."""
    pod = framework_pod(namespace, **settings)
    (app,) = pod["spec"]["containers"]
    pod["spec"]["containers"] = [{**app, "name": f"app-{at}", "resources": one} for at, one in enumerate(resources)]
    return pod


def unlabelled(pod: JSON) -> JSON:
    del pod["metadata"]["labels"][LABEL]
    return pod


def dry_run(raw: RawClient, namespace: str, pod: JSON) -> JSON:
    return raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def enforced(raw: RawClient, namespace: str, pod: JSON, refusal: str, kind: str, **spec: object) -> None:
    """Create a LimitRange or a quota, and wait until the server refuses this Pod by it."""
    raw.create(f"/api/v1/namespaces/{namespace}/{kind}", {"metadata": {"name": "limits"}, "spec": spec})
    has(lambda: refusal_of(raw, f"/api/v1/namespaces/{namespace}/pods", pod), refusal, 30)


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


@each("case, mode", itertools.product(CLASSES, MODES))
def test_a_pod_keeps_its_qos_class(case: str, mode: str, raw: RawClient, namespace: str) -> None:
    resources, expected = CLASSES[case]
    plain = dry_run(raw, namespace, unlabelled(pod_of(namespace, *resources)))
    injected = dry_run(raw, namespace, pod_of(namespace, *resources, mode=mode))
    assert injected["spec"]["initContainers"][-1]["name"] == "frameworkbarrier"
    assert injected["status"]["qosClass"] == plain["status"]["qosClass"] == expected


@each("mode", MODES)
def test_a_pod_with_resources_of_its_own_shares_them_with_the_barrier(
    mode: str, raw: RawClient, namespace: str
) -> None:
    """A server before 1.34 leaves them out, and the Pod has none."""
    pod = pod_of(namespace, {}, {"requests": {"cpu": "1"}}, mode=mode)
    pod["spec"]["resources"] = both(cpu="1", memory="1Gi")
    injected = dry_run(raw, namespace, pod)
    if "resources" in injected["spec"]:
        assert barrier_of(injected) == {}
    assert injected["status"]["qosClass"] == dry_run(raw, namespace, unlabelled(pod))["status"]["qosClass"]


def limit_range(raw: RawClient, namespace: str, of: str, item: JSON) -> None:
    refused = pod_of(namespace, {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "100", "memory": "1Ti"}})
    enforced(raw, namespace, unlabelled(refused), "forbidden", "limitranges", limits=[{"type": of, **item}])


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


@pytest.mark.parametrize("case", RANGES)
def test_a_limit_range_that_accepts_the_application_accepts_the_barrier(
    case: str, raw: RawClient, namespace: str
) -> None:
    of, item, resources = RANGES[case]
    limit_range(raw, namespace, of, item)
    for mode in MODES:
        assert barrier_of(dry_run(raw, namespace, pod_of(namespace, resources, mode=mode)))["limits"]


def test_a_minimum_is_met_by_an_init_container_and_needs_an_annotation_of_a_sidecar(
    raw: RawClient, namespace: str
) -> None:
    minimum = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    limit_range(raw, namespace, "Container", {"min": minimum})
    application = both(cpu="2", memory="4Gi", **{"ephemeral-storage": "2Gi"})
    assert barrier_of(dry_run(raw, namespace, pod_of(namespace, application))) == application
    with pytest.raises(ApiStatusError, match="minimum memory usage per Container is 1Gi"):
        create(raw, namespace, pod_of(namespace, application, mode="sidecar"))
    asked = "cpu=1,memory=1Gi,ephemeral-storage=1Gi"
    created = create(raw, namespace, pod_of(namespace, application, mode="sidecar", requests=asked))
    assert {name: barrier_of(created)["limits"][name] for name in ("cpu", "memory")} == {"cpu": "1", "memory": "1Gi"}
    assert created["status"]["qosClass"] == "Guaranteed"


def quota(raw: RawClient, namespace: str, pod: JSON, refusal: str, cpu: str, memory: str) -> None:
    hard = {"requests.cpu": cpu, "limits.cpu": cpu, "requests.memory": memory, "limits.memory": memory}
    enforced(raw, namespace, pod, refusal, "resourcequotas", hard=hard)


def test_a_quota_that_wants_limits_accepts_the_barrier(raw: RawClient, namespace: str) -> None:
    without = unlabelled(pod_of(namespace, {"requests": {"cpu": "1", "memory": "1Gi"}}))
    quota(raw, namespace, without, "must specify limits.cpu", cpu="100", memory="100Gi")
    for mode in MODES:
        dry_run(raw, namespace, pod_of(namespace, MIXED, LARGE, mode=mode))


def test_an_init_container_takes_nothing_of_a_quota(raw: RawClient, namespace: str) -> None:
    sidecar = pod_of(namespace, LARGE, mode="sidecar")
    quota(raw, namespace, sidecar, "exceeded quota", cpu="2", memory="4Gi")
    create(raw, namespace, pod_of(namespace, LARGE))


def test_the_secrets_of_the_account_stay_and_those_of_the_barrier_are_added_once(
    raw: RawClient, namespace: str
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    raw.merge(account, {"imagePullSecrets": [{"name": "of-the-account"}]})

    def secrets(**spec: object) -> list[str]:
        pod = framework_pod(namespace)
        pod["spec"] |= spec
        return [one["name"] for one in dry_run(raw, namespace, pod)["spec"]["imagePullSecrets"]]

    becomes(secrets, ["of-the-account", "for-the-barrier"], 30)
    assert secrets(imagePullSecrets=[{"name": "own"}]) == ["own", "for-the-barrier", "of-the-account"]
