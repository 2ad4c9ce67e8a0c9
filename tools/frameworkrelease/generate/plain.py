"""The plain manifests, `deploy/install.yaml`: what `kubectl apply --server-side -f` installs without helm."""

import re
from pathlib import Path
from typing import Final

from frameworkrelease import chart

FILE: Final = chart.REPOSITORY / "deploy" / "install.yaml"
_HEAD: Final = """\
# Made by `make manifests` from charts/frameworkcontroller; do not edit. Install it with
#   kubectl apply --server-side -f install.yaml
"""
# Labels, annotations and comments that only helm uses.
_HELMS: Final = re.compile(
    r"^ *(?:# Source: .*|helm\.sh/chart: .*|app\.kubernetes\.io/managed-by: Helm"
    r"|annotations:\n *helm\.sh/resource-policy: keep)\n",
    re.MULTILINE,
)


def manifests(*arguments: str, source: Path = chart.CHART) -> str:
    """Return the manifests of a default installation in a namespace of its own; see `chart.rendered`."""
    rendered = chart.rendered("--set", "namespace.create=true", *arguments, chart=source)
    return _HEAD + re.sub(r"\n+---\n", "\n---\n", _HELMS.sub("", rendered))
