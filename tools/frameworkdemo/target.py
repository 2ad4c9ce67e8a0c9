"""The cluster that the demo runs in: one that it starts on this machine, or one that the user has."""

import hashlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

import localcluster
from frameworkdemo import manifests, page
from frameworkdemo.cluster import Cluster, local_cluster
from frameworkdemo.manifests import ImageNames
from frameworkdemo.steps import Steps
from localcluster.cluster.cluster import require_root
from localcluster.images import images
from localcluster.programs import binaries
from localcluster.progress import task

CLUSTER = "demo"


class LocalTarget:
    """A real Kubernetes node that the demo starts on this machine; `revision` is a digest of the programs' images."""

    def __init__(self, name: str = CLUSTER, images: Sequence[str] = manifests.IMAGES) -> None:
        self.image_names = manifests.ImageNames()
        self.revision = ""
        self._name = name
        self._images = images

    def prepare(self, steps: Steps) -> Cluster:
        """Start the node while the images are built, and load them; LocalClusterError if one of these fails."""
        # Before anything is built.
        require_root()
        with steps.step("cluster"), ThreadPoolExecutor() as pool:
            # While Go compiles, the images wait for packages most of the time.
            built = pool.submit(images.build_all, self._images)
            running = localcluster.up(self._name, localcluster.Depth.NODE)
            archives = built.result()
        with steps.step("load"):
            for archive in archives.values():
                running.load(archive)
        # Other images roll no Deployment out.
        names = " ".join(archives[name].name for name in manifests.PROGRAM_IMAGES)
        self.revision = hashlib.sha256(names.encode()).hexdigest()[:12]
        return local_cluster(running)

    def remove(self, namespace: str) -> None:  # noqa: ARG002 -- the namespace is removed with the cluster
        """Stop the cluster and remove it; programs and images stay in the cache."""
        localcluster.down(self._name)


class ContextTarget:
    """A cluster that the user has, by the name of its kubeconfig context; see `Cluster`.

    Its revision is empty, because it is not known which images the nodes have.
    """

    def __init__(self, context: str, prefix: str, tag: str, kubeconfig: str | None = None) -> None:
        self.image_names = manifests.ImageNames(prefix, tag, moves=_loads(context) is None)
        self.revision = ""
        self._context = context
        self._kubeconfig = kubeconfig

    def prepare(self, steps: Steps) -> Cluster:
        """Say which images the cluster needs; DemoError if there is no such context, or its server does not answer."""
        with steps.step("cluster"):
            steps.write(how_to_load(self._context, self.image_names))
            cluster = self._connect()
            cluster.kubectl("get", "--raw=/version", "--request-timeout=30s")
        return cluster

    def remove(self, namespace: str) -> None:
        """Delete the namespace with its Framework, while the controller still runs, and then the programs."""
        cluster = self._connect()
        page.stop(cluster)
        with task(f"remove the demo from {self._context}"):
            cluster.delete("namespace", namespace)
            programs = reversed(manifests.programs(self.image_names))
            cluster.delete("-f", "-", text=yaml.safe_dump_all(programs))

    def _connect(self) -> Cluster:
        found = shutil.which("kubectl")
        version = binaries.kubernetes_version(None)
        program = Path(found) if found else binaries.find("kubectl", kubernetes=version)
        digest = hashlib.sha256(f"{self._kubeconfig} {self._context}".encode()).hexdigest()[:12]
        return Cluster(program, binaries.cache_root() / "demo" / digest, self._kubeconfig, self._context)


Target = LocalTarget | ContextTarget
"""A cluster to run the demo in."""


def how_to_load(context: str, image_names: ImageNames) -> str:
    """Return a message that names the images that a cluster needs, and the command that loads them."""
    names = " ".join(image_names.of(name) for name in manifests.IMAGES)
    if command := _loads(context):
        how = f"load them with: {command} {names}"
    else:
        how = f"push them to a registry and name it with --image-prefix and --image-tag: {names}"
    return f"The nodes of {context} need the project's images. If they do not have them yet, {how}"


def _loads(context: str) -> str | None:
    """Return the command that loads images into the nodes of a local cluster; None for a cluster that pulls them."""
    if context.startswith("kind-"):
        return f"kind load docker-image --name {context.removeprefix('kind-')}"
    return "minikube image load" if context == "minikube" else None
