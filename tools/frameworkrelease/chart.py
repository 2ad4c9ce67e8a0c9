"""The chart in this repository, and the helm that renders it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from frameworkrelease.commands import run
from localcluster import binaries
from localcluster.programs import pinned_version

REPOSITORY: Final = Path(__file__).parents[2]
CHART: Final = REPOSITORY / "charts" / "frameworkcontroller"
RELEASE: Final = "frameworkcontroller"
"""The name of a release whose objects are named as in the plain manifests."""
NAMESPACE: Final = "frameworkcontroller-system"
"""The namespace of the plain manifests."""


def program(name: str = "helm") -> Path:
    """Return the path of helm, or of another tool of charts; it is built where it is missing.

    Raises:
        BinaryError: It can be neither found nor built.
    """
    return binaries.find(name, kubernetes=pinned_version("kubernetes"))


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm and return its standard output.

    Args:
        arguments: Its arguments.
        kubeconfig: The credentials of a cluster, for the commands that talk to one.

    Raises:
        ReleaseError: helm failed.
    """
    access = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
    return run(program(), *arguments, *access)


def rendered(*arguments: str, release: str = RELEASE, namespace: str = NAMESPACE, chart: Path = CHART) -> str:
    """Return the manifests of the chart as helm renders them without a cluster.

    Args:
        arguments: More arguments of `helm template`, such as `--set`.
        release: The name of the release.
        namespace: Its namespace.
        chart: The folder or the archive of the chart.

    Raises:
        ReleaseError: The values are wrong.
    """
    return helm("template", release, str(chart), f"--namespace={namespace}", *arguments)
