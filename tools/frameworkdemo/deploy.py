"""Install the controller and the injector in a cluster, and wait until they are ready."""

import json
import time
from collections.abc import Iterable

import msgspec

from frameworkclient.views.pods import IMAGE_ERRORS, TaskPod
from frameworkdemo import manifests
from frameworkdemo.cluster import Cluster, Manifest
from frameworkdemo.errors import DemoError

READY_SECONDS = 180.0
LOOK_SECONDS = 3
IMAGE_SECONDS = 20.0
"""The time for a missing image to be pulled after all, because a registry may fail once."""
LOG_TAIL = 25


def install(cluster: Cluster, objects: list[Manifest], seconds: float = READY_SECONDS) -> None:
    """Apply the programs in their order, and wait until all of them are ready, for some seconds for each Deployment.

    Raises:
        DemoError: An object was refused, an image cannot be pulled, or a Deployment was not ready in time.
    """
    cluster.apply(objects)
    # The programs are ready when the definition is served and the webhook trusts the injector.
    for deployment in manifests.deployments(objects):
        _wait_for_rollout(cluster, deployment, seconds)


def _wait_for_rollout(cluster: Cluster, deployment: Manifest, seconds: float) -> None:
    name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    images = MissingImages(IMAGE_SECONDS)
    deadline = time.monotonic() + seconds
    while True:
        try:
            cluster.kubectl("rollout", "status", f"deployment/{name}", f"-n={namespace}", f"--timeout={LOOK_SECONDS}s")
        except DemoError as error:
            pods = _pods(cluster, deployment)
            images.check(pods, time.monotonic())
            if time.monotonic() > deadline:
                problem = next(
                    (f"{pod.metadata.name}: {pod.reason}" for pod in reversed(pods) if pod.reason), str(error)
                )
                raise DemoError(f"{name} is not ready after {seconds:.0f} s: {problem}") from error
        else:
            return


def _pods(cluster: Cluster, deployment: Manifest) -> tuple[TaskPod, ...]:
    """Return the Pods of a Deployment, the newest last."""
    namespace, labels = deployment["metadata"]["namespace"], deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    order = "--sort-by=.metadata.creationTimestamp"
    found = cluster.kubectl("get", "pods", f"-n={namespace}", f"-l={selector}", order, "-o=json")
    return msgspec.convert(json.loads(found)["items"], tuple[TaskPod, ...])


def log_tail(cluster: Cluster, deployment: Manifest) -> list[str]:
    """Return the end of the log of the newest Pod of a Deployment, or why there is none."""
    try:
        pods = _pods(cluster, deployment)
        if not pods:
            return ["(it has no Pods)"]
        # Of a Deployment, kubectl would rather show a Pod that is ready.
        newest = pods[-1].metadata
        return cluster.kubectl("logs", newest.name, f"-n={newest.namespace}", f"--tail={LOG_TAIL}").splitlines()
    except DemoError as error:
        return [str(error)]


class MissingImages:
    """Notices that an image of Pods has been missing for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def check(self, pods: Iterable[TaskPod], now: float) -> None:
        """Look at Pods as they are now, in monotonic seconds."""
        missing = next((pod for pod in pods if _misses_image(pod)), None)
        if missing is None:
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now >= self._since + self._seconds:
            raise DemoError(
                f"{missing.metadata.name}: {missing.reason}\n"
                "Check that the nodes have the project's images, or can pull them."
            )


def _misses_image(pod: TaskPod) -> bool:
    return any(one.state.waiting is not None and one.state.waiting.reason in IMAGE_ERRORS for one in pod.statuses)
