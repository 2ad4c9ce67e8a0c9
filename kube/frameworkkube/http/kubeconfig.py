"""A plain kubeconfig, read without the official client, whose import takes longer than most requests.

Plain is one file whose context has a server, certificates, and a token, if any. Everything else is not read here but by
the official client (`credentials.from_kubeconfig`): plugins, passwords, merged files, proxies, and what is broken, so
that its messages name the defect.
"""

import atexit
import base64
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_LISTS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_CLUSTER: Final = {
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "extensions",
}
_USER: Final = {
    "token",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    # Who is acted as is the business of those who read it.
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
}
_written: dict[bytes, Path] = {}
"""The files that stand for data, by their content."""


@dataclass(frozen=True)
class Plain:
    """What a plain kubeconfig says of server and user; the attributes are those of `credentials.Endpoint`."""

    server: str
    ca_file: Path | None
    client_certificate_file: Path | None
    client_key_file: Path | None
    authorization: str | None
    tls_server_name: str | None
    verify: bool


def read(files: str) -> dict[str, Any] | None:
    """Return the content of a kubeconfig that is one file, None for anything else; `files` is as in `KUBECONFIG`."""
    path = Path(files).expanduser()
    if os.pathsep in files or not path.is_file():
        return None
    try:
        import yaml
    except ImportError:
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        config = yaml.load(path.read_text(), Loader=loader)  # noqa: S506 -- a safe one, faster where it is of C
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    is_plain = isinstance(config, dict) and all(_is_list(config.get(lists), kind) for lists, kind in _LISTS.items())
    return config if is_plain else None


def _is_list(entries: object, kind: str) -> bool:
    """Report whether these are entries of one kind with names of their own."""
    if entries is None:
        return True
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        return False
    names = [one.get("name") for one in entries]
    return (
        all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
        and all(isinstance(one.get(kind), dict) for one in entries)
    )


def plain(
    files: str,
    context: str | None,
    environ: Mapping[str, str] = os.environ,
    *,
    content: Mapping[str, Any] | None = None,
) -> Plain | None:
    """Return what a plain kubeconfig says of a context (None: the current one), None for any other.

    `content` is what `read` has returned of the files, so that they are read once. The environment may name proxies.
    """
    config = read(files) if content is None else content
    if config is None or any(name.lower().endswith("_proxy") and value for name, value in environ.items()):
        return None
    found = _entry(config, "contexts", config.get("current-context") if context is None else context)
    if found is None:
        return None
    cluster, user = _entry(config, "clusters", found.get("cluster")), _entry(config, "users", found.get("user"))
    if cluster is None or user is None or not (cluster.keys() <= _CLUSTER and user.keys() <= _USER):
        return None
    folder = Path(files).expanduser().absolute().parent
    return _plain(cluster, user, folder)


def _entry(config: Mapping[str, Any], kind: str, name: object) -> dict[str, Any] | None:
    return next((one[_LISTS[kind]] for one in config.get(kind) or () if one["name"] == name), None)


def _plain(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> Plain | None:
    server, name = cluster.get("server"), cluster.get("tls-server-name")
    insecure, token = cluster.get("insecure-skip-tls-verify", False), user.get("token")
    if not (isinstance(server, str) and server.startswith("https://") and isinstance(insecure, bool)):
        return None
    if not (_is_text(name) and _is_text(token)):
        return None
    try:
        ca = _file(cluster, "certificate-authority", folder)
        certificate, key = (_file(user, kind, folder) for kind in ("client-certificate", "client-key"))
    except (ValueError, OSError):
        return None
    if token is None and (certificate is None or key is None):
        return None
    bearer = None if token is None else f"Bearer {token}"
    return Plain(server.rstrip("/"), ca, certificate, key, bearer, name, not insecure)


def _is_text(value: object) -> bool:
    return value is None or (isinstance(value, str) and bool(value))


def _file(entry: Mapping[str, Any], key: str, folder: Path) -> Path | None:
    """Return the file that an entry names, or one that holds its data.

    Raises:
        ValueError, OSError: there is no such file, or it is no data.
    """
    data, named = entry.get(f"{key}-data"), entry.get(key)
    if data is not None:
        if not (isinstance(data, str) and data):
            raise ValueError(key)
        return _holding(base64.b64decode(data, validate=True))
    if named is None:
        return None
    path = Path(os.path.normpath(folder / named))
    if not path.is_file():
        raise ValueError(key)
    return path


def _holding(content: bytes) -> Path:
    """Return a file that only this user may read; Python reads certificates from nothing else."""
    known = _written.get(content)
    if known is not None and known.is_file():
        return known
    if not _written:
        atexit.register(_remove)
    number, name = tempfile.mkstemp(prefix="kubeconfig-")
    with os.fdopen(number, "wb") as file:
        file.write(content)
    _written[content] = Path(name)
    return _written[content]


def _remove() -> None:
    for file in _written.values():
        file.unlink(missing_ok=True)
