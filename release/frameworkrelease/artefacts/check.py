"""Checks a release by what a user does with it: verify, install the programs, and install from a registry.

Nothing but the artefacts is used, and the libraries of PyPI that the wheel asks for.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import localcluster
from frameworkrelease import chart
from frameworkrelease.artefacts import checksums, registry, signing
from frameworkrelease.artefacts.errors import ReleaseError
from frameworkrelease.artefacts.names import HELLO, IMAGES, MANIFESTS, PROGRAMS, PROJECT, Names
from frameworkrelease.artefacts.publish import digests_of, prefix_of, publish
from frameworkrelease.artefacts.run import run
from localcluster import Cluster, Depth
from localcluster.progress import Progress, task

_NAMESPACE = f"--namespace={chart.NAMESPACE}"
_PATIENCE = "5m"
_CLUSTER = "release-check"
_DEFINITION = "frameworks.frameworkcontroller.microsoft.com"


def check(folder: Path, version: str, private: str, progress: Progress) -> None:
    """Check a release on a local cluster, which is removed at the end.

    Args:
        folder: The release.
        version: Its version.
        private: The key that signed it, with which its images are signed in the local registry.
        progress: Shows the steps.

    Raises:
        ReleaseError: Something is not as it should be; the text says what.
        ChartError: helm cannot install it.
        LocalClusterError: The cluster does not start, or refuses an object.
    """
    with tempfile.TemporaryDirectory() as scratch:
        public = signing.public_key(private, Path(scratch, "release.pub"))
        verify(folder, version, public)
        programs(folder, version, Path(scratch, "venv"), progress)
        place = Path(scratch, "registry")
        place.mkdir()
        with registry.on_loopback(place) as address:
            prefix = moved(prefix_of(folder), address)
            published = publish(folder, version, prefix, private, progress)
            for reference in published.values():
                signing.verify_image(reference, public)
            cluster = localcluster.up(_CLUSTER, Depth.NODE, progress=progress)
            try:
                with registry.on_node(place, cluster):
                    installed(cluster, folder, version, prefix, progress)
            finally:
                cluster.down()


def verify(folder: Path, version: str, public: Path) -> None:
    """Check the signature and the checksums of a release, and that it is complete.

    Raises:
        ReleaseError: A file is missing, unknown, or not that of the release.
    """
    signing.verify_file(folder / checksums.FILE, public, folder / checksums.SIGNATURE)
    if differing := Names(version).all ^ set(checksums.verify(folder)):
        raise ReleaseError(f"{folder} does not hold the files of a release: {', '.join(sorted(differing))}")


def programs(folder: Path, version: str, environment: Path, progress: Progress) -> None:
    """Install the wheel into a fresh environment, and ask each program for its version.

    Raises:
        ReleaseError: pip cannot install it, or a program does not run or has another version.
    """
    with task(progress, "install the wheel"):
        run(sys.executable, "-m", "venv", environment)
        extras = ",".join(PROGRAMS)
        wheel = f"{PROJECT}[{extras}] @ {(folder / Names(version).wheel).absolute().as_uri()}"
        run(environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    for program in PROGRAMS:
        _same(f"framework{program} --version", run(environment / f"bin/framework{program}", "--version"), version)


def moved(prefix: str, registry_address: str) -> str:
    """Return a registry and a path with another registry."""
    return "/".join([registry_address, *prefix.split("/")[1:]])


def installed(cluster: Cluster, folder: Path, version: str, prefix: str, progress: Progress) -> None:
    """Install a release from a registry, by helm and by kubectl, and run a gang with each.

    Args:
        cluster: A cluster with a real node that can pull from the registry.
        folder: The release.
        version: Its version.
        prefix: The registry and the path.
        progress: Shows the steps.

    Raises:
        ReleaseError: A program runs another image or version.
        ChartError: helm cannot install it.
        LocalClusterError: The cluster refuses an object, or a gang does not complete.
    """
    built_for = prefix_of(folder)
    with task(progress, "install with helm"):
        chart.helm(
            "install", chart.RELEASE, f"oci://{prefix}/{PROJECT}", f"--version={version}", "--plain-http",
            f"--values={folder / IMAGES}", f"--set=image.registry={prefix.partition('/')[0]}",
            _NAMESPACE, "--create-namespace", "--wait", f"--timeout={_PATIENCE}", "--set=crds.keep=false",
            kubeconfig=cluster.kubeconfig,
        )  # fmt: skip
    _run_gang(cluster, folder, version, (built_for, prefix), progress)
    chart.helm("uninstall", chart.RELEASE, _NAMESPACE, "--wait", kubeconfig=cluster.kubeconfig)
    cluster.kubectl("delete", "namespace", chart.NAMESPACE)
    cluster.kubectl("wait", "--for=delete", f"crd/{_DEFINITION}", f"--timeout={_PATIENCE}")
    with task(progress, "install with kubectl"):
        manifests = (folder / MANIFESTS).read_text().replace(built_for, prefix)
        cluster.kubectl("apply", "--server-side", "-f", "-", input=manifests)
        available = ("wait", "--for=condition=Available", f"--timeout={_PATIENCE}", "deployment", "--all")
        cluster.kubectl(_NAMESPACE, *available)
    _run_gang(cluster, folder, version, (built_for, prefix), progress)


def _run_gang(cluster: Cluster, folder: Path, version: str, places: tuple[str, str], progress: Progress) -> None:
    """Run the gang of the release, and check the versions of all that takes part."""
    with task(progress, "run a gang"):
        hello = (folder / HELLO).read_text().replace(*places)
        cluster.kubectl("apply", "-f", "-", input=hello)
        cluster.kubectl("wait", "--for=condition=Complete", "framework/hello", f"--timeout={_PATIENCE}")
    digests = digests_of(folder)
    for deployment in json.loads(cluster.kubectl(_NAMESPACE, "get", "deployments", "--output=json"))["items"]:
        name = deployment["metadata"]["name"]
        program = name.removeprefix("framework")
        _same(f"the label of {name}", deployment["metadata"]["labels"]["app.kubernetes.io/version"], version)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        _same(f"the image of {name}", container["image"], f"{places[1]}/{program}@{digests[program]}")
        said = cluster.kubectl(_NAMESPACE, "exec", f"deployment/{name}", "--", f"/app/bin/{name}", "--version")
        _same(f"{name} --version", said, version)
    for pod in json.loads(cluster.kubectl("get", "pods", "--selector=FC_FRAMEWORK_NAME=hello", "--output=json"))[
        "items"
    ]:
        (barrier,) = pod["spec"]["initContainers"]
        _same("the image of the injected barrier", barrier["image"], f"{places[1]}/barrier@{digests['barrier']}")
        annotations = pod["metadata"]["annotations"]
        said = json.loads(annotations["barrier.frameworkcontroller.microsoft.com/status"])["version"]
        _same("the version of the injected barrier", said, version)
    cluster.kubectl("delete", "framework", "hello", "--cascade=foreground")


def _same(what: str, found: str, expected: str) -> None:
    if found.strip() != expected:
        raise ReleaseError(f"{what} is {found.strip()!r}, not {expected!r}")
