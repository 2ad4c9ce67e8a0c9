"""The values with which the chart is rendered, and questions about the manifests that come of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from frameworkrelease.chart import CHART

Values = dict[str, Any]
Manifests = list[dict[str, Any]]
Render = Callable[..., Manifests]
"""The fixture `render`."""

CASES = Path(__file__).with_name("cases")
MATRIX: dict[str, Values] = {
    file.stem.replace("_", " "): yaml.safe_load(file.read_text()) for file in sorted(CASES.glob("*.yaml"))
}
"""Values by what they are about: each value of the chart is set to something else by one of them at least."""


def documented(text: str = (CHART / "values.yaml").read_text()) -> set[str]:
    """The paths of the values: the keys with a comment above them. A key without one is a group of values."""
    found, group, above, depth = set(), [""], "", 0
    for line in text.splitlines():
        key = re.match(r"( *)([\w-]+):(.*)", line)
        if key and len(key[1]) <= depth:
            group[len(key[1]) // 2 :] = [key[2]]
            depth = len(key[1])
            if above.lstrip().startswith("#"):
                found.add(".".join(group))
            else:
                assert not key[3], f"values.yaml: {'.'.join(group)} has no comment above it: say there what it does"
                depth += 2
        above = line
    return found


def only(manifests: Manifests, kind: str, name: str = "") -> Any:
    """The only object of a kind, or of a kind and a name."""
    (found,) = [one for one in manifests if one["kind"] == kind and name in {"", one["metadata"]["name"]}]
    return found


def pod_of(manifests: Manifests, name: str) -> Any:
    return only(manifests, "Deployment", name)["spec"]["template"]["spec"]


def by_identity(manifests: Manifests) -> dict[tuple[str, str, str], Any]:
    """Manifests by kind, namespace and name."""
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in manifests}
