"""The permissions that the chart gives: the table of the security page, and what values take away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from frameworkrelease import chart, permissions
from frameworkrelease.commands import ReleaseError
from tests.release.manifests import MATRIX, only

if TYPE_CHECKING:
    from tests.release.manifests import Manifests, Render

pytestmark = pytest.mark.chart


@pytest.fixture(scope="module")
def rendered() -> str:
    return chart.rendered()


def test_the_security_page_has_permissions() -> None:
    assert "| controller | `pods` | all namespaces |" in permissions.PAGE.read_text()


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


@pytest.mark.parametrize("case", MATRIX)
def test_no_value_adds_a_permission(render: Render, case: str) -> None:
    def rules(manifests: Manifests) -> set[tuple[str, str]]:
        roles = [one for one in manifests if one["kind"] in {"Role", "ClusterRole"}]
        return {
            (one["metadata"]["name"], json.dumps([rule["resources"], rule["verbs"]]))
            for one in roles
            for rule in one["rules"]
        }

    assert rules(render(case)) <= rules(render())


def test_a_controller_that_grants_nothing_may_not_grant_anything(render: Render) -> None:
    manifests = render({"controller": {"config": {"grantRosterAccess": False}}})
    role = only(manifests, "ClusterRole", "frameworkcontroller")
    assert "roles" not in {resource for rule in role["rules"] for resource in rule["resources"]}
