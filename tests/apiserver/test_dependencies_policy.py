"""The admission policy that refuses TaskRoles which can never begin, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import MAX_DEPENDENCIES, MAX_EDGES, MAX_ROLES
from localcluster.client import ApiStatusError
from testkit.frameworks import framework, manifests_of, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster.client import Json, RawClient

pytestmark = pytest.mark.apiserver
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def dependent(**depends_on: tuple[str, ...]) -> list[Json]:
    """TaskRoles that depend on these others."""
    return [
        {**role(name, 1), "dependsOn": [{"name": other, "status": "Ready"} for other in others]}
        for name, others in depends_on.items()
    ]


class Policy:
    """Frameworks of a namespace in which the policy is in force."""

    def __init__(self, raw: RawClient, namespace: str) -> None:
        self.raw, self.namespace = raw, namespace
        self.path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/frameworks"

    def ask(self, *roles: Json) -> str:
        """Try to create a Framework; why it is refused, "" if it is not."""
        try:
            self.raw.create(f"{self.path}?dryRun=All", framework(self.namespace, "fw", *roles))
        except ApiStatusError as error:
            if error.status != 422:
                raise
            return str(error.body["message"])  # type: ignore[index]
        return ""


@pytest.fixture
def policy(raw: RawClient, namespace: str) -> Iterator[Policy]:
    """The policy, bound to the namespace of the test only."""
    paths = []
    found = [one for one in manifests_of("frameworkcontroller") if one["kind"] in PLURALS]
    for document in found:
        if document["kind"] == "ValidatingAdmissionPolicyBinding":
            selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            document["spec"]["matchResources"] = {"namespaceSelector": selector}
        document["metadata"]["name"] = f"{namespace}-dependencies"
        if "policyName" in document["spec"]:
            document["spec"]["policyName"] = f"{namespace}-dependencies"
        raw.create(f"{ADMISSION}/{PLURALS[document['kind']]}", document)
        paths.append(f"{ADMISSION}/{PLURALS[document['kind']]}/{namespace}-dependencies")
    found = Policy(raw, namespace)

    def in_force() -> None:
        assert "there is no TaskRole none" in found.ask(*dependent(probe=("none",)))

    eventually(in_force, 60)
    yield found
    for path in reversed(paths):
        raw.delete(path)


def test_what_can_never_begin_is_refused_with_its_names(policy: Policy) -> None:
    lost = policy.ask(*dependent(a=(), b=("a", "x", "y"), c=("z",)))
    assert "spec.taskRoles[b].dependsOn: there is no TaskRole x, y" in lost
    assert "these wait for each other by dependsOn: a" in policy.ask(*dependent(a=("a",)))
    assert "these wait for each other by dependsOn: a, b, c" in policy.ask(
        *dependent(a=("c",), b=("a",), c=("b",), d=())
    )
    behind = policy.ask(*dependent(a=("b",), b=("a",), c=("a",), d=("c",)))
    assert "these wait for each other by dependsOn: a, b, c, d" in behind


def test_what_can_begin_is_accepted(policy: Policy) -> None:
    chain = {f"r{number}": (f"r{number + 1}",) for number in range(12)} | {"r12": ()}
    for roles in (
        dependent(**chain),
        dependent(a=(), b=("a",), c=("a", "b"), d=("b", "c")),
        [role("a", 1)],
        [{**role("a", 1), "dependsOn": None}],
        [],
    ):
        assert policy.ask(*roles) == ""
    assert policy.raw.create(
        f"{policy.path}?dryRun=All", {**framework(policy.namespace, "fw"), "spec": {"taskRoles": None}}
    )


def test_a_role_that_others_wait_for_cannot_be_removed_and_the_rest_may_change(policy: Policy) -> None:
    policy.raw.create(policy.path, framework(policy.namespace, "fw", *dependent(a=(), b=("a",))))
    with pytest.raises(ApiStatusError, match="there is no TaskRole a"):
        policy.raw.merge(f"{policy.path}/fw", {"spec": {"taskRoles": dependent(b=("a",))}})
    policy.raw.merge(f"{policy.path}/fw", {"spec": {"description": "changed", "executionType": "Stop"}})
    policy.raw.merge(f"{policy.path}/fw", {"spec": {"taskRoles": dependent(b=())}})


def test_a_very_large_framework_is_left_to_the_controller(policy: Policy) -> None:
    """The policy may cost too much for it; it must not be in the way."""
    first = [f"first{number}" for number in range(MAX_DEPENDENCIES)]
    others = [f"r{number}" for number in range(MAX_EDGES // MAX_DEPENDENCIES)]
    rest = [role(f"alone{number}", 1) for number in range(MAX_ROLES - len(first) - len(others))]
    assert policy.ask(*dependent(**dict.fromkeys(first, ()), **dict.fromkeys(others, tuple(first))), *rest) == ""
