"""Reads the files of a job on this machine; secrets and what git ignores stay at home."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from frameworkclient.errors import ManifestError
from frameworkclient.model.code import Code, check_sizes

SECRETS: Final = (
    *(".env", ".env.*", ".netrc", ".pypirc", ".npmrc", ".git-credentials", ".aws", ".azure", ".docker", ".gnupg"),
    *(".kube", ".ssh", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx"),
    *("kubeconfig", "*.kubeconfig", "credentials.json", "service-account*.json"),
)
"""Files and folders that stay at home, whatever git says of them."""
_CACHES: Final = (".git", "__pycache__", ".venv", "node_modules", ".*_cache", ".ipynb_checkpoints")


def read_code(workdir: str | Path | None = None, files: Sequence[str | Path] = ()) -> Code:
    """Read all files of a folder that git does not ignore, and single files, which lie beside these by their names.

    Secrets (`.env`, keys and others) stay at home.

    Args:
        workdir: The folder, None for no folder.
        files: Single files; one of the folder keeps its path.

    Raises:
        ManifestError: A file cannot be read, .gitignore cannot be read without git, or there is too much; the message
            names the largest files.
    """
    left_out: list[str] = []
    found: dict[str, Path] = {}
    if workdir is not None:
        folder = Path(workdir)
        if not folder.is_dir():
            raise ManifestError(f"workdir {workdir}: there is no such folder")
        for name in sorted(set(_listed(folder))):
            path = folder / name
            if path.is_file() and not _is_like(SECRETS, name):
                found[name] = path
            elif os.path.lexists(path):  # git lists what was deleted, too
                left_out.append(name)
    found |= {path_of(one, workdir): Path(one) for one in files}
    try:
        check_sizes({name: path.stat().st_size for name, path in found.items()})
        contents = {name: (path.read_bytes(), os.access(path, os.X_OK)) for name, path in found.items()}
    except OSError as error:
        raise ManifestError(f"{error.filename}: {error.strerror}") from error
    return Code.packed(contents, tuple(left_out))


def path_of(file: str | Path, workdir: str | Path | None) -> str:
    """Return where a file lies below the folder in which the application starts."""
    path = Path(file).resolve()
    root = Path(workdir).resolve() if workdir is not None else None
    return path.relative_to(root).as_posix() if root and path.is_relative_to(root) else path.name


def _listed(folder: Path) -> Iterator[str]:
    """Yield the paths of files below a folder, apart from what git ignores and what tools keep for themselves."""
    if shutil.which("git") is None:
        if (folder / ".gitignore").exists():
            raise ManifestError(f"workdir {folder}: has a .gitignore, and there is no git to read it; install git")
        listed = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()]
    else:
        listed = _listed_by_git(folder)
    yield from (name for name in listed if name and not _is_like(_CACHES, name))


def _listed_by_git(folder: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as empty:
        git = ["git", "-C", str(folder)]
        if subprocess.run([*git, "rev-parse", "--is-inside-work-tree"], capture_output=True, check=False).returncode:
            # Without a repository git reads no .gitignore.
            subprocess.run(["git", "init", "--quiet", empty], capture_output=True, check=True)
            git += [f"--git-dir={empty}/.git", f"--work-tree={folder.resolve()}"]
        git += ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        return os.fsdecode(subprocess.run(git, capture_output=True, check=True).stdout).split("\0")


def _is_like(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatch(part, pattern) for part in name.split("/") for pattern in patterns)
