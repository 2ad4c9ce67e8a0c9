"""Signatures by cosign with a key pair: of a file, as a bundle beside it, and of an image, in its registry.

Nothing is written to a public log and no service is asked, so that a release can be signed and verified without the
Internet; `signing-config.json` says so to cosign. The password of a key is in `COSIGN_PASSWORD`, or cosign asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from frameworkrelease import chart
from frameworkrelease.artefacts.errors import ReleaseError
from frameworkrelease.artefacts.run import run

_CONFIG: Final = Path(__file__).with_name("signing-config.json")
# There is no log to look into; the key alone decides.
_BY_KEY_ALONE: Final = "--insecure-ignore-tlog=true"


def make_key(prefix: Path) -> tuple[Path, Path]:
    """Make a pair of keys, `<prefix>.key` and `<prefix>.pub`, and return their paths.

    Raises:
        ReleaseError: There is such a pair, or cosign failed.
    """
    private, public = (prefix.with_name(f"{prefix.name}.{end}") for end in ("key", "pub"))
    for file in (private, public):
        if file.exists():
            raise ReleaseError(f"{file} exists: move it away, or give the new pair another name")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    _cosign("generate-key-pair", f"--output-key-prefix={prefix}")
    return private, public


def public_key(private: str, target: Path) -> Path:
    """Write the public key that belongs to a private one, and return its path."""
    target.write_text(_cosign("public-key", f"--key={private}"))
    return target


def sign_file(file: Path, private: str, bundle: Path) -> None:
    """Write the signature of a file as a bundle of Sigstore."""
    _cosign("sign-blob", "--yes", f"--key={private}", f"--signing-config={_CONFIG}", f"--bundle={bundle}", file)
    # cosign lets only its user read it.
    bundle.chmod(0o644)


def verify_file(file: Path, public: Path, bundle: Path) -> None:
    """Check the signature of a file.

    Raises:
        ReleaseError: The key did not sign this file.
    """
    _cosign("verify-blob", f"--key={public}", f"--bundle={bundle}", _BY_KEY_ALONE, file)


def sign_image(reference: str, private: str) -> None:
    """Sign an image, or another artefact of a registry, and store the signature beside it.

    Args:
        reference: The name and the digest, `registry.example/team/controller@sha256:...`.
        private: The key, a path or another way in which cosign finds one, such as `env://COSIGN_PRIVATE_KEY`.
    """
    _cosign("sign", "--yes", f"--key={private}", f"--signing-config={_CONFIG}", reference)


def verify_image(reference: str, public: Path) -> None:
    """Check the signature of an image, by its name and digest.

    Raises:
        ReleaseError: The key did not sign it.
    """
    _cosign("verify", f"--key={public}", _BY_KEY_ALONE, reference)


def _cosign(*arguments: str | Path) -> str:
    return run(chart.program("cosign"), *arguments)
