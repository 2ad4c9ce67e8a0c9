"""A few plain calls to the API server: what starting and stopping a cluster needs, without a client library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from localcluster.errors import LocalClusterError

if TYPE_CHECKING:
    from pathlib import Path


class ApiError(LocalClusterError):
    """The API server refused.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True)
class Api:
    """An API server and a bearer token for it.

    Attributes:
        server: Its URL.
        ca_file: The authority of its certificate.
        token: The bearer token.
    """

    server: str
    ca_file: Path
    token: str

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def is_ready(self) -> bool | str:
        """True if /readyz answers with exactly `ok`, else why not."""
        try:
            answer = self._send("GET", "/readyz", None, "", 2.0)
        except ApiError as error:
            return str(error)
        return answer == b"ok" or answer.decode(errors="replace")[:200]

    def get(self, path: str) -> dict[str, Any]:
        """The object at this path."""
        return dict(json.loads(self._send("GET", path, None, "", 10.0)))

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST the body; the answer."""
        return dict(json.loads(self._send("POST", path, body, "application/json", 10.0)))

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Server-side apply of the body, by force, as the manager `localcluster`."""
        query = "?fieldManager=localcluster&force=true"
        return dict(json.loads(self._send("PATCH", path + query, body, "application/apply-patch+yaml", 10.0)))

    def _send(self, method: str, path: str, body: object, content_type: str, timeout_seconds: float) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        request = urllib.request.Request(self.server + path, data=data, headers=headers, method=method)
        try:
            with _opener(self._tls).open(request, timeout=timeout_seconds) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")[:1000]
            raise ApiError(error.code, f"{method} {path}: HTTP {error.code}: {text}") from None


def _opener(tls: ssl.SSLContext) -> urllib.request.OpenerDirector:
    # No proxy of the environment: the server is on this machine.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))


def answers_ok(url: str) -> bool | str:
    """Whether a health endpoint on loopback answers 200; its self-signed certificate is not checked."""
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    try:
        with _opener(tls).open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return f"HTTP {error.code}"
