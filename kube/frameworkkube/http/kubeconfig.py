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
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

_LISTS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_written: dict[bytes, Path] = {}
"""The files that stand for data, by their content."""


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Cluster(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(pattern="^https://")]
    certificate_authority: str | None = None
    certificate_authority_data: _Text | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: _Text | None = None
    extensions: Any = None


class _User(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    token: _Text | None = None
    client_certificate: str | None = None
    client_certificate_data: _Text | None = None
    client_key: str | None = None
    client_key_data: _Text | None = None
    # Who is acted as is the business of those who read it.
    acts_as: Any = msgspec.field(default=None, name="as")
    as_uid: Any = None
    as_groups: Any = None
    as_user_extra: Any = None


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
) -> dict[str, Any] | None:
    """Return what a plain kubeconfig says of a context (None: the current one), None for any other.

    These are arguments of `credentials.Endpoint`. `content` is what `read` has returned of the files, so that they are
    read once. The environment may name proxies.
    """
    config = read(files) if content is None else content
    if config is None or any(name.lower().endswith("_proxy") and value for name, value in environ.items()):
        return None
    found = _entry(config, "contexts", config.get("current-context") if context is None else context)
    if found is None:
        return None
    cluster, user = _entry(config, "clusters", found.get("cluster")), _entry(config, "users", found.get("user"))
    try:
        return _plain(msgspec.convert(cluster, _Cluster), msgspec.convert(user, _User), Path(files).expanduser())
    except (ValueError, OSError):
        return None


def _entry(config: Mapping[str, Any], kind: str, name: object) -> dict[str, Any] | None:
    return next((one[_LISTS[kind]] for one in config.get(kind) or () if one["name"] == name), None)


def _plain(cluster: _Cluster, user: _User, path: Path) -> dict[str, Any] | None:
    folder = path.absolute().parent
    certificate = _file(user.client_certificate_data, user.client_certificate, folder)
    key = _file(user.client_key_data, user.client_key, folder)
    if user.token is None and (certificate is None or key is None):
        return None
    return {
        "server": cluster.server,
        "ca_file": _file(cluster.certificate_authority_data, cluster.certificate_authority, folder),
        "client_certificate_file": certificate,
        "client_key_file": key,
        "authorization": None if user.token is None else f"Bearer {user.token}",
        "tls_server_name": cluster.tls_server_name,
        "verify": not cluster.insecure_skip_tls_verify,
    }


def _file(data: str | None, named: str | None, folder: Path) -> Path | None:
    """Return the file that an entry names, or one that holds its data.

    Raises:
        ValueError, OSError: there is no such file, or it is no data.
    """
    if data is not None:
        return _holding(base64.b64decode(data, validate=True))
    if named is None:
        return None
    path = Path(os.path.normpath(folder / named))
    if not path.is_file():
        raise ValueError(named)
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
