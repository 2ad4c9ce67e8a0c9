"""Questions about rendered manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.release.conftest import Manifests


def only(manifests: Manifests, kind: str, name: str = "") -> Any:
    """The only object of a kind, or of a kind and a name."""
    (found,) = [one for one in manifests if one["kind"] == kind and name in {"", one["metadata"]["name"]}]
    return found


def kinds(manifests: Manifests) -> set[str]:
    return {one["kind"] for one in manifests}


def pod_of(manifests: Manifests, name: str) -> Any:
    return only(manifests, "Deployment", name)["spec"]["template"]["spec"]


def identities(manifests: Manifests) -> set[tuple[str, str, str]]:
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in manifests}


def by_identity(manifests: Manifests) -> dict[tuple[str, str, str], Any]:
    """Manifests by kind, namespace and name."""
    return {identity: one for one in manifests for identity in identities([one])}
