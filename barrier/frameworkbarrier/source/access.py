"""Where the API server is, and the credentials of this Pod for it.

Order: `KUBE_APISERVER_ADDRESS`, the cluster's own address and service account, `KUBECONFIG`. Credentials are files that
the kubelet renews, so none is kept in memory: the token is read for each request, the CA for each connection.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from frameworkbarrier.errors import SettingsError


@dataclass(slots=True)
class Token:
    """A bearer token in a file. While it is unreadable or empty the last good token counts: files are replaced."""

    path: str
    _last: str = ""

    def read(self) -> str:
        """Return the current token; "" if there never was one."""
        with contextlib.suppress(OSError, UnicodeDecodeError), open(self.path, encoding="ascii") as file:
            self._last = file.read().strip() or self._last
        return self._last


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and the credentials for it."""

    address: str
    """`https://host:port`, without a slash at the end."""
    token: Token | None = None
    ca: str | bool = True
    """File with the CA's certificates; True: the ones that `requests` brings; False: none are checked (kubeconfig)."""
    client_certificate: tuple[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def find(apiserver: str, kubeconfig: str, token_dir: str, environ: Mapping[str, str]) -> Access:
    """Choose the API server.

    Raises:
        SettingsError: there is none, or the kubeconfig cannot be used.
    """
    in_cluster = _in_cluster_address(environ)
    has_token = os.path.exists(os.path.join(token_dir, "token"))
    if apiserver or (in_cluster and has_token):
        return _with_service_account(apiserver or in_cluster, token_dir)
    if kubeconfig:
        return _from_kubeconfig(kubeconfig)
    if in_cluster:
        raise SettingsError(
            f"FB_TOKEN_DIR={token_dir}: there is no token: set `automountServiceAccountToken: true` in the Pod, or "
            "mount a projected service account token with ca.crt and set FB_TOKEN_DIR to its folder"
        )
    raise SettingsError(
        "no API server: KUBE_APISERVER_ADDRESS, KUBERNETES_SERVICE_HOST and KUBECONFIG are all unset; Kubernetes sets "
        "KUBERNETES_SERVICE_HOST in every Pod, so outside of a Pod set one of the other two"
    )


def _in_cluster_address(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _with_service_account(address: str, token_dir: str) -> Access:
    if not address.startswith("https://"):
        # A token must not be sent in the clear; with FC a plain address is `kubectl proxy` or an insecure port.
        return Access(address)
    ca = os.path.join(token_dir, "ca.crt")
    return Access(address, Token(os.path.join(token_dir, "token")), ca if os.path.exists(ca) else True)


def read_namespace(token_dir: str) -> str:
    """Return the namespace that the service account's folder names, or `default`."""
    try:
        with open(os.path.join(token_dir, "namespace"), encoding="ascii") as file:
            return file.read().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _from_kubeconfig(path: str) -> Access:
    try:
        from kubernetes import client, config
    except ImportError as absent:
        raise SettingsError(
            "KUBECONFIG is set, but this installation has no package kubernetes: "
            "install frameworkcontroller[barrier,kubeconfig], or set KUBE_APISERVER_ADDRESS"
        ) from absent
    loaded = client.Configuration()
    try:
        config.load_kube_config(config_file=path, client_configuration=loaded)
    except config.ConfigException as fault:
        raise SettingsError(f"KUBECONFIG={path}: {fault}") from fault
    # Read once: a kubeconfig is for a person's machine, where no wait is longer than the life of its token.
    schemes = loaded.auth_settings().values()
    headers = {str(each["key"]): str(each["value"]) for each in schemes if each.get("in") == "header" and each["value"]}
    return Access(
        loaded.host.rstrip("/"),
        ca=(loaded.ssl_ca_cert or True) if loaded.verify_ssl else False,
        client_certificate=(loaded.cert_file, loaded.key_file) if loaded.cert_file else None,
        headers=headers,
    )
