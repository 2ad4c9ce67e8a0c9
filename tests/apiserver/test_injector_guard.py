"""Of the policies that add the barrier, an API server before 1.36 takes the one that refuses Pods without a barrier."""

from __future__ import annotations

import pytest

from frameworkinjector import __version__
from frameworkinjector.config import Config
from frameworkinjector.policy import MINIMUM
from localcluster.client import ApiStatusError, RawClient
from tests.injector.policies import dry_run, only_refusing
from tests.injector.replica_processes import create, framework_pod

pytestmark = pytest.mark.apiserver


def test_where_nothing_adds_the_barrier_a_pod_is_refused_with_the_cause(raw: RawClient, namespace: str) -> None:
    with only_refusing(raw, Config(version=__version__)):
        message = dry_run(raw, namespace)
        for part in ("frameworkcontroller.microsoft.com/barrier", "MutatingAdmissionPolicy", MINIMUM, "403"):
            assert part in message
        with pytest.raises(ApiStatusError) as refused:
            create(raw, namespace, framework_pod(namespace, presett="jax"))
        assert "barrier.frameworkcontroller.microsoft.com/presett' is not a setting" in str(refused.value.body)
        plain = framework_pod(namespace)
        plain["metadata"]["labels"]["frameworkcontroller.microsoft.com/barrier"] = "disabled"
        assert "initContainers" not in create(raw, namespace, plain)["spec"]
