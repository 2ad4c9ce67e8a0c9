"""Where the demo runs: a cluster of its own on this machine, or one that the user has."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Protocol

from demo import cluster, deploy, events, manifests
from demo.errors import DemoError
from demo.parts import Parts, part, step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.cluster import Cluster
    from demo.manifests import Naming
    from demo.parts import Post

CLUSTER = "demo"
NODE_PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
)  # fmt: skip
"""What a real node is made of; had before the cluster starts, so that the seconds of both are told apart."""


class Target(Protocol):
    """A place to run in.

    Attributes:
        naming: How its nodes know the project's images.
        revision: What the images hold, where that is known after `prepare`; else empty.
        steps: The names of the steps that `prepare` takes.
    """

    naming: Naming
    revision: str
    steps: tuple[str, ...]

    def prepare(self, post: Post) -> None:
        """Bring it up, with the project's images where it can.

        Raises:
            DemoError: It cannot be brought up or reached.
        """

    def connect(self) -> Cluster:
        """Return access to it.

        Raises:
            DemoError: There is none.
        """

    def remove(self, namespace: str, post: Post) -> None:
        """Take away what the demo brought.

        Raises:
            DemoError: Something is left.
        """


class Local:
    """A real Kubernetes node that the demo starts on this machine."""

    def __init__(self, name: str = CLUSTER) -> None:
        self.naming = manifests.Naming()
        self._name = name
        self.revision = ""
        self.steps: tuple[str, ...] = ("binaries", "cluster", "images", "load")

    def prepare(self, post: Post) -> None:
        """Find or build the programs of Kubernetes, start the node, build the images and load them."""
        import localcluster
        from localcluster import binaries, images
        from localcluster.cluster import require_root

        with _translated(), step(post, "binaries"):
            # Said before minutes go into programs that could not be started.
            require_root()
            version = binaries.kubernetes_version(None)
            for name in NODE_PROGRAMS:
                binaries.find(name, kubernetes=version, progress=Parts(post))
        with _translated(), step(post, "cluster"):
            running = localcluster.up(self._name, localcluster.Depth.NODE, progress=Parts(post))
        with _translated(), step(post, "images"):
            archives = images.build_all(manifests.IMAGES, progress=Parts(post))
            names = " ".join(archive.name for archive in archives.values())
            self.revision = hashlib.sha256(names.encode()).hexdigest()[:12]
        with _translated(), step(post, "load"):
            for name, archive in archives.items():
                with part(post, f"load image {name}"):
                    running.load(archive)

    def connect(self) -> Cluster:
        """Return access to the cluster that runs."""
        import localcluster

        running = localcluster.get(self._name)
        if running is None:
            raise DemoError("the local cluster does not run")
        return cluster.connect(str(running.kubeconfig), None)

    def remove(self, namespace: str, post: Post) -> None:  # noqa: ARG002 -- the namespace goes with the rest
        """Stop the cluster and remove everything of it; programs and images stay in the cache."""
        import localcluster

        with _translated():
            localcluster.down(self._name, Parts(post))


class Existing:
    """A cluster that the user has, by the name of its kubeconfig context."""

    def __init__(self, context: str, naming: Naming, kubeconfig: str | None = None) -> None:
        self.naming = naming
        self.revision = ""
        self.steps: tuple[str, ...] = ("cluster",)
        self._context = context
        self._kubeconfig = kubeconfig

    def prepare(self, post: Post) -> None:
        """Look whether it is there; say what images it needs."""
        with step(post, "cluster"):
            post(events.Said(how_to_load(self._context, self.naming)))
            self.connect().check()

    def connect(self) -> Cluster:
        """Return access by the context."""
        return cluster.connect(self._kubeconfig, self._context)

    def remove(self, namespace: str, post: Post) -> None:
        """Delete the Framework, the namespace, the programs, the webhook configuration and the CRD."""
        with part(post, f"remove the demo from {self._context}") as tell:
            framework, programs = manifests.framework(self.naming), manifests.programs(self.naming)
            deploy.remove_all(self.connect(), framework, namespace, programs, tell)


def how_to_load(context: str, naming: Naming) -> str:
    """Return one message that says what images the cluster needs, and how it gets them."""
    images = " ".join(naming.of(name) for name in manifests.IMAGES)
    if context.startswith("kind-"):
        how = f"load them with: kind load docker-image --name {context.removeprefix('kind-')} {images}"
    elif context == "minikube":
        how = f"load them with: minikube image load {images}"
    else:
        how = f"push them to where they can be pulled and say so with --image-prefix and --image-tag: {images}"
    return f"The nodes of {context} need the project's images. If they do not have them yet, {how}"


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Make the local cluster's errors the demo's own."""
    from localcluster import LocalClusterError

    try:
        yield
    except LocalClusterError as error:
        raise DemoError(str(error)) from error
