"""Dockerfiles read for what decides on the content of an image: the files that they copy, and a digest of all of it."""

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from localcluster.errors import SetupError

_IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")


def copied_files(dockerfile: Path, context: Path) -> list[Path]:
    """Return the files of the context that a Dockerfile copies, sorted; SetupError if it does not have one of them."""
    files: set[Path] = set()
    for line in dockerfile.read_text().replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0].upper() not in {"COPY", "ADD"}:
            continue
        if any(word.startswith("--from") for word in words):
            continue
        sources = [word for word in words[1:] if not word.startswith("--")][:-1]
        # Also `.`, `./program` and patterns.
        patterns = [os.path.normpath(source.strip("/")) for source in sources]
        paths = [path for pattern in patterns for path in ([context] if pattern == "." else context.glob(pattern))]
        found = {file for path in paths for file in _files_under(path)}
        if not found:
            raise SetupError(f"{dockerfile} copies {' '.join(sources)}, which is not in {context}")
        files |= found
    return sorted(files)


def is_lock(file: Path) -> bool:
    """Report whether this is a requirements file that pins hashes, so that a build needs its wheels."""
    return file.suffix == ".txt" and "--hash=" in file.read_text(errors="replace")


def digest_of(dockerfile: Path, context: Path, copied: Sequence[Path], arguments: Mapping[str, str], tag: str) -> str:
    """Return a short digest of everything that decides on the content of an image."""
    digest = hashlib.sha256(repr((tag, sorted(arguments.items()))).encode())
    digest.update(dockerfile.read_bytes())
    for file in copied:
        executable = os.access(file, os.X_OK)
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(context)} {executable} {content}\n".encode())
    return digest.hexdigest()[:12]


def _files_under(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for file in path.rglob("*"):
            if file.is_file() and not any(part in _IGNORED for part in file.parts) and file.suffix != ".pyc":
                yield file
