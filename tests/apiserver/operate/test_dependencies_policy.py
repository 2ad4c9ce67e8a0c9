"""The admission policy that refuses TaskRoles which can never begin, on a real API server."""

from collections.abc import Callable, Iterator

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import MAX_DEPENDENCIES, MAX_EDGES, MAX_ROLES
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import Frameworks, framework, manifests_of, role
from tests.support.beside.refusals import refusal_of
from tests.support.waiting import has

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


@pytest.fixture
def ask(raw: RawClient, namespace: str) -> Iterator[Callable[..., str]]:
    """Why a Framework of these TaskRoles would be refused where the policy is in force; "" if it would not be."""
    paths, name = [], f"{namespace}-dependencies"
    for document in (one for one in manifests_of("frameworkcontroller") if one["kind"] in PLURALS):
        document["metadata"]["name"] = name
        if document["kind"] == "ValidatingAdmissionPolicyBinding":
            selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            document["spec"] |= {"policyName": name, "matchResources": {"namespaceSelector": selector}}
        raw.create(f"{ADMISSION}/{PLURALS[document['kind']]}", document)
        paths.append(f"{ADMISSION}/{PLURALS[document['kind']]}/{name}")

    def refusal(*roles: Json) -> str:
        path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/frameworks"
        return refusal_of(raw, path, framework(namespace, "fw", *roles))

    has(lambda: refusal(*dependent(probe=("none",))), "there is no TaskRole none", 60)
    yield refusal
    for path in reversed(paths):
        raw.delete(path)


def test_what_can_never_begin_is_refused_with_its_names_and_what_can_is_accepted(
    ask: Callable[..., str], raw: RawClient, frameworks: Frameworks
) -> None:
    lost = ask(*dependent(a=(), b=("a", "x", "y"), c=("z",)))
    assert "spec.taskRoles[b].dependsOn: there is no TaskRole x, y" in lost
    for roles, circle in (
        (dependent(a=("a",)), "a"),
        (dependent(a=("c",), b=("a",), c=("b",), d=()), "a, b, c"),
        (dependent(a=("b",), b=("a",), c=("a",), d=("c",)), "a, b, c, d"),
    ):
        assert f"these wait for each other by dependsOn: {circle}" in ask(*roles)
    chain = {f"r{number}": (f"r{number + 1}",) for number in range(12)} | {"r12": ()}
    for roles in (
        dependent(**chain),
        dependent(a=(), b=("a",), c=("a", "b"), d=("b", "c")),
        [role("a", 1)],
        [{**role("a", 1), "dependsOn": None}],
        [],
    ):
        assert ask(*roles) == ""
    without = {**framework(frameworks.namespace, "fw"), "spec": {"taskRoles": None}}
    assert refusal_of(raw, frameworks.path, without) == ""
    # The policy may cost too much for a very large Framework, and must not be in the way: the controller judges it.
    first = [f"first{number}" for number in range(MAX_DEPENDENCIES)]
    others = [f"r{number}" for number in range(MAX_EDGES // MAX_DEPENDENCIES)]
    rest = [role(f"alone{number}", 1) for number in range(MAX_ROLES - len(first) - len(others))]
    assert ask(*dependent(**dict.fromkeys(first, ()), **dict.fromkeys(others, tuple(first))), *rest) == ""


@pytest.mark.usefixtures("ask")
def test_a_role_that_others_wait_for_cannot_be_removed_and_the_rest_may_change(frameworks: Frameworks) -> None:
    frameworks.create("fw", *dependent(a=(), b=("a",)))
    with pytest.raises(ApiStatusError, match="there is no TaskRole a"):
        frameworks.merge("fw", taskRoles=dependent(b=("a",)))
    frameworks.merge("fw", description="changed", executionType="Stop")
    frameworks.merge("fw", taskRoles=dependent(b=()))
