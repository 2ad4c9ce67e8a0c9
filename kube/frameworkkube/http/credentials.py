"""Where the API server is and which credentials to use: in-cluster files, a kubeconfig, or a bare address."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from frameworkkube.errors import CredentialsError
from frameworkkube.http import kubeconfig as plainly
from frameworkkube.log import Logger

_log = Logger(__name__)

SERVICE_ACCOUNT_ROOT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Endpoint:
    """A server and its credentials. A description only: `rotation` reads the files, again and again.

    Attributes:
        server: `http[s]://host[:port][/prefix]` without a slash at the end.
        ca_file: PEM bundle that the server's certificate must chain to; None means the system's trust store.
        client_certificate_file, client_key_file: PEM files of a client certificate; both or none.
        token_file: file with a bearer token; the kubelet rotates it.
        authorization: a fixed value of the Authorization header, such as `Bearer abc`; `token_file` wins over it.
        tls_server_name: name to expect in the server's certificate if it is not the host of `server`.
        verify: False accepts any certificate (`insecure-skip-tls-verify`).
        proxy: HTTP proxy, `http[s]://host:port`.
        headers: sent with each request, such as `Impersonate-Group`; a name may occur several times.
        reload: returns a fresh description (runs an exec plugin again); called in a thread after the server refused
            the present one.
    """

    server: str
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    token_file: Path | None = None
    authorization: str | None = None
    tls_server_name: str | None = None
    verify: bool = True
    proxy: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    reload: Callable[[], "Endpoint"] | None = None

    def __post_init__(self) -> None:
        _check_address(self.server)
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise CredentialsError(
                "client certificate: certificate and key are needed together, one of them is missing"
            )
        if self.proxy is not None and not self.proxy.lower().startswith(("http://", "https://")):
            # Not shown, since it may have a password.
            raise CredentialsError("proxy (proxy-url of the kubeconfig, or HTTPS_PROXY): expected http[s]://host:port")
        object.__setattr__(self, "server", self.server.rstrip("/"))

    def __repr__(self) -> str:
        # The generated one would show the token in logs and tracebacks.
        return f"Endpoint(server={self.server!r})"

    @property
    def host(self) -> str:
        """`host:port` as metrics label it."""
        return urlsplit(self.server).netloc

    @property
    def is_anonymous(self) -> bool:
        """Whether its requests carry no credentials."""
        return not (self.authorization or self.token_file or self.client_certificate_file)


def in_cluster(root: Path = SERVICE_ACCOUNT_ROOT, environ: Mapping[str, str] = os.environ) -> Endpoint:
    """Return the API server and the service account of this Pod.

    Raises:
        CredentialsError: not in a Pod, or the Pod mounts no token.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsError(
            "KUBERNETES_SERVICE_HOST is not set: not inside a Pod, and no other credentials were given"
        )
    token, ca = root / "token", root / "ca.crt"
    for file in (token, ca):
        if not file.is_file():
            raise CredentialsError(f"{file} does not exist: does the Pod mount its service account token?")
    # An IPv6 address needs brackets in a URL.
    return Endpoint(server=f"https://{f'[{host}]' if ':' in host else host}:{port}", ca_file=ca, token_file=token)


def from_kubeconfig(
    path: str | os.PathLike[str], context: str | None = None, *, content: Mapping[str, Any] | None = None
) -> Endpoint:
    """Read a kubeconfig: a plain one here, any other with the official client (plugins, OIDC, merged files, proxies).

    The path is that of one file, or of several as in `KUBECONFIG`. `content` is what `kubeconfig.read` has returned of
    it; None reads it, and so does a reload in any case.

    Raises:
        CredentialsError: no such file or context, a missing key, or a plugin that failed; the message says which.
    """
    name = os.fspath(path)
    plain = plainly.plain(name, context, content=content)
    if plain is not None:
        return Endpoint(**plain, reload=lambda: from_kubeconfig(path, context))
    try:
        from kubernetes import client, config
        from kubernetes.client.rest import should_bypass_proxies
    except ImportError as error:
        raise CredentialsError("a kubeconfig needs the package kubernetes: install the extra 'kubeconfig'") from error
    settings = client.Configuration()
    try:
        config.load_kube_config(name, context=context, client_configuration=settings, persist_config=False)
    except config.ConfigException as error:
        raise CredentialsError(f"kubeconfig {name}: {error}") from error
    except Exception as error:
        # YAML errors, and whatever else the loader raises about a document of another shape.
        raise CredentialsError(f"kubeconfig {name}: {type(error).__name__}: {error}") from error
    # Until 35 the client had the token under another name, and left the variables of proxies alone.
    # A file of a token may end with a newline, or be empty for a moment.
    authorization = (settings.api_key.get("BearerToken") or settings.api_key.get("authorization") or "").strip()
    authorization = "" if authorization == "Bearer" else authorization
    around = getproxies()
    direct = should_bypass_proxies(settings.host, settings.no_proxy or around.get("no", ""))
    if not authorization and not settings.cert_file:
        _log.warning("the kubeconfig has no credentials, requests are anonymous", kubeconfig=name, context=context)
    return Endpoint(
        server=settings.host,
        ca_file=_path(settings.ssl_ca_cert),
        client_certificate_file=_path(settings.cert_file),
        client_key_file=_path(settings.key_file),
        authorization=authorization or None,
        tls_server_name=settings.tls_server_name or None,
        verify=bool(settings.verify_ssl),
        proxy=None if direct else settings.proxy or around.get("https"),
        reload=lambda: from_kubeconfig(path, context),
    )


def discover(
    *,
    address: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path = SERVICE_ACCOUNT_ROOT,
) -> Endpoint:
    """Find the server, in the order of docs/reference/framework-api.md, section 11.

    An address together with a kubeconfig, or with the service account of this Pod, replaces only the server. Without
    them, and always if it is plain http, it means a server that needs no credentials (`kubectl proxy`): credentials are
    never sent in clear text. The environment's `KUBE_APISERVER_ADDRESS` and `KUBECONFIG` stand in for what is None;
    then come `~/.kube/config`, if it exists, and the service account.

    Raises:
        CredentialsError: nothing usable was found, or what was found is broken.
    """
    address = address or environ.get("KUBE_APISERVER_ADDRESS") or None
    if address is not None and address.lower().startswith("http:"):
        return Endpoint(server=address)
    named = kubeconfig or environ.get("KUBECONFIG") or None
    if named is not None:
        return _at(address, from_kubeconfig(named))
    home = Path(environ.get("HOME", "")) / ".kube" / "config"
    if environ.get("HOME") and home.is_file():
        return _at(address, from_kubeconfig(home))
    if environ.get("KUBERNETES_SERVICE_HOST") and (address is None or (root / "token").is_file()):
        return _at(address, in_cluster(root, environ))
    if address is not None:
        return Endpoint(server=address)
    raise CredentialsError(
        "no API server: set kubeApiServerAddress or kubeConfigFilePath (or env KUBECONFIG), or run inside a Pod"
    )


def _check_address(server: str) -> None:
    try:
        parts = urlsplit(server)
        (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # half a bracket, a port that is no port, an empty label
        raise CredentialsError(f"API server address: expected http[s]://host:port, got {server!r} ({error})") from error
    if parts.username is not None or parts.password is not None:
        # Not shown, since it is a password. The HTTP library refuses it next to a token.
        raise CredentialsError("API server address: must not contain a user or a password")
    if not usable or parts.query or parts.fragment:
        raise CredentialsError(f"API server address: expected http[s]://host:port, got {server!r}")


def _at(address: str | None, found: Endpoint) -> Endpoint:
    if address is None:
        return found
    again = found.reload
    return replace(found, server=address, reload=None if again is None else lambda: _at(address, again()))


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
