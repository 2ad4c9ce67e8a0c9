"""The permissions of each program: the table of the security page, from the rules that the chart renders.

The reason of a rule is the comment above it in the chart. A rule without one is an error, so that nobody adds a
permission without saying why.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from frameworkcontroller.api import names
from frameworkcontroller.core.effects import GrantRosterAccess, Subject
from frameworkcontroller.engine.requests.manifests import roster_access
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import pages

VALUES: Final = ("--set=history.enabled=true", "--set=history.url=https://history.example")
"""With which the chart is rendered: the archive is optional, and its permissions are more than a sentence."""
PAGE: Final = REPOSITORY / "docs" / "operate" / "security.md"
_REASONS: Final = re.compile(r"((?:^  # .*\n)*)^  - apiGroups:", re.MULTILINE)
_HASH: Final = re.compile(r"^  # ", re.MULTILINE)
_ROLES: Final = {
    ("ClusterRole", "frameworkcontroller"): ("controller", "all namespaces"),
    ("Role", "frameworkcontroller-leader-election"): ("controller", "that of the release"),
    ("ClusterRole", "frameworkcontroller-edit"): ("users who may edit a namespace", "their namespaces"),
    ("ClusterRole", "frameworkcontroller-view"): ("users who may view a namespace", "their namespaces"),
    ("ClusterRole", "frameworkinjector"): ("injector", "the cluster"),
    ("Role", "frameworkinjector"): ("injector", "that of the release"),
    ("ClusterRole", "frameworkhistory"): ("archive", "all namespaces"),
    ("ClusterRole", "frameworkhistory-reviews"): ("archive", "the cluster"),
    ("Role", "frameworkhistory"): ("everybody who is known to the cluster", "`kube-public`"),
    ("Role", names.roster_access_name("FRAMEWORK")): ("Pods of a gang", "their namespace"),
}
"""Who has a role, and where, in the order of the table."""
_OF_PODS: Final = (
    "The barrier reads the roster. The controller makes this Role for each Framework with a barrier, for the service"
    " accounts of its Pods, and deletes it with the attempt."
)


def page(written: str, rendered: str) -> str:
    """Return the security page, which has the markers, with its table renewed; see `table`."""
    return pages.renewed(written, {"permissions": [table(rendered)]})


def table(rendered: str) -> str:
    """Return the table of all permissions, of what helm renders of the chart with `VALUES`.

    Raises:
        ReleaseError: A rule has no reason; the text names it.
    """
    (_, of_pods), _ = roster_access(Subject("NAMESPACE", "FRAMEWORK", "UID"), GrantRosterAccess(("default",), "UID"))
    explained = [(of_pods, [_OF_PODS])]
    for text in rendered.split("\n---\n"):
        manifest = yaml.safe_load(text)
        if manifest and manifest["kind"] in {"Role", "ClusterRole"}:
            explained.append((manifest, [_HASH.sub("", comment) for comment in _REASONS.findall(text)]))
    order = list(_ROLES)
    rows = [
        row
        for role, reasons in sorted(explained, key=lambda one: order.index(_key(one[0])))
        for row in _rows(role, reasons)
    ]
    return "\n".join(pages.table(("who", "resources", "where", "verbs", "why"), rows))


def _key(role: Mapping[str, Any]) -> tuple[str, str]:
    return role["kind"], role["metadata"]["name"]


def _rows(role: Mapping[str, Any], reasons: Sequence[str]) -> Iterator[tuple[str, ...]]:
    who, where = _ROLES[_key(role)]
    for rule, reason in zip(role["rules"], reasons, strict=True):
        resources, verbs = (", ".join(f"`{word}`" for word in rule[key]) for key in ("resources", "verbs"))
        if not reason:
            raise ReleaseError(f"the {who} may use {resources}: say in the chart why, in a comment above the rule")
        called = "".join(f", only `{name}`" for name in rule.get("resourceNames", ()))
        yield who, resources, f"{where}{called}", verbs, " ".join(reason.split())
