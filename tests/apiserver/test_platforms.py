"""What platforms demand of Pods, by policies of a real API server."""

import pytest

from frameworkinjector import flags
from frameworkinjector.offline.render import rendered
from localcluster.client import Json, RawClient
from testkit.waiting import eventually
from tests.injector.golden_pods import pod_of
from tests.support.beside.refusals import policy_of_pods, refusal_of

pytestmark = pytest.mark.apiserver
# As OpenShift's restricted-v2: a user outside of the namespace's range is refused, one that is not named is chosen.
ALLOWED = """
(object.spec.containers + object.spec.?initContainers.orValue([])).all(one,
  int(one.?securityContext.runAsUser.orValue(1000680000)) in [1000680000, 1000680001])
"""


def injected(*options: str) -> Json:
    source = pod_of("several-containers")
    for container in source["spec"]["containers"]:
        # What can be wrapped needs no variables from files, which an older API server does not know.
        container.setdefault("command", ["true"])
    pod = rendered(source, *flags.offline(("--env-files=none", *options)))[0]
    return {**pod, "metadata": {**pod["metadata"], "namespace": None, "ownerReferences": []}}


def test_no_user_is_named_where_the_namespace_has_a_range_of_its_own(raw: RawClient, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def is_refused() -> None:
        assert "failed expression" in refusal_of(raw, pods, injected())

    with policy_of_pods(raw, namespace, expression=ALLOWED):
        eventually(is_refused, timeout=30)
        for uid in ("none", "1000680001"):
            pod = injected(f"--barrier-uid={uid}")
            assert pod["spec"]["initContainers"][-1]["name"] == "frameworkbarrier"
            assert refusal_of(raw, pods, pod) == ""
