"""The whole request path against random inputs; `random_fuzzer` and `coverage_fuzzer` try many more."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.reasons import Reason
from tests.injector.random_fuzzer import check, mutated, seeds
from tests.injector.reviews import LABELS, review_of

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
WITHOUT_FRAMEWORK = {
    "frameworkcontroller.microsoft.com/barrier": "enabled",
    "batch.kubernetes.io/job-completion-index": "1",
    "leaderworkerset.sigs.k8s.io/name": "x",
}
NAMES = st.sampled_from(["app", "b", "frameworkbarrier", "", "frameworkbarrier-token", "istio-proxy"])
PATHS = st.sampled_from(["/", "/etc/hosts", "/etc/hosts/", "/etc/../etc/hosts", "/mnt/frameworkbarrier", "/data"])


def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a valid value, null, or anything."""
    return st.one_of(value, value, value, st.none(), ANYTHING)


MOUNTS = st.lists(st.fixed_dictionaries({"name": NAMES, "mountPath": PATHS}), max_size=3)
ENV = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["TF_CONFIG", "RANK", "X"])}), max_size=3)
SOURCES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "prefix": st.sampled_from(["", "TF_", "TF_CONFIG", "A_"]),
            "configMapRef": maybe(st.fixed_dictionaries({"name": st.text(max_size=5)})),
            "secretRef": maybe(st.fixed_dictionaries({"name": st.text(max_size=5)})),
        },
    ),
    max_size=3,
)
REQUIREMENTS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["kubernetes.io/os", "x"]), "operator": st.sampled_from(["In", "NotIn", "Exists"])},
        optional={"values": maybe(st.lists(st.sampled_from(["windows", "linux"]), max_size=2))},
    ),
    max_size=2,
)
TERMS = st.lists(st.fixed_dictionaries({}, optional={"matchExpressions": maybe(REQUIREMENTS)}), max_size=2)
REQUIRED = st.fixed_dictionaries({"nodeSelectorTerms": maybe(TERMS)})
AFFINITY = st.fixed_dictionaries(
    {"nodeAffinity": maybe(st.fixed_dictionaries({"requiredDuringSchedulingIgnoredDuringExecution": maybe(REQUIRED)}))}
)
OWNERS = st.lists(
    st.fixed_dictionaries({"kind": st.sampled_from(["Job", "ReplicaSet", ""]), "controller": maybe(st.booleans())}),
    max_size=2,
)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.org/gpu"]),
    maybe(st.sampled_from(["1", "0", "100m", "1e3", "64Mi", "1e99", "-1", 2, 0.5, 1e308, 2**70])),
    max_size=3,
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": maybe(AMOUNTS), "limits": maybe(AMOUNTS)})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "command": maybe(st.lists(st.text(max_size=5), max_size=3)),
            "env": maybe(ENV),
            "envFrom": maybe(SOURCES),
            "volumeMounts": maybe(MOUNTS),
            "resources": maybe(RESOURCES),
            "restartPolicy": st.just("Always"),
            "unknown": ANYTHING,
        },
    ),
    max_size=4,
)
PODS = st.fixed_dictionaries(
    {
        "metadata": maybe(
            st.fixed_dictionaries(
                {"labels": maybe(st.just(LABELS) | st.just(WITHOUT_FRAMEWORK))},
                optional={
                    "name": maybe(st.sampled_from(["a", "a-1"])),
                    "ownerReferences": maybe(OWNERS),
                    "annotations": maybe(
                        st.fixed_dictionaries(
                            {},
                            optional={
                                f"barrier.frameworkcontroller.microsoft.com/{name}": value
                                for name, value in {
                                    "preset": st.sampled_from(["tensorflow", "pytorch,jax", "x"]),
                                    "env": st.sampled_from(["auto", "file", "wrap", "none", ""]),
                                    "hosts": st.sampled_from(["mount", "none"]),
                                    "mode": st.sampled_from(["init", "sidecar"]),
                                    "roles": st.sampled_from(["worker=2", "ps=1,worker=2"]),
                                    "role-label": st.just("role"),
                                    "output-dir": st.sampled_from(["/data", "/srv/gang", "/"]),
                                    "requests": st.sampled_from(["cpu=1", "cpu=1m,memory=1Gi", "memory=0"]),
                                    "limits": st.sampled_from(["cpu=1", "cpu=1m,memory=64Mi", "memory=1e99"]),
                                    "containers": st.sampled_from(["app", "app,b"]),
                                    "status": st.text(max_size=5),
                                }.items()
                            }
                            | {"sidecar.istio.io/status": st.text(max_size=5) | st.just('{"containers": ["b"]}')},
                        )
                    ),
                },
            )
        ),
        "spec": maybe(
            st.fixed_dictionaries(
                {"containers": CONTAINERS},
                optional={
                    "initContainers": maybe(CONTAINERS),
                    "volumes": maybe(st.lists(st.fixed_dictionaries({"name": NAMES}), max_size=3)),
                    "affinity": maybe(AFFINITY),
                    "resources": maybe(RESOURCES),
                    "hostNetwork": maybe(st.booleans()),
                    "hostAliases": maybe(st.lists(ANYTHING, max_size=2)),
                    "securityContext": maybe(st.fixed_dictionaries({"runAsUser": st.integers()})),
                    "os": maybe(st.just({"name": "windows"})),
                    "unknown": ANYTHING,
                },
            )
        ),
    }
)


@given(pod=PODS, env_files=st.sampled_from(EnvFiles))
@settings(max_examples=400)
def test_any_pod_is_injected_left_alone_or_refused_and_never_twice(pod: Any, env_files: EnvFiles) -> None:
    check(review_of(pod), env_files)


@given(body=st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_are_answered(body: bytes) -> None:
    check(body)


@given(review=ANYTHING)
@settings(max_examples=200)
def test_any_json_is_answered(review: Any) -> None:
    check(json.dumps(review).encode())


def test_two_thousand_mutations_of_the_golden_pods_are_answered() -> None:
    draw, known = random.Random(20261121), seeds()
    reasons = {check(mutated(known, draw)).verdict.reason for _ in range(2000)}
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
    pod = '{"metadata":{"labels":{"frameworkcontroller.microsoft.com/barrier":"enabled"}},"spec":{"deep":'
    pod += opened * depth + "1" + closed * depth + "}}"
    check(review_of({}).replace(b'"object": {}', b'"object": ' + pod.encode()))
