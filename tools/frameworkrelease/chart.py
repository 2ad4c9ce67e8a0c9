"""The chart in this repository, and the helm that renders it."""

from pathlib import Path
from typing import Final

from frameworkrelease.commands import run
from localcluster.programs import binaries
from localcluster.programs.catalogue import pinned_version

REPOSITORY: Final = Path(__file__).parents[2]
CHART: Final = REPOSITORY / "charts" / "frameworkcontroller"
RELEASE: Final = "frameworkcontroller"
"""The name of a release whose objects are named as in the plain manifests."""
NAMESPACE: Final = "frameworkcontroller-system"
"""The namespace of the plain manifests."""


def program(name: str = "helm") -> Path:
    """Return the path of helm, or of another tool of charts; it is built where it is missing."""
    return binaries.find(name, kubernetes=pinned_version("kubernetes"))


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm, with the credentials of a cluster if it talks to one, and return its standard output."""
    access = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
    return run(program(), *arguments, *access)


def rendered(*arguments: str, release: str = RELEASE, namespace: str = NAMESPACE, chart: Path = CHART) -> str:
    """Return the manifests of a chart, a folder or an archive, as `helm template` renders them with more arguments.

    Raises:
        ReleaseError: The values are wrong.
    """
    return helm("template", release, str(chart), f"--namespace={namespace}", *arguments)
