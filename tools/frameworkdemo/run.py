"""The steps of the demo: prepare a cluster, install the programs, run the gang."""

from pathlib import Path

from frameworkdemo import deploy, manifests, page
from frameworkdemo.cluster import Cluster
from frameworkdemo.errors import FAILURES
from frameworkdemo.gang import Gang
from frameworkdemo.steps import Steps
from frameworkdemo.target import Target
from localcluster.progress import task


def run(steps: Steps, target: Target, namespace: str, file: Path, seconds: float) -> None:
    """Run the demo until the Framework of a file is Completed, some seconds after its submission at the latest.

    After a failure, show what tells why.

    Raises:
        DemoError, ClientError, LocalClusterError: The Framework did not succeed, or a step before failed.
    """
    cluster = install(steps, target)
    address = page.start(cluster)
    try:
        with steps.step("gang"):
            cluster.apply([manifests.namespace(namespace)])
            Gang(cluster, namespace, steps).run(file, target.image_names, seconds)
    except FAILURES:
        _report_programs(steps, target, cluster)
        raise
    finally:
        steps.write(f"What has run, with its logs, is on a page: {address}")


def install(steps: Steps, target: Target) -> Cluster:
    """Make a cluster ready, install the programs in it, and return access to it."""
    cluster = target.prepare(steps)
    try:
        with steps.step("programs"), task("controller, injector"):
            deploy.install(cluster, manifests.programs(target.image_names, target.revision))
    except FAILURES:
        _report_programs(steps, target, cluster)
        raise
    return cluster


def _report_programs(steps: Steps, target: Target, cluster: Cluster) -> None:
    for manifest in manifests.deployments(manifests.programs(target.image_names)):
        steps.report(f"log of {manifest['metadata']['name']}", deploy.log_tail(cluster, manifest))
