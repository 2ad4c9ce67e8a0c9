"""Official builds of the programs, downloaded where the network allows it and verified against their checksums.

kwok, Kueue, JobSet and LeaderWorkerSet publish no checksums. These, and what tests alone use, are always built from
their modules, whose checksums are in go.sum. A download that does not match its checksum is removed, and a BinaryError;
so is a list of checksums without it.
"""

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import BinaryError
from localcluster.programs.catalogue import Program, architecture
from localcluster.progress import task

TIMEOUT_SECONDS = 5.0
# This process does not wait again for a host that did not answer.
_unreachable: set[str] = set()


@dataclass(frozen=True)
class Source:
    """Where a program, or a gzipped tar with it as a member, is published, and the file of its checksum."""

    url: str
    sums: str
    member: str | None = None


def source(program: Program, version: str, architecture: str) -> Source | None:
    """Return where the official build of a program is published, or None if no build has a checksum."""
    match program.project:
        case "kubernetes":
            url = f"https://dl.k8s.io/release/v{version}/bin/linux/{architecture}/{program.name}"
            return Source(url, f"{url}.sha256")
        case "etcd":
            folder = f"https://github.com/etcd-io/etcd/releases/download/v{version}"
            name = f"etcd-v{version}-linux-{architecture}"
            return Source(f"{folder}/{name}.tar.gz", f"{folder}/SHA256SUMS", f"{name}/etcd")
        case "coredns":
            folder = f"https://github.com/coredns/coredns/releases/download/v{version}"
            url = f"{folder}/coredns_{version}_linux_{architecture}.tgz"
            return Source(url, f"{url}.sha256", "coredns")
        case "helm":
            url = f"https://get.helm.sh/helm-v{version}-linux-{architecture}.tar.gz"
            return Source(url, f"{url}.sha256sum", f"linux-{architecture}/helm")
        case "cosign":
            folder = f"https://github.com/sigstore/cosign/releases/download/v{version}"
            return Source(f"{folder}/cosign-linux-{architecture}", f"{folder}/cosign_checksums.txt")
        case _:
            return None


def download(program: Program, version: str, target: Path, environ: Mapping[str, str] = os.environ) -> bool:
    """Download the official build of a program, unless `FRAMEWORKCONTROLLER_DOWNLOADS` is `never`.

    Without a build, or an answer of its host, the result is False: build the program instead.
    """
    if environ.get("FRAMEWORKCONTROLLER_DOWNLOADS") == "never":
        return False
    found = source(program, version, architecture())
    return found is not None and fetch(found, program.name, target)


def fetch(found: Source, name: str, target: Path) -> bool:
    """Download one source; see `download`."""
    hosts = {urllib.parse.urlsplit(url).netloc for url in (found.url, found.sums)}
    if hosts & _unreachable:
        return False
    archive = target.with_name(f"{target.name}.download")
    try:
        with urllib.request.urlopen(found.sums, timeout=TIMEOUT_SECONDS) as answer:
            expected = expected_sum(answer.read().decode(), found.url.rpartition("/")[2])
        with task(f"download {name}"), archive.open("w+b") as file:
            with urllib.request.urlopen(found.url, timeout=TIMEOUT_SECONDS) as answer:
                shutil.copyfileobj(answer, file)
            file.seek(0)
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != expected:
            raise BinaryError(
                f"{found.url} has the SHA-256 checksum {actual}, but {found.sums} says {expected}: try again, or set"
                " FRAMEWORKCONTROLLER_DOWNLOADS=never to build the program"
            )
        if found.member is None:
            archive.replace(target)
        else:
            _extract(archive, found.member, target)
    except urllib.error.HTTPError:
        return False
    except (OSError, http.client.HTTPException):
        # A refused connection, a name that does not resolve, a proxy in between, or a timeout.
        _unreachable.update(hosts)
        return False
    finally:
        archive.unlink(missing_ok=True)
    return True


def expected_sum(text: str, file: str) -> str:
    """Return the checksum of a file in a list of checksums, or the only checksum of a list that names no file."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    for row in rows:
        if len(row) == 2 and row[1].lstrip("*").rpartition("/")[2] == file:
            return row[0].lower()
    if len(rows) == 1 and len(rows[0]) == 1:
        return rows[0][0].lower()
    raise BinaryError(f"the list of checksums has none for {file}")


def _extract(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive) as content:
        source = content.extractfile(member)
        if source is None:
            raise BinaryError(f"{archive.name} has no file {member}")
        with source, target.open("wb") as file:
            shutil.copyfileobj(source, file)
