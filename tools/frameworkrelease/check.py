"""Checks a release by what a user does with it: verify, install the programs, and install from a registry.

Nothing but the artefacts is used, and the libraries of PyPI that the wheel asks for. Where something is not as it
should be, such as a file that is missing or unknown, or another version that runs, a function raises ReleaseError and
says what; LocalClusterError where the cluster does not start, refuses an object, or does not complete the gang.
"""

import json
import sys
import tempfile
from pathlib import Path

import localcluster
from frameworkrelease import chart, registry, signing
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.publish import publish
from frameworkrelease.release import HELLO, IMAGES, MANIFESTS, PROGRAMS, PROJECT, Release, moved
from localcluster import Cluster, Depth
from localcluster.progress import task

_NAMESPACE = f"--namespace={chart.NAMESPACE}"
_TIMEOUT = "--timeout=5m"
_CLUSTER = "release-check"
_DEFINITION = "frameworks.frameworkcontroller.microsoft.com"


def check(release: Release, private: str) -> None:
    """Check a release on a local cluster, which is removed at the end.

    The key that signed it signs its images in a local registry.
    """
    with tempfile.TemporaryDirectory() as scratch:
        public = signing.public_key(private, Path(scratch, "release.pub"))
        verify(release, public)
        programs(release, Path(scratch, "venv"))
        place = Path(scratch, "registry")
        place.mkdir()
        with registry.on_loopback(place) as address:
            prefix = moved(release.prefix, address)
            for reference in publish(release, prefix, private).values():
                signing.verify_image(reference, public)
            cluster = localcluster.up(_CLUSTER, Depth.NODE)
            try:
                with registry.on_node(place, cluster):
                    installed(cluster, release, prefix)
            finally:
                cluster.down()


def verify(release: Release, public: Path) -> None:
    """Check the signature and the checksums of a release, and that it is complete."""
    if differing := release.names ^ signing.verify(release.folder, public):
        raise ReleaseError(f"{release.folder} does not hold the files of a release: {', '.join(sorted(differing))}")


def programs(release: Release, environment: Path) -> None:
    """Install the wheel into a fresh environment, and ask each program for its version."""
    with task("install the wheel"):
        run(sys.executable, "-m", "venv", environment)
        wheel = f"{PROJECT}[{','.join(PROGRAMS)}] @ {release.wheel.absolute().as_uri()}"
        run(environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    for name in (f"framework{program}" for program in PROGRAMS):
        _same(f"{name} --version", run(environment / "bin" / name, "--version"), release.version)


def installed(cluster: Cluster, release: Release, prefix: str) -> None:
    """Install a release from a registry that the node can pull from, by helm and by kubectl; run a gang with each."""
    with task("install with helm"):
        chart.helm(
            "install", chart.RELEASE, f"oci://{prefix}/{PROJECT}", f"--version={release.version}", "--plain-http",
            f"--values={release.folder / IMAGES}", f"--set=image.registry={prefix.partition('/')[0]}",
            _NAMESPACE, "--create-namespace", "--wait", _TIMEOUT, "--set=crds.keep=false",
            "--set=history.enabled=true", "--set=history.persistence.enabled=false",
            kubeconfig=cluster.kubeconfig,
        )  # fmt: skip
    _run_gang(cluster, release, prefix)
    chart.helm("uninstall", chart.RELEASE, _NAMESPACE, "--wait", kubeconfig=cluster.kubeconfig)
    cluster.kubectl("delete", "namespace", chart.NAMESPACE)
    cluster.kubectl("wait", "--for=delete", f"crd/{_DEFINITION}", _TIMEOUT)
    with task("install with kubectl"):
        manifests = (release.folder / MANIFESTS).read_text().replace(release.prefix, prefix)
        cluster.kubectl("apply", "--server-side", "-f", "-", input=manifests)
        cluster.kubectl(_NAMESPACE, "wait", "--for=condition=Available", _TIMEOUT, "deployment", "--all")
    _run_gang(cluster, release, prefix)


def _run_gang(cluster: Cluster, release: Release, prefix: str) -> None:
    """Run the gang of the release, and check the versions of all that takes part."""
    with task("run a gang"):
        hello = (release.folder / HELLO).read_text().replace(release.prefix, prefix)
        cluster.kubectl("apply", "-f", "-", input=hello)
        cluster.kubectl("wait", "--for=condition=Complete", "framework/hello", _TIMEOUT)
    version = release.version
    images = {program: f"{prefix}/{program}@{digest}" for program, digest in release.digests.items()}
    for deployment in json.loads(cluster.kubectl(_NAMESPACE, "get", "deployments", "--output=json"))["items"]:
        name = deployment["metadata"]["name"]
        _same(f"the label of {name}", deployment["metadata"]["labels"]["app.kubernetes.io/version"], version)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        _same(f"the image of {name}", container["image"], images[name.removeprefix("framework")])
        said = cluster.kubectl(_NAMESPACE, "exec", f"deployment/{name}", "--", f"/app/bin/{name}", "--version")
        _same(f"{name} --version", said, version)
    pods = cluster.kubectl("get", "pods", "--selector=FC_FRAMEWORK_NAME=hello", "--output=json")
    for pod in json.loads(pods)["items"]:
        (barrier,) = pod["spec"]["initContainers"]
        _same("the image of the injected barrier", barrier["image"], images["barrier"])
        status = json.loads(pod["metadata"]["annotations"]["barrier.frameworkcontroller.microsoft.com/status"])
        _same("the version of the injected barrier", status["version"], version)
    cluster.kubectl("delete", "framework", "hello", "--cascade=foreground")


def _same(what: str, found: str, expected: str) -> None:
    if found.strip() != expected:
        raise ReleaseError(f"{what} is {found.strip()!r}, not {expected!r}")
