"""The permissions that the chart gives: the table of the security page, and what values take away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from frameworkrelease import chart, permissions
from frameworkrelease.commands import ReleaseError
from tests.release.manifests import MATRIX, only

if TYPE_CHECKING:
    from tests.release.manifests import Render

pytestmark = pytest.mark.chart


@pytest.fixture(scope="module")
def rendered() -> str:
    return chart.rendered()


def test_a_reason_is_the_comment_above_its_rule_in_one_line(rendered: str) -> None:
    table = permissions.table(rendered.replace("  # Events about Frameworks.\n", "  # Events,\n  # #1 of all.\n"))
    assert "| controller | `events` | all namespaces | `create`, `patch` | Events, #1 of all. |\n" in table


def test_a_permission_without_a_reason_is_an_error_that_names_it(rendered: str) -> None:
    unexplained = rendered.replace("  # Events about Frameworks.\n", "")
    with pytest.raises(ReleaseError, match="the controller may use `events`: say in the chart why"):
        permissions.table(unexplained)


def test_every_rule_and_role_of_the_chart_is_in_the_table(render: Render, rendered: str) -> None:
    rules = [rule for one in render() if one["kind"] in {"Role", "ClusterRole"} for rule in one["rules"]]
    # Two lines of head, and what the controller makes for the Pods of a gang.
    assert len(permissions.table(rendered).splitlines()) == 2 + len(rules) + 1


def test_no_values_but_those_of_queues_and_of_others_add_a_permission(render: Render) -> None:
    def rules(case: str) -> set[tuple[str, str]]:
        roles = [one for one in render(case) if one["kind"] in {"Role", "ClusterRole"}]
        return {
            (role["metadata"]["name"], json.dumps([rule["resources"], rule["verbs"]]))
            for role in roles
            for rule in role["rules"]
        }

    added = {case: more for case in MATRIX if (more := rules(case) - rules("defaults"))}
    assert added.keys() == {"gangs of others", "queues of Kueue"}
    resources = {json.loads(rule)[0][0] for each in added.values() for _, rule in each}
    page = (chart.REPOSITORY / "docs" / "operate" / "security.md").read_text()
    assert [one for one in sorted(resources) if f"`{one}`" not in page] == []


def test_a_controller_that_grants_nothing_may_not_grant_anything(render: Render) -> None:
    manifests = render({"controller": {"config": {"grantRosterAccess": False}}})
    role = only(manifests, "ClusterRole", "frameworkcontroller")
    assert "roles" not in {resource for rule in role["rules"] for resource in rule["resources"]}


@pytest.mark.parametrize(
    ("case", "kinds_of_bindings"),
    [
        ("a certificate of cert-manager", {"ClusterRoleBinding"}),
        ("an issuer of cert-manager", {"ClusterRoleBinding"}),
        ("a certificate in a Secret", {"ClusterRoleBinding", "RoleBinding"}),
    ],
)
def test_an_injector_that_makes_no_certificate_has_no_permission_for_one(
    render: Render, case: str, kinds_of_bindings: set[str]
) -> None:
    bindings = [one for one in render(case) if one["kind"] in kinds_of_bindings]
    assert {one["subjects"][0]["name"] for one in bindings} == {"frameworkcontroller"}


def test_for_some_namespaces_the_controller_has_the_same_permissions_there_and_none_beyond(render: Render) -> None:
    manifests = render({"watchNamespaces": ["team-a", "team-b"]})
    roles = {one["metadata"]["namespace"]: one["rules"] for one in manifests if one["kind"] == "Role"}
    wanted = only(render(), "ClusterRole", "frameworkcontroller")["rules"]
    assert (roles["team-a"], roles["team-b"]) == (wanted, wanted)
    (container,) = only(manifests, "Deployment", "frameworkcontroller")["spec"]["template"]["spec"]["containers"]
    assert [one for one in container["args"] if "namespace" in one] == ["--namespace=team-a", "--namespace=team-b"]
    bound = [one for one in manifests if one["kind"] == "ClusterRoleBinding"]
    assert {one["subjects"][0]["name"] for one in bound} == {"frameworkinjector"}
    least = render("one namespace and nothing of the cluster")
    assert {one["metadata"].get("namespace") for one in least} == {"team-a", chart.NAMESPACE}
