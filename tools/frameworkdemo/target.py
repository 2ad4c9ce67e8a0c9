"""The cluster that the demo runs in: one that it starts on this machine, or one that the user has."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Protocol

from frameworkdemo import cluster, deploy, manifests
from frameworkdemo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkdemo.cluster import Cluster
    from frameworkdemo.manifests import ImageNames
    from frameworkdemo.progress import Steps

CLUSTER = "demo"
NODE_PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
)  # fmt: skip
"""The programs of a cluster with a real node. They are fetched before the cluster starts, as a step of its own."""


class Target(Protocol):
    """A cluster to run the demo in.

    Attributes:
        image_names: The names of the project's images on its nodes.
        revision: A digest of the programs' images after `prepare`; empty if unknown.
    """

    image_names: ImageNames
    revision: str

    def prepare(self, steps: Steps) -> None:
        """Make the cluster ready, and load the project's images if possible.

        Raises:
            DemoError: The cluster cannot be started or reached.
        """

    def connect(self) -> Cluster:
        """Return access to the cluster.

        Raises:
            DemoError: The cluster does not run, or the context does not exist.
        """

    def remove(self, namespace: str, steps: Steps) -> None:
        """Remove everything that the demo created.

        Raises:
            DemoError: Something could not be removed.
        """


class LocalTarget:
    """A real Kubernetes node that the demo starts on this machine.

    Args:
        name: The name of the local cluster.
        images: The project's images that it needs.
    """

    def __init__(self, name: str = CLUSTER, images: Sequence[str] = manifests.IMAGES) -> None:
        self.image_names = manifests.ImageNames()
        self._name = name
        self._images = images
        self.revision = ""

    def prepare(self, steps: Steps) -> None:
        """Find or build the programs of Kubernetes, start the node, build the images and load them."""
        import localcluster
        from localcluster import binaries, images
        from localcluster.cluster import require_root

        with _demo_errors(), steps.step("binaries"):
            # Checked before minutes are spent on programs that could not be started.
            require_root()
            version = binaries.kubernetes_version(None)
            for name in NODE_PROGRAMS:
                binaries.find(name, kubernetes=version, progress=steps)
        with _demo_errors(), steps.step("cluster"):
            running = localcluster.up(self._name, localcluster.Depth.NODE, progress=steps)
        with _demo_errors(), steps.step("images"):
            archives = images.build_all(self._images, progress=steps)
            # Other images roll no Deployment out.
            names = " ".join(archives[name].name for name in manifests.PROGRAM_IMAGES)
            self.revision = hashlib.sha256(names.encode()).hexdigest()[:12]
        with _demo_errors(), steps.step("load"):
            for name, archive in archives.items():
                with steps.part(f"load image {name}"):
                    running.load(archive)

    def connect(self) -> Cluster:
        """Return access to the cluster that runs."""
        import localcluster

        running = localcluster.get(self._name)
        if running is None:
            raise DemoError(f"the local cluster {self._name!r} is not running: `make demo` starts it")
        return cluster.connect(str(running.kubeconfig), None)

    def remove(self, namespace: str, steps: Steps) -> None:  # noqa: ARG002 -- the namespace is removed with the cluster
        """Stop the cluster and remove it; programs and images stay in the cache."""
        import localcluster

        with _demo_errors():
            localcluster.down(self._name, steps)


class ContextTarget:
    """A cluster that the user has, by the name of its kubeconfig context."""

    def __init__(self, context: str, prefix: str, tag: str, kubeconfig: str | None = None) -> None:
        self.image_names = manifests.ImageNames(prefix, tag, moves=_loads(context) is None)
        self.revision = ""
        self._context = context
        self._kubeconfig = kubeconfig

    def prepare(self, steps: Steps) -> None:
        """Say which images the cluster needs, and check that its API server answers."""
        with steps.step("cluster"):
            steps.say(how_to_load(self._context, self.image_names))
            self.connect().check()

    def connect(self) -> Cluster:
        """Return access through the context."""
        return cluster.connect(self._kubeconfig, self._context)

    def remove(self, namespace: str, steps: Steps) -> None:
        """Delete the Framework, the namespace, the programs, the webhook configuration and the CRD."""
        with steps.part(f"remove the demo from {self._context}") as report:
            framework, programs = manifests.framework(self.image_names), manifests.programs(self.image_names)
            deploy.remove_all(self.connect(), framework, namespace, programs, report)


def how_to_load(context: str, image_names: ImageNames) -> str:
    """Return a message that names the images that a cluster needs, and the command that loads them."""
    images = " ".join(image_names.of(name) for name in manifests.IMAGES)
    if command := _loads(context):
        how = f"load them with: {command} {images}"
    else:
        how = f"push them to a registry and name it with --image-prefix and --image-tag: {images}"
    return f"The nodes of {context} need the project's images. If they do not have them yet, {how}"


def _loads(context: str) -> str | None:
    """Return the command that loads images into the nodes of a local cluster; None for a cluster that pulls them."""
    if context.startswith("kind-"):
        return f"kind load docker-image --name {context.removeprefix('kind-')}"
    return "minikube image load" if context == "minikube" else None


@contextlib.contextmanager
def _demo_errors() -> Iterator[None]:
    """Raise errors of the local cluster as errors of the demo."""
    from localcluster import LocalClusterError

    try:
        yield
    except LocalClusterError as error:
        raise DemoError(str(error)) from error
