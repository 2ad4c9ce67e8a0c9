"""Publishes the images and the chart of a release to a registry, and signs them there."""

import hashlib

from frameworkrelease import chart, signing
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.release import PROJECT, Release
from localcluster.packages import require
from localcluster.progress import task


def publish(release: Release, prefix: str, private: str) -> dict[str, str]:
    """Copy the images and push the chart to a registry and path, without TLS on 127.0.0.1, and sign all of them.

    The result has the references with digests by name: those of the images, and `chart`.

    Raises:
        ReleaseError: A file is not that of the release, or the registry refuses it.
    """
    signing.verify_checksums(release.folder)
    require(("skopeo",))
    published = dict[str, str]()
    for program, digest in release.digests.items():
        reference = f"{prefix}/{program}:{release.version}"
        with task(f"publish {reference}"):
            # The policy of the machine is about images that it runs.
            run(
                "skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests",
                *_insecure(prefix, "--dest-tls-verify=false"), f"oci-archive:{release.image(program)}", f"docker://{reference}",
            )  # fmt: skip
        published[program] = f"{prefix}/{program}@{digest}"
        if (found := _digest(reference)) != digest:
            raise ReleaseError(f"{reference} has the digest {found}, not {digest}: the registry changed it")
    with task("publish the chart"):
        chart.helm("push", str(release.chart), f"oci://{prefix}", *_insecure(prefix, "--plain-http"))
        published["chart"] = f"{prefix}/{PROJECT}@{_digest(f'{prefix}/{PROJECT}:{release.version}')}"
    for reference in published.values():
        with task(f"sign {reference}"):
            signing.sign_image(reference, private)
    return published


def _digest(reference: str) -> str:
    """Return the digest that a registry has for a name: that of the manifest as it sends it."""
    manifest = run("skopeo", "inspect", "--raw", *_insecure(reference, "--tls-verify=false"), f"docker://{reference}")
    return f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"


def _insecure(place: str, option: str) -> tuple[str, ...]:
    return (option,) if place.startswith("127.0.0.1:") else ()
