"""The permissions that the chart gives: the table of the security page, and what values take away."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from frameworkrelease import permissions
from tests.release.objects import only
from tests.release.values import MATRIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.release.conftest import Manifests

    Render = Callable[..., Manifests]

pytestmark = pytest.mark.chart


def test_the_security_page_has_all_permissions_with_their_reasons(render: Render) -> None:
    written = permissions.PAGE.read_text()
    assert written == permissions.page(written, render()), "run `make manifests`"
    assert "| controller | `pods` | all namespaces |" in written


def test_a_permission_without_a_reason_is_an_error_that_names_it(render: Render) -> None:
    manifests = copy.deepcopy(render())
    only(manifests, "ClusterRole", "frameworkcontroller")["rules"][0]["resources"] = ["secrets"]
    with pytest.raises(permissions.UnexplainedError, match="the controller may use secrets: say in"):
        permissions.table(manifests)


def test_a_reason_without_a_permission_is_an_error_that_names_it(render: Render) -> None:
    without_pods = [one for one in render() if one["metadata"]["name"] != "frameworkinjector"]
    with pytest.raises(permissions.UnexplainedError, match="'injector', 'secrets'"):
        permissions.table(without_pods)


@pytest.mark.parametrize("case", MATRIX)
def test_no_value_adds_a_permission(render: Render, case: str) -> None:
    def rules(manifests: Manifests) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return {(one.who, one.resources, one.verbs) for one in permissions.permissions(manifests)}

    assert rules(render(case)) <= rules(render())


def test_a_controller_that_grants_nothing_may_not_grant_anything(render: Render) -> None:
    manifests = render({"controller": {"config": {"grantRosterAccess": False}}})
    role = only(manifests, "ClusterRole", "frameworkcontroller")
    assert "roles" not in {resource for rule in role["rules"] for resource in rule["resources"]}
