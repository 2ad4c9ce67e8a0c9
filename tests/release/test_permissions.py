"""The permissions that the chart gives: the table of the security page, and what values take away."""

import json
from typing import Any

import pytest

from frameworkrelease import chart
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import permissions
from tests.apiserver.history.test_page_rights import PROGRAM
from tests.release.manifests import MATRIX, Manifests, Render, only, pod_of

pytestmark = pytest.mark.chart


@pytest.fixture(scope="module")
def rendered() -> str:
    return chart.rendered(*permissions.VALUES)


def rules_of(manifests: Manifests) -> list[tuple[str, Any]]:
    """Each rule, with the name of its role."""
    roles = [one for one in manifests if one["kind"] in {"Role", "ClusterRole"}]
    return [(role["metadata"]["name"], rule) for role in roles for rule in role["rules"]]


def granted(manifests: Manifests, program: str) -> list[tuple[str, str]]:
    """Each resource with each verb that the roles of a program's name allow."""
    rules = [rule for name, rule in rules_of(manifests) if name == program]
    return [(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]]


def test_a_reason_is_the_comment_above_its_rule_in_one_line_and_without_one_the_rule_is_named(rendered: str) -> None:
    def table(comment: str) -> str:
        return permissions.table(rendered.replace("  # Events about Frameworks.\n", comment))

    line = "| controller | `events` | all namespaces | `create`, `patch` | Events, #1 of all. |\n"
    assert line in table("  # Events,\n  # #1 of all.\n")
    with pytest.raises(ReleaseError, match="the controller may use `events`: say in the chart why"):
        table("")


def test_every_rule_and_role_of_the_chart_is_in_the_table(render: Render, rendered: str) -> None:
    # Two lines of head, and what the controller makes for the Pods of a gang.
    rules = rules_of(render({"history": {"enabled": True, "url": "https://history.example"}}))
    assert len(permissions.table(rendered).splitlines()) == 2 + len(rules) + 1


def test_the_page_has_the_rights_with_which_its_actions_are_tested(render: Render) -> None:
    manifests = render({"history": {"enabled": True}})
    asked = {(what, verb) for rule in PROGRAM for what in rule["resources"] for verb in rule["verbs"]}
    assert asked <= {*granted(manifests, "frameworkhistory")}
    (container,) = pod_of(manifests, "frameworkhistory")["containers"]
    (state,) = (one["value"] for one in container["env"] if one["name"] == "XDG_STATE_HOME")
    assert state in [one["mountPath"] for one in container["volumeMounts"]], "the root is read-only"


def test_no_values_but_those_of_what_is_optional_add_a_permission(render: Render) -> None:
    def rules(case: str) -> set[tuple[str, str]]:
        return {(role, json.dumps([rule["resources"], rule["verbs"]])) for role, rule in rules_of(render(case))}

    by_default = rules("defaults")
    added = {case: more for case in MATRIX if (more := rules(case) - by_default)}
    optional = {"gangs of others", "groups of a scheduler", "queues of Kueue", "ranks by topology"}
    assert added.keys() == optional | {case for case, values in MATRIX.items() if "history" in values}
    resources = {json.loads(rule)[0][0] for each in added.values() for _, rule in each}
    page = (chart.REPOSITORY / "docs" / "operate" / "security.md").read_text()
    assert [one for one in sorted(resources) if f"`{one}`" not in page] == []


def test_a_controller_that_grants_nothing_may_not_grant_anything(render: Render) -> None:
    manifests = render({"controller": {"config": {"grantRosterAccess": False}}})
    assert "roles" not in {resource for resource, _ in granted(manifests, "frameworkcontroller")}


def test_an_archive_without_actions_may_change_finalizers_alone(render: Render) -> None:
    def writes(actions: bool) -> list[tuple[str, str]]:
        manifests = render({"history": {"enabled": True, "actions": actions}})
        found = granted(manifests, "frameworkhistory")
        return [(resource, verb) for resource, verb in found if verb not in {"get", "list", "watch"}]

    more = [("frameworks", "create"), ("frameworks", "delete"), ("pods", "delete")]
    more += [("configmaps", "patch"), ("configmaps", "delete")]
    assert writes(actions=True) == [("frameworks", "patch"), *more]
    assert writes(actions=False) == [("frameworks", "patch")]
    least = render({"history": {"enabled": True, "actions": False}})
    policy = only(least, "ValidatingAdmissionPolicy", "frameworkhistory")["spec"]
    assert f"system:serviceaccount:{chart.NAMESPACE}:frameworkhistory" in policy["matchConditions"][0]["expression"]
    assert (
        only(least, "ValidatingAdmissionPolicyBinding", "frameworkhistory")["spec"]["policyName"] == "frameworkhistory"
    )


@pytest.mark.parametrize(
    "case", ["a certificate of cert-manager", "an issuer of cert-manager", "a certificate in a Secret"]
)
def test_an_injector_that_makes_no_certificate_has_no_permission_for_one(render: Render, case: str) -> None:
    # With cert-manager it has a Role still, for the dry run of a PodTemplate alone, as the goldens of these cases show.
    kinds = {"ClusterRoleBinding"} | ({"RoleBinding"} if case.endswith("Secret") else set())
    bindings = [one for one in render(case) if one["kind"] in kinds]
    assert {one["subjects"][0]["name"] for one in bindings} == {"frameworkcontroller"}


def test_for_some_namespaces_the_controller_has_the_same_permissions_there_and_none_beyond(render: Render) -> None:
    manifests = render({"watchNamespaces": ["team-a", "team-b"]})
    roles = {one["metadata"]["namespace"]: one["rules"] for one in manifests if one["kind"] == "Role"}
    wanted = only(render(), "ClusterRole", "frameworkcontroller")["rules"]
    assert (roles["team-a"], roles["team-b"]) == (wanted, wanted)
    (container,) = pod_of(manifests, "frameworkcontroller")["containers"]
    assert [one for one in container["args"] if "namespace" in one] == ["--namespace=team-a", "--namespace=team-b"]
    bound = [one for one in manifests if one["kind"] == "ClusterRoleBinding"]
    assert {one["subjects"][0]["name"] for one in bound} == {"frameworkinjector"}
    topology = render({"watchNamespaces": ["team-a"], "rankTopology": {"enabled": True}})
    (nodes,) = only(topology, "ClusterRole", "frameworkcontroller-nodes")["rules"]
    assert (nodes["resources"], nodes["verbs"]) == (["nodes"], ["get", "list", "watch"])
    least = render("one namespace and nothing of the cluster")
    assert {one["metadata"].get("namespace") for one in least} == {"team-a", chart.NAMESPACE}
