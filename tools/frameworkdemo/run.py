"""The steps of the demo: prepare a cluster, install the programs, run the gang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkdemo import deploy, manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.gang import LOG_TAIL, Gang

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkdemo.cluster import Cluster
    from frameworkdemo.progress import Steps
    from frameworkdemo.target import Target

NAMESPACE = "demo"


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Attributes:
        namespace: The namespace of the Framework.
        gang_seconds: The time that the Framework may take from its submission to Completed.
        framework: The file of the Framework's manifest.
    """

    namespace: str = NAMESPACE
    gang_seconds: float = 300.0
    framework: Path = manifests.FRAMEWORK


def run(steps: Steps, target: Target, options: Options) -> None:
    """Run the demo until the Framework is Completed; after a failure, show what tells why.

    Raises:
        DemoError: The Framework did not succeed, or a step before failed; the text says why.
    """
    target.prepare(steps)
    cluster = target.connect()
    gang = Gang(cluster, options.namespace, steps)
    try:
        _deploy(steps, target, cluster)
        with steps.step("gang"):
            framework = manifests.framework(target.image_names, options.framework)
            cluster.apply([manifests.namespace(options.namespace)])
            gang.run(framework, options.framework, options.gang_seconds)
    except DemoError:
        gang.diagnose()
        _report_programs(steps, target, cluster)
        raise


def install(steps: Steps, target: Target) -> Cluster:
    """Make a cluster ready, install the programs in it, and return access to it.

    Raises:
        DemoError: A step failed; the text says why.
    """
    target.prepare(steps)
    cluster = target.connect()
    _deploy(steps, target, cluster)
    return cluster


def _deploy(steps: Steps, target: Target, cluster: Cluster) -> None:
    with steps.step("programs"), steps.part("controller, injector") as report:
        deploy.deploy(cluster, manifests.programs(target.image_names, target.revision), report)


def _report_programs(steps: Steps, target: Target, cluster: Cluster) -> None:
    """Show the ends of the logs of the programs."""
    for manifest in manifests.programs(target.image_names):
        if manifest["kind"] == "Deployment":
            for pod in deploy.pods_of(cluster, manifest)[-1:]:
                steps.report(f"log of {pod['metadata']['name']}", deploy.log_tail(cluster, pod, LOG_TAIL))
