"""What makes a release verifiable: the checksums of its files, and signatures by cosign with a key pair.

The checksums, `SHA256SUMS`, are those of sha256sum, by which users check them. Their signature, a bundle of Sigstore
beside them, is that of all files; an image has one of its own in its registry.

Nothing is written to a public log and no service is asked, so that a release can be signed and verified without the
Internet; `signing-config.json` says so to cosign. The password of a key is in `COSIGN_PASSWORD`, or cosign asks for it.
A private key is a path or another way in which cosign finds one, such as `env://COSIGN_PRIVATE_KEY`. Where a program
fails, the key did not sign what is verified, a file has another checksum or none, or a pair of keys exists already, a
function raises ReleaseError.
"""

from pathlib import Path
from typing import Final

from frameworkrelease import chart
from frameworkrelease.commands import ReleaseError, run

CHECKSUMS: Final = "SHA256SUMS"
SIGNATURE: Final = f"{CHECKSUMS}.sigstore.json"
# Before the name of a file: 64 digits and two blanks.
_SUM: Final = 66
_CONFIG: Final = Path(__file__).with_name("signing-config.json")
# There is no log to look into; the key alone decides.
_BY_KEY_ALONE: Final = "--insecure-ignore-tlog=true"


def write_checksums(folder: Path) -> None:
    """Write the checksums of the files of a folder."""
    (folder / CHECKSUMS).write_text(run("sha256sum", "--", *sorted(_present(folder)), folder=folder))


def verify_checksums(folder: Path) -> set[str]:
    """Check the files of a folder against their checksums, and return their names."""
    run("sha256sum", "--check", "--strict", "--quiet", CHECKSUMS, folder=folder)
    # sha256sum also reads comments, other formats, and files of other folders.
    listed = {line[_SUM:] for line in (folder / CHECKSUMS).read_text().splitlines()}
    if differing := listed ^ _present(folder):
        raise ReleaseError(
            f"{folder} does not hold what {CHECKSUMS} lists; the difference: {', '.join(sorted(differing))}"
        )
    return listed


def make_key(prefix: Path) -> tuple[Path, Path]:
    """Make a pair of keys, `<prefix>.key` and `<prefix>.pub`, and return their paths."""
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


def sign(folder: Path, private: str) -> None:
    """Sign the checksums of a release, and so all of its files."""
    bundle = folder / SIGNATURE
    by = (f"--key={private}", f"--signing-config={_CONFIG}", f"--bundle={bundle}")
    _cosign("sign-blob", "--yes", *by, folder / CHECKSUMS)
    # cosign lets only its user read it.
    bundle.chmod(0o644)


def verify(folder: Path, public: Path) -> set[str]:
    """Check the signature of a release and all its files, and return their names."""
    bundle = f"--bundle={folder / SIGNATURE}"
    _cosign("verify-blob", f"--key={public}", bundle, _BY_KEY_ALONE, folder / CHECKSUMS)
    return verify_checksums(folder)


def sign_image(reference: str, private: str) -> None:
    """Sign an image, or another artefact of a registry, by its name and digest; the signature is stored beside it."""
    _cosign("sign", "--yes", f"--key={private}", f"--signing-config={_CONFIG}", reference)


def verify_image(reference: str, public: Path) -> None:
    """Check the signature of an image, by its name and digest."""
    _cosign("verify", f"--key={public}", _BY_KEY_ALONE, reference)


def _present(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} - {CHECKSUMS, SIGNATURE}


def _cosign(*arguments: str | Path) -> str:
    return run(chart.program("cosign"), *arguments)
