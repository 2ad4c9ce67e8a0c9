"""The permissions of each program: the table of the security page, from the rules that the chart renders.

Each rule has a reason here. A rule without one, and a reason without a rule, is an error, so that nobody adds a
permission without saying why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frameworkcontroller.api import names
from frameworkcontroller.core.effects import GrantRosterAccess
from frameworkcontroller.engine.manifests import Subject, roster_access
from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE: Final = REPOSITORY / "docs" / "operate" / "security.md"
_TABLE: Final = re.compile(
    r"(?<=<!-- permissions: made by `make manifests` -->\n).*?(?=<!-- end of permissions -->)", re.DOTALL
)
_CLUSTER_WIDE: Final = {"mutatingwebhookconfigurations"}
_WHO: Final = {
    "frameworkcontroller": "controller",
    "frameworkcontroller-leader-election": "controller",
    "frameworkcontroller-edit": "users who may edit a namespace",
    "frameworkcontroller-view": "users who may view a namespace",
    "frameworkinjector": "injector",
    names.roster_access_name("FRAMEWORK"): "Pods of a gang",
}
"""Whose permissions a Role or ClusterRole has."""
WHY: Final = {
    ("controller", "frameworks"): "Read what to do; delete a Framework whose time after its end is over.",
    ("controller", "frameworks/status"): "Write what was decided before it is done.",
    ("controller", "frameworks/finalizers"): "Own a ConfigMap that blocks the deletion of its Framework, where the API "
    "server checks that (`OwnerReferencesPermissionEnforcement`).",
    ("controller", "configmaps/finalizers"): "The same for the Pods of a ConfigMap.",
    (
        "controller",
        "configmaps",
    ): "The ConfigMap of each attempt, with its roster. RBAC cannot limit it to them, so the "
    "controller may read each ConfigMap. The Roles for Pods need `get` and `watch`.",
    ("controller", "pods"): "The Pods of the Tasks; `patch` lets go of those that stay "
    "([`retainPods`](../reference/framework-api.md#2-spec)).",
    ("controller", "events"): "Events about Frameworks.",
    (
        "controller",
        "roles, rolebindings",
    ): "Let the Pods of a gang read its roster. Kubernetes refuses a Role that holds "
    "more than its writer. Not with `grantRosterAccess: false`.",
    ("controller", "leases"): "Leader election by one Lease. RBAC cannot limit `create` to a name.",
    ("injector", "secrets"): "The authority and the certificate of the webhook. The Secret is made by the chart.",
    (
        "injector",
        "podtemplates",
    ): "A dry run shows whether the cluster knows `fileKeyRef`. Nothing runs a PodTemplate. Not "
    "with `injector.envFiles`.",
    (
        "injector",
        "mutatingwebhookconfigurations",
    ): "Write `caBundle`. A ValidatingAdmissionPolicy lets its token change nothing else.",
    (
        "users who may edit a namespace",
        "frameworks",
    ): "Aggregated to `edit` and `admin`, whose holders may create Pods.",
    ("users who may view a namespace", "frameworks"): "Aggregated to `view`.",
    ("Pods of a gang", "configmaps"): "The barrier reads the roster. The controller makes this Role for each Framework "
    "with a barrier, for the service accounts of its Pods, and deletes it with the attempt.",
}


class UnexplainedError(Exception):
    """A rule has no reason, or a reason has no rule; the text names it."""


@dataclass(frozen=True)
class Permission:
    """One rule of a Role or ClusterRole.

    Attributes:
        who: Who has it.
        resources: The plurals, as in the rule.
        where: In which namespaces, and for which names.
        verbs: What may be done.
    """

    who: str
    resources: tuple[str, ...]
    where: str
    verbs: tuple[str, ...]


def page(written: str, manifests: Iterable[Mapping[str, Any]]) -> str:
    """Return the security page with its table renewed.

    Args:
        written: The page, with its markers.
        manifests: What the chart renders without values.

    Raises:
        UnexplainedError: See there.
    """
    return _TABLE.sub(lambda _: f"\n{table(manifests)}\n\n", written)


def table(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of all permissions.

    Raises:
        UnexplainedError: See there.
    """
    unused = dict(WHY)
    rows = ["| who | resources | where | verbs | why |", "| --- | --- | --- | --- | --- |"]
    order = list(dict.fromkeys(_WHO.values()))
    for permission in sorted((*permissions(manifests), *_of_pods()), key=lambda one: order.index(one.who)):
        key = (permission.who, ", ".join(permission.resources))
        if key not in WHY:
            raise UnexplainedError(f"the {key[0]} may use {key[1]}: say in {__name__}.WHY why")
        unused.pop(key, None)
        resources, verbs = (
            ", ".join(f"`{word}`" for word in words) for words in (permission.resources, permission.verbs)
        )
        rows.append(f"| {permission.who} | {resources} | {permission.where} | {verbs} | {WHY[key]} |")
    if unused:
        raise UnexplainedError(f"{__name__}.WHY explains what no rule gives: {', '.join(map(str, unused))}")
    return "\n".join(rows)


def permissions(manifests: Iterable[Mapping[str, Any]]) -> Iterator[Permission]:
    """Yield the rules of the Roles and ClusterRoles among manifests, as those of a release with the usual name."""
    for manifest in manifests:
        if manifest["kind"] in {"Role", "ClusterRole"}:
            yield from _rules(manifest)


def _of_pods() -> Iterator[Permission]:
    """Yield what the controller grants to the Pods of a gang."""
    subject = Subject("NAMESPACE", "FRAMEWORK", "UID")
    (_, role), _ = roster_access(subject, GrantRosterAccess(("default",), "UID"))
    yield from _rules(role)


def _rules(role: Mapping[str, Any]) -> Iterator[Permission]:
    who = _WHO[role["metadata"]["name"]]
    for rule in role["rules"]:
        resources = tuple(rule["resources"])
        place = _place(who, role["kind"], resources)
        called = "".join(f", only `{name}`" for name in rule.get("resourceNames", ()))
        yield Permission(who, resources, place + called, tuple(rule["verbs"]))


def _place(who: str, kind: str, resources: tuple[str, ...]) -> str:
    if _CLUSTER_WIDE.issuperset(resources):
        return "the cluster"
    if who.startswith("users"):
        return "their namespaces"
    if who == "Pods of a gang":
        return "their namespace"
    return "all namespaces" if kind == "ClusterRole" else "that of the release"
