"""The whole request path against random inputs; `coverage_fuzzer` tries many more."""

import json
import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkinjector.names import LABEL, PREFIX, RANK_TOPOLOGY, READS, STATUS
from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.eligibility import ISTIO_STATUS
from frameworkinjector.review.reasons import Reason
from tests.injector.random_fuzzer import check, mutated, seeds
from tests.injector.reviews import LABELS, review_of

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
WITHOUT_FRAMEWORK = {
    LABEL: "enabled",
    "batch.kubernetes.io/job-completion-index": "1",
    "leaderworkerset.sigs.k8s.io/name": "x",
}
NAMES = st.sampled_from(["app", "b", "frameworkbarrier", "", "frameworkbarrier-token", "istio-proxy"])
PATHS = st.sampled_from(["/", "/etc/hosts", "/etc/hosts/", "/etc/../etc/hosts", "/mnt/frameworkbarrier", "/data"])


def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a valid value, null, or anything."""
    return st.one_of(value, value, value, st.none(), ANYTHING)


def with_some(needed: dict[str, Any] | None = None, /, **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Draw an object that has the needed fields, and some of the optional ones."""
    return st.fixed_dictionaries(needed or {}, optional=optional)


def few(entry: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(entry, max_size=size)


NAMED = st.fixed_dictionaries({"name": st.text(max_size=5)})
ENV = few(st.fixed_dictionaries({"name": st.sampled_from(["TF_CONFIG", "RANK", "X"])}))
PREFIXES = st.sampled_from(["", "TF_", "TF_CONFIG", "A_"])
SOURCES = few(with_some(prefix=PREFIXES, configMapRef=maybe(NAMED), secretRef=maybe(NAMED)))
REQUIREMENT = with_some(
    {"key": st.sampled_from(["kubernetes.io/os", "x"]), "operator": st.sampled_from(["In", "NotIn", "Exists"])},
    values=maybe(few(st.sampled_from(["windows", "linux"]), 2)),
)
TERMS = few(with_some(matchExpressions=maybe(few(REQUIREMENT, 2))), 2)
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": maybe(with_some({"nodeSelectorTerms": maybe(TERMS)}))}
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.org/gpu"]),
    maybe(st.sampled_from(["1", "0", "100m", "1e3", "64Mi", "1e99", "-1", 2, 0.5, 1e308, 2**70])),
    max_size=3,
)
RESOURCES = with_some(requests=maybe(AMOUNTS), limits=maybe(AMOUNTS))
CONTAINERS = few(
    with_some(
        {"name": NAMES},
        command=maybe(few(st.text(max_size=5))),
        env=maybe(ENV),
        envFrom=maybe(SOURCES),
        volumeMounts=maybe(few(st.fixed_dictionaries({"name": NAMES, "mountPath": PATHS}))),
        resources=maybe(RESOURCES),
        restartPolicy=st.just("Always"),
        unknown=ANYTHING,
    ),
    4,
)
ANNOTATIONS = {
    "preset": ["tensorflow", "pytorch,jax", "x"],
    "env": ["auto", "file", "wrap", "none", ""],
    "hosts": ["mount", "none"],
    "mode": ["init", "sidecar"],
    "roles": ["worker=2", "ps=1,worker=2"],
    "role-label": ["role"],
    "output-dir": ["/data", "/srv/gang", "/"],
    "requests": ["cpu=1", "cpu=1m,memory=1Gi", "memory=0"],
    "limits": ["cpu=1", "cpu=1m,memory=64Mi", "memory=1e99"],
    "containers": ["app", "app,b"],
}
TEXTS = {PREFIX + name: st.sampled_from(texts) for name, texts in ANNOTATIONS.items()} | {
    STATUS: st.text(max_size=5),
    READS: st.text(max_size=5),
    RANK_TOPOLOGY: st.text(max_size=5) | st.just("zone, kubernetes.io/hostname"),
    ISTIO_STATUS: st.text(max_size=5) | st.just('{"containers": ["b"]}'),
}
OWNER = {"kind": st.sampled_from(["Job", "ReplicaSet", ""]), "controller": maybe(st.booleans())}
METADATA = with_some(
    {"labels": maybe(st.just(LABELS) | st.just(WITHOUT_FRAMEWORK))},
    name=maybe(st.sampled_from(["a", "a-1"])),
    ownerReferences=maybe(few(st.fixed_dictionaries(OWNER), 2)),
    annotations=maybe(with_some(**TEXTS)),
)
SPEC = with_some(
    {"containers": CONTAINERS},
    initContainers=maybe(CONTAINERS),
    volumes=maybe(few(st.fixed_dictionaries({"name": NAMES}))),
    affinity=maybe(with_some({"nodeAffinity": maybe(st.fixed_dictionaries(REQUIRED))})),
    resources=maybe(RESOURCES),
    hostNetwork=maybe(st.booleans()),
    hostAliases=maybe(few(ANYTHING, 2)),
    securityContext=maybe(st.fixed_dictionaries({"runAsUser": st.integers()})),
    os=maybe(st.just({"name": "windows"})),
    unknown=ANYTHING,
)
PODS = st.fixed_dictionaries({"metadata": maybe(METADATA), "spec": maybe(SPEC)})


@given(pod=PODS, env_files=st.sampled_from(EnvFiles))
@settings(max_examples=400)
def test_any_pod_is_injected_left_alone_or_refused_and_never_twice(pod: Any, env_files: EnvFiles) -> None:
    check(review_of(pod), env_files)


@given(body=st.binary(max_size=300) | ANYTHING.map(json.dumps).map(str.encode))
@settings(max_examples=400)
def test_any_bytes_and_any_json_are_answered(body: bytes) -> None:
    check(body)


def test_mutations_of_the_golden_pods_are_answered() -> None:
    draw, known = random.Random(20261121), seeds()
    reasons = {check(mutated(known, draw)).verdict.reason for _ in range(EXAMPLES)}
    # The mutations reach the whole path, not its first check only.
    reached = {Reason.INJECTED, Reason.MALFORMED_POD, Reason.NOT_A_REVIEW, Reason.BAD_VALUE, Reason.TOO_MANY_CONTAINERS}
    assert reached <= reasons


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"operation": "UPDATE"}, Reason.NOT_A_CREATE),
        ({"operation": "DELETE", "object": None}, Reason.NOT_A_CREATE),
        ({"subResource": "ephemeralcontainers"}, Reason.NOT_A_CREATE),
        ({"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}, Reason.NOT_A_POD),
        ({"kind": {"group": "other", "version": "v1", "kind": "Pod"}}, Reason.NOT_A_POD),
        ({"object": None}, Reason.MALFORMED_POD),
        ({"object": []}, Reason.MALFORMED_POD),
        ({"dryRun": True}, Reason.INJECTED),
        ({"dryRun": None}, Reason.INJECTED),
    ],
)
def test_the_request_is_checked_before_the_pod(request_: dict[str, Any], reason: Reason) -> None:
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "app"}]}}
    assert check(review_of(pod, **request_)).verdict.reason is reason


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"x":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [100, 1000, 10_000, 500_000])
def test_deep_nesting_is_answered(depth: int, opened: str, closed: str) -> None:
    body = review_of({"metadata": {"labels": {LABEL: "enabled"}}, "spec": {"deep": 1}})
    check(body.replace(b'"deep": 1', f'"deep": {opened * depth}1{closed * depth}'.encode()))
