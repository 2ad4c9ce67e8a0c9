"""The whole request path against inputs that nobody meant to send; ``injector.fuzz`` does the same at length."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkinjector.config import EnvFiles
from frameworkinjector.reasons import Reason
from injector.fuzz import check, mutated, review_of, seeds

LABELS = {"frameworkcontroller.microsoft.com/barrier": "enabled", "FC_FRAMEWORK_NAME": "mnist"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["app", "b", "frameworkbarrier", "", "frameworkbarrier-token"])
PATHS = st.sampled_from(["/", "/etc/hosts", "/etc/hosts/", "/etc/../etc/hosts", "/mnt/frameworkbarrier", "/data"])


def maybe(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """As it should be, absent-like, or something else altogether."""
    return st.one_of(value, value, value, st.none(), ANYTHING)


MOUNTS = st.lists(st.fixed_dictionaries({"name": NAMES, "mountPath": PATHS}), max_size=3)
ENV = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["TF_CONFIG", "RANK", "X"])}), max_size=3)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "command": maybe(st.lists(st.text(max_size=5), max_size=3)),
            "env": maybe(ENV),
            "volumeMounts": maybe(MOUNTS),
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
                {"labels": maybe(st.just(LABELS))},
                optional={
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
                                    "containers": st.sampled_from(["app", "app,b"]),
                                    "status": st.text(max_size=5),
                                }.items()
                            },
                        )
                    )
                },
            )
        ),
        "spec": maybe(
            st.fixed_dictionaries(
                {"containers": CONTAINERS},
                optional={
                    "initContainers": maybe(CONTAINERS),
                    "volumes": maybe(st.lists(st.fixed_dictionaries({"name": NAMES}), max_size=3)),
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
@settings(max_examples=400, deadline=None)
def test_any_pod_is_injected_left_alone_or_refused_and_never_twice(pod: Any, env_files: EnvFiles) -> None:
    check(review_of(pod), env_files)


@given(body=st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_answered(body: bytes) -> None:
    check(body)


@given(review=ANYTHING)
@settings(max_examples=200, deadline=None)
def test_any_json_is_answered(review: Any) -> None:
    check(json.dumps(review).encode())


def test_two_thousand_mutations_of_the_golden_pods_are_answered() -> None:
    draw, known = random.Random(20261121), seeds()
    reasons = {check(mutated(known, draw)).verdict.reason for _ in range(2000)}
    # The mutations reach the whole path, not its first check only.
    assert {Reason.INJECTED, Reason.MALFORMED_POD, Reason.NOT_A_REVIEW, Reason.BAD_VALUE} <= reasons


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
def test_the_request_around_the_pod_is_looked_at_first(request_: dict[str, Any], reason: Reason) -> None:
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "app"}]}}
    assert check(review_of(pod, **request_)).verdict.reason is reason


@pytest.mark.parametrize("depth", [100, 1000, 10_000, 500_000])
def test_deep_nesting_is_answered(depth: int) -> None:
    pod = '{"metadata":{"labels":{"frameworkcontroller.microsoft.com/barrier":"enabled"}},"spec":{"deep":'
    body = review_of({}).replace(b'"object": {}', b'"object": ' + (pod + "[" * depth + "]" * depth + "}}").encode())
    check(body)
