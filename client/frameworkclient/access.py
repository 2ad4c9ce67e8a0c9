"""Where the cluster is and who the user is, as kubectl finds it: kubeconfig, context, namespace, impersonation.

`frameworkkube.http.credentials` reads the kubeconfig, and has the official client run its plugins. This module adds
what that leaves out: the namespace of the context, and `as`, `as-uid`, `as-groups` and `as-user-extra` of its user.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from frameworkclient.errors import AccessError, nearest
from frameworkkube.errors import CredentialsError
from frameworkkube.http import kubeconfig as plainly
from frameworkkube.http.credentials import SERVICE_ACCOUNT_ROOT, Endpoint, from_kubeconfig, in_cluster

DEFAULT_NAMESPACE: Final = "default"
_OF_A_HEADER: Final = "!#$&'*+-.^_`|~"
"""What the name of a header may have beside letters and digits, apart from the percent sign, which encodes the rest."""


@dataclass(frozen=True)
class Impersonation:
    """Whom to act as; the user needs the permission to impersonate.

    Attributes:
        user: Name of the user, "" to act as oneself.
        uid: UID of the user, "" for none.
        groups: Groups of the user.
        extra: Further attributes of the user, each with its values.
    """

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that ask for it, as "User impersonation" of kubernetes.io has them."""
        named = [("Impersonate-User", self.user), ("Impersonate-Uid", self.uid)]
        named += [("Impersonate-Group", group) for group in self.groups]
        named += [
            (f"Impersonate-Extra-{quote(key, _OF_A_HEADER)}", value) for key, values in self.extra for value in values
        ]
        return tuple((name, value) for name, value in named if value)


@dataclass(frozen=True)
class Access:
    """A cluster, and the user's place in it: the namespace of the context, or of this Pod, else `default`."""

    endpoint: Endpoint
    namespace: str


def find(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    impersonate: Impersonation | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path = SERVICE_ACCOUNT_ROOT,
) -> Access:
    """Find the cluster as kubectl does.

    The order is: `kubeconfig`, `KUBECONFIG` (files separated by colons), `~/.kube/config`, the service account of the
    Pod that this runs in, which is mounted at `root`. `impersonate` outranks what the kubeconfig says.

    Raises:
        AccessError: Nothing usable was found; the message names the flag, the file or the field.
    """
    files = _files(kubeconfig, environ)
    try:
        if not files:
            return _of_pod(context, impersonate, environ, root)
        content = plainly.read(files)
        config = _merged(files, "--kubeconfig" if kubeconfig else "KUBECONFIG") if content is None else content
        namespace, whom = _chosen(config, files, context)
        endpoint = from_kubeconfig(files, context, content=content)
        return Access(_with_headers(endpoint, (impersonate or whom).headers), namespace)
    except CredentialsError as error:
        raise AccessError(str(error)) from error


def contexts(kubeconfig: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the contexts, for the completion of command lines; none if there is no kubeconfig."""
    files = _files(kubeconfig, environ)
    content = plainly.read(files) if files else {}
    try:
        return sorted(_names(_merged(files, "--kubeconfig") if content is None else content, "contexts"))
    except AccessError:
        return []


def _files(kubeconfig: str | None, environ: Mapping[str, str]) -> str:
    """Return the kubeconfig, which may be several files; "" if there is none."""
    home = environ.get("HOME", "")
    file = Path(home) / ".kube" / "config"
    return kubeconfig or environ.get("KUBECONFIG") or (str(file) if home and file.is_file() else "")


def _chosen(config: Mapping[str, Any], files: str, context: str | None) -> tuple[str, Impersonation]:
    """Return what a kubeconfig's context says beside the credentials: the namespace, and whom to act as."""
    known = _names(config, "contexts")
    name = context or config.get("current-context") or ""
    if name not in known:
        raise AccessError(_no_context(name, sorted(known), files, asked=context is not None))
    entry = _object(known[name].get("context"), f"{files}: context {name}")
    user = _object(_names(config, "users").get(entry.get("user") or "", {}).get("user"), f"{files}: user of {name}")
    whom = Impersonation(
        user=user.get("as") or "",
        uid=user.get("as-uid") or "",
        groups=tuple(user.get("as-groups") or ()),
        extra=tuple((key, tuple(values or ())) for key, values in (user.get("as-user-extra") or {}).items()),
    )
    return entry.get("namespace") or DEFAULT_NAMESPACE, whom


def _object(value: Any, what: str) -> dict[str, Any]:
    if value and not isinstance(value, dict):
        raise AccessError(f"{what}: must be an object")
    return value or {}


def _no_context(name: str, known: Sequence[str], files: str, *, asked: bool) -> str:
    if not asked and not name:
        what, following = f"{files} has no current-context", "choose one with --context"
    else:
        what = f"--context {name}: {files} has no such context" if asked else f"{files}: no context {name}"
        following = nearest(name, known, "choose another one with --context")
    return f"{what}; {following} (there are: {', '.join(known) or 'none'})"


def _merged(files: str, source: str) -> dict[str, Any]:
    """Read the files as the official client merges them, without their credentials being resolved."""
    from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, ConfigException, KubeConfigMerger

    paths = [Path(path).expanduser() for path in files.split(ENV_KUBECONFIG_PATH_SEPARATOR) if path]
    if not any(path.is_file() for path in paths):
        raise AccessError(f"{source} {files}: there is no such file; name the kubeconfig of your cluster")
    try:
        config = KubeConfigMerger(files).config
        merged = config.value if config is not None else None
    except (ConfigException, OSError) as error:
        raise AccessError(f"{source} {files}: {error}") from error
    except Exception as error:  # YAML errors, and what the loader raises about documents of another shape
        raise AccessError(f"{source} {files}: not a kubeconfig: {type(error).__name__}: {error}") from error
    if not isinstance(merged, dict):
        raise AccessError(f"{source} {files}: not a kubeconfig; it must be an object with contexts, clusters and users")
    return merged


def _names(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the entries of a list of the kubeconfig by their names."""
    entries = [getattr(entry, "value", entry) for entry in config.get(kind) or ()]
    return {str(entry["name"]): entry for entry in entries if isinstance(entry, dict) and "name" in entry}


def _with_headers(endpoint: Endpoint, headers: tuple[tuple[str, str], ...]) -> Endpoint:
    if not headers:
        return endpoint
    again = endpoint.reload
    return replace(endpoint, headers=headers, reload=None if again is None else lambda: _with_headers(again(), headers))


def _of_pod(context: str | None, impersonate: Impersonation | None, environ: Mapping[str, str], root: Path) -> Access:
    if context is not None:
        raise AccessError(f"--context {context}: there is no kubeconfig; name one with --kubeconfig or KUBECONFIG")
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        raise AccessError("there is no kubeconfig: name one with --kubeconfig or KUBECONFIG, or create ~/.kube/config")
    endpoint = in_cluster(root, environ)
    file = root / "namespace"
    namespace = file.read_text().strip() if file.is_file() else DEFAULT_NAMESPACE
    return Access(_with_headers(endpoint, (impersonate or Impersonation()).headers), namespace)
