"""The barrier by admission policies, without a webhook: what becomes of a Pod on a real API server."""

from __future__ import annotations

import json
import random
import re
import secrets
from typing import TYPE_CHECKING

import pytest

from frameworkbarrier import presets
from frameworkinjector import __version__
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.plan import MAX_CONTAINERS
from frameworkinjector.policyfaults import NEEDS_WEBHOOK
from frameworkinjector.render import rendered
from frameworkinjector.resources import Claims, read_limits, read_requests
from localcluster.client import ApiStatusError, RawClient
from localcluster.waiting import eventually
from tests.injector.created_pods import amounts, barrier_of, values
from tests.injector.golden_pods import CASES, INJECTED, REFUSED, pod_of
from tests.injector.policies import API, REQUIRED, dry_run, installed, path_of, put
from tests.injector.replica_processes import PREFIX, call, create, framework_pod, identity_of, installed_on, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster
    from tests.injector.golden_pods import JSON

pytestmark = [pytest.mark.apiserver, REQUIRED]

CONFIG = Config(version=__version__)
WRAP = "wrap needs the webhook"
# What the policy cannot do: part of the sentence by which it refuses a Pod that the webhook injects.
NOT_SERVED = {
    "all-settings": f"{PREFIX}containers needs the webhook",
    "containers-chosen": f"{PREFIX}containers needs the webhook",
    "job-default-policy": f"{PREFIX}selector needs the webhook",
    "job-restarted": f"{PREFIX}selector needs the webhook",
    "job-selector": f"{PREFIX}selector needs the webhook",
    "job-sidecar": f"{PREFIX}selector needs the webhook",
    "leader-of-a-leader-worker-set": f"{PREFIX}selector, which names them, needs the webhook",
    "leader-worker-set": f"{PREFIX}selector, which names them, needs the webhook",
    "mesh-istio-proxy-named": f"{PREFIX}containers needs the webhook",
    "no-preset-wrap": WRAP,
    "output-dir": f"{PREFIX}output-dir needs the webhook",
    "output-dir-wrap": f"{PREFIX}output-dir needs the webhook",
    "restart-in-place": f"{PREFIX}restart needs the webhook",
    "restart-own-policy": f"{PREFIX}restart needs the webhook",
    "restart-several-containers": f"{PREFIX}containers needs the webhook",
    "restart-wrap": f"{PREFIX}restart needs the webhook",
    "resources-annotated": f"{PREFIX}requests needs the webhook",
    "stateful-set": f"{PREFIX}selector needs the webhook",
    "template": f"{PREFIX}template needs the webhook",
    "user-set-variables-wrap": WRAP,
    "wrap-asked": WRAP,
    "wrap-one-of-two": f"{PREFIX}containers needs the webhook",
}
# What both refuse, but for other reasons: the policy an annotation, or the API server the result.
OTHER_WORDS = {
    *(case for case in REFUSED for name in NEEDS_WEBHOOK if PREFIX + name in str(pod_of(case))),
    *("refused-empty-preset", "refused-env", "refused-env-source-name", "refused-job-several-roles"),
    *("refused-folder-above", "refused-folder-below", "refused-folder-relative", "refused-folder-taken"),
    *("refused-file-unsupported", "refused-hosts-taken", "refused-malformed", "refused-mesh-no-delivery"),
    *("refused-no-containers", "refused-no-delivery", "refused-ports-repeated", "refused-quantity"),
    *("refused-repeated-preset",),
    *("refused-selector-missing", "refused-stateful-set-without-selector", "refused-timeout", "refused-timeout-zero"),
    *("refused-too-many-env-sources", "refused-unknown-preset", "refused-wrap-without-command"),
}
Outcomes = dict[str, "JSON | str"]


@pytest.fixture(scope="module")
def golden(raw: RawClient) -> Iterator[str]:
    """A namespace with the service accounts of the golden Pods."""
    name = f"golden-without-webhook-{secrets.token_hex(4)}"
    raw.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for account in {"default", *(pod_of(case)["spec"].get("serviceAccountName", "default") for case in CASES)}:
        document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
        raw.apply(f"/api/v1/namespaces/{name}/serviceaccounts/{account}", document)
    yield name
    raw.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def by_webhook(
    cluster: Cluster, raw: RawClient, golden: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, JSON | str]:
    """What becomes of each golden Pod by the webhook."""
    with installed_on(raw):
        replica = start(identity_of(cluster, raw, tmp_path_factory.mktemp("i")), tmp_path_factory.mktemp("injector"))
        try:
            replica.wait_until_ready()
            call(raw, replica.port)
            return {case: outcome_of(raw, golden, pod_of(case)) for case in CASES}
        finally:
            replica.stop()


@pytest.fixture(scope="module")
def policy(raw: RawClient, by_webhook: Outcomes) -> Iterator[None]:
    """The policies instead of the webhook."""
    with installed(raw, CONFIG):
        yield


@pytest.fixture(scope="module")
def by_policy(raw: RawClient, golden: str, policy: None) -> dict[str, JSON | str]:
    """What becomes of each golden Pod by the policies."""
    return {case: outcome_of(raw, golden, pod_of(case)) for case in CASES}


def message_of(error: ApiStatusError) -> str:
    return str(error.body["message"] if isinstance(error.body, dict) else error.body)


def outcome_of(raw: RawClient, namespace: str, pod: JSON) -> JSON | str:
    """Return the Pod as the server would store it, without what it draws by itself; or the message of a refusal."""
    generated = "generateName" in pod["metadata"]
    pod["metadata"]["namespace"] = namespace
    try:
        created = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiStatusError as error:
        return message_of(error)
    del created["status"]
    for name in ("uid", "creationTimestamp", "managedFields", *(["name"] if generated else [])):
        created["metadata"].pop(name, None)
    found: JSON = json.loads(re.sub(r"kube-api-access-\w+", "kube-api-access", json.dumps(created)))
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case not in {*NOT_SERVED, *REFUSED}])
def test_a_golden_pod_becomes_the_same_as_by_the_webhook(case: str, by_webhook: Outcomes, by_policy: Outcomes) -> None:
    assert by_policy[case] == by_webhook[case]


@pytest.mark.parametrize("case", NOT_SERVED)
def test_what_the_policy_cannot_do_is_refused_by_its_name(case: str, by_policy: Outcomes) -> None:
    assert NOT_SERVED[case] in str(by_policy[case])
    assert isinstance(by_policy[case], str)


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in OTHER_WORDS])
def test_a_refusal_has_the_sentence_of_the_webhook(case: str, by_webhook: Outcomes, by_policy: Outcomes) -> None:
    sentence = str(by_webhook[case]).partition("denied the request: ")[2]
    assert sentence
    assert str(by_policy[case]).endswith(f"denied request: {sentence}")


def test_no_golden_pod_is_created_without_its_barrier(by_webhook: Outcomes, by_policy: Outcomes) -> None:
    created = {case: pod for case, pod in by_policy.items() if isinstance(pod, dict)}
    assert {*created} >= {*INJECTED} - {*NOT_SERVED}
    without = {case for case, pod in created.items() if "initContainers" not in pod["spec"]}
    assert without == {"left-disabled", "left-hand-written", "left-without-label"} & without
    assert all(by_policy[case] == by_webhook[case] for case in without)


def test_a_refusal_is_final(raw: RawClient, policy: None, namespace: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        create(raw, namespace, framework_pod(namespace, preset="tensorfow"))
    # 422: the controller takes it as permanent and does not retry.
    assert refused.value.status == 422


# The API server applies policies in the order of their names: ours is `frameworkbarrier`.
@pytest.mark.parametrize("order", ["a", "z"], ids=["before", "after"])
def test_the_proxy_of_another_policy_stays_as_it_is(order: str, raw: RawClient, policy: None, namespace: str) -> None:
    other = {
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        "matchConditions": [
            {"name": "once", "expression": '!object.spec.containers.exists(one, one.name == "istio-proxy")'}
        ],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": '[JSONPatch{op: "add", path: "/spec/containers/0", '
                    'value: {"name": "istio-proxy", "image": "example.org/proxy:1"}}]'
                },
            }
        ],
    }
    head = {"apiVersion": API, "metadata": {"name": f"{order}-{namespace[-8:]}"}}
    both = [
        {**head, "kind": "MutatingAdmissionPolicy", "spec": other},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": head["metadata"]["name"]}},
    ]
    for document in both:
        raw.apply(path_of(document), document)
    try:

        def with_both() -> JSON:
            found = dry_run(raw, namespace)
            assert isinstance(found, dict)
            assert len(found["spec"]["containers"]) == 2
            return found

        created = eventually(with_both, timeout=30)
    finally:
        for document in both:
            raw.delete(path_of(document))
    assert [one["name"] for one in created["spec"]["initContainers"]] == ["frameworkbarrier"]
    containers = {one["name"]: one for one in created["spec"]["containers"]}
    assert "/mnt/frameworkbarrier" not in str(containers["istio-proxy"])
    assert [one["name"] for one in containers["app"]["env"]] == ["TF_CONFIG", "TF_CONFIG_FILE", "FB_VARIABLES"]


def test_the_settings_of_the_command_line_hold(raw: RawClient, by_policy: Outcomes, namespace: str) -> None:
    own = presets.decode("my-own", {"variables": {"MY_PEERS": "{{ roles }}", "COST": "$5"}, "optional": ["COST"]})
    config = Config(
        version="other",
        barrier_image="registry.example.org:5000/barrier@sha256:" + "0" * 64,
        pull_secrets=("registry", "registry"),
        resources=Claims(read_requests("memory=48Mi,ephemeral-storage=1Gi"), read_limits("cpu=2")),
        presets={"my-own": own},
    )
    put(raw, config)
    try:
        for settings in ({"preset": "my-own,jax"}, {"preset": "jax", "mode": "sidecar"}):
            pod = framework_pod(namespace, **settings)
            pod["spec"]["containers"][0]["resources"] = {
                "requests": {"cpu": "1", "memory": "100M", "ephemeral-storage": "2Gi"},
                "limits": {"cpu": "3", "memory": "1Gi"},
            }
            created = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            check_as_rendered(created, pod, config)
            assert created["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    finally:
        put(raw, CONFIG)


def test_the_barrier_asks_for_resources_as_by_the_webhook(raw: RawClient, policy: None, namespace: str) -> None:
    drawn = random.Random(13)
    some = {
        "cpu": ("7m", "50m", "100m", "0.3", "1", "2500m", "3"),
        "memory": ("1Mi", "33Mi", "96Mi", "1e9", "1Gi", "3000000001"),
        "ephemeral-storage": ("1Ki", "2Gi", "5G"),
    }

    def resources() -> JSON:
        found: JSON = {"requests": {}, "limits": {}}
        for name, texts in some.items():
            low, high = sorted(drawn.sample(range(len(texts)), 2))
            if drawn.random() < 0.7:
                found["requests"][name] = texts[low]
            if drawn.random() < 0.7:
                found["limits"][name] = texts[drawn.choice((low, high))]
        return found

    for _ in range(60):
        pod = framework_pod(namespace, mode=drawn.choice(("init", "sidecar")))
        (app,) = pod["spec"]["containers"]
        pod["spec"]["containers"] = [
            {**app, "name": f"app-{number}", "resources": resources()} for number in range(drawn.choice((1, 1, 3)))
        ]
        created = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        check_as_rendered(created, pod, CONFIG)


def check_as_rendered(created: JSON, pod: JSON, config: Config) -> None:
    """Check that the variables, resources and image of the barrier, and the variables, are those of the webhook."""
    predicted, _ = rendered(pod, config, EnvFiles.QUOTED)
    ours, expected = barrier_of(created), barrier_of(predicted)
    assert amounts(ours["resources"]) == amounts(expected["resources"])
    assert (ours["image"], values(ours)) == (expected["image"], values(expected))
    for container, wanted in zip(created["spec"]["containers"], predicted["spec"]["containers"], strict=True):
        assert values(container) == values(wanted)


@pytest.mark.parametrize("count", [MAX_CONTAINERS, 10 * MAX_CONTAINERS], ids=["as many as the webhook", "more"])
def test_the_largest_pods_get_their_barrier_or_are_refused(
    count: int, raw: RawClient, policy: None, namespace: str
) -> None:
    """The costs of expressions are limited: what the policy cannot compute is refused."""
    pod = framework_pod(namespace, preset="pytorch")
    (app,) = pod["spec"]["containers"]
    app["env"] = [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(50)]
    app["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    pod["spec"]["containers"] = [{**app, "name": f"app-{number}"} for number in range(count)]
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    if count <= MAX_CONTAINERS:
        check_as_rendered(raw.create(path, pod), pod, CONFIG)
    else:
        with pytest.raises(ApiStatusError, match="cost limit exceeded"):
            raw.create(path, pod)


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "jax," * 50_000},
        {"preset": "jax\nMASTER_ADDR=evil"},
        {"ports": ",".join(f"role{number}=1" for number in range(20_000))},
        {"image": "x" * 200_000},
        {"image": "image\\0$(HOME)"},
        {"timeout": "9" * 200_000},
        {"timeout": " 600\u00a0x "},
        {"mode": "init'] + ['x"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_hostile_values_are_refused(settings: dict[str, str], raw: RawClient, policy: None, namespace: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        create(raw, namespace, framework_pod(namespace, **settings))
    assert refused.value.status == 422


def test_beside_the_policies_the_webhook_serves_what_they_cannot(
    cluster: Cluster, raw: RawClient, policy: None, namespace: str, tmp_path: Path
) -> None:
    with installed_on(raw):
        replica = start(identity_of(cluster, raw, tmp_path), tmp_path)
        try:
            replica.wait_until_ready()
            call(raw, replica.port)
            pod = framework_pod(namespace, containers="app", output_dir="/srv/gang")
            created = create(raw, namespace, pod)
            assert barrier_of(created)["volumeMounts"][0]["mountPath"] == "/srv/gang"
            # The webhook finds the barrier of the policy.
            served = 'frameworkinjector_requests_total{outcome="left-alone",reason="already-present"}'
            assert f"{served} 0" not in replica.health("/metrics")[1]
        finally:
            replica.stop()
