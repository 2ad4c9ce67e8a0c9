"""A client of the API server that takes and gives its JSON as it is, over one connection pool.

`up` and `down` use it for the few calls that they make; so do tests whose subject is not a client library. Paths are as
in `kubectl get --raw`.
"""

import json
from collections.abc import Iterator
from typing import Any

import urllib3

from localcluster.context import Context
from localcluster.errors import LocalClusterError

Json = dict[str, Any]

_SECONDS = 60.0
_PROBE_SECONDS = 2.0


class ApiStatusError(LocalClusterError):
    """The API server answered with an HTTP status that is an error; `body` is the `Status` object, or else the text."""

    def __init__(self, method: str, path: str, status: int, body: object) -> None:
        self.status = status
        self.body = body
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: HTTP {status}: {message}")


class RawClient:
    """One API server as the user of a bearer token, by default as the administrator."""

    def __init__(self, cluster: Context, token: str | None = None) -> None:
        self._server = cluster.server
        headers = {"Authorization": f"Bearer {token or cluster.admin_token}", "Accept": "application/json"}
        self._pool = urllib3.PoolManager(
            maxsize=16, ca_certs=str(cluster.ca_file), headers=headers, retries=False, timeout=_SECONDS
        )

    def get(self, path: str) -> Json:
        """Return the object, or list, at this path."""
        return self.request("GET", path)

    def text(self, path: str) -> str:
        """Return the text at this path, such as `/metrics`."""
        return str(self._send("GET", path).data.decode())

    def create(self, path: str, body: Json) -> Json:
        """POST the body; return the object as the API server persisted it."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """PUT the body; return the object as the API server persisted it."""
        return self.request("PUT", path, body)

    def merge(self, path: str, body: Json) -> Json:
        """Apply a JSON merge patch (RFC 7386): lists are replaced, null removes a field."""
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def apply(self, path: str, body: Json) -> Json:
        """Apply the body on the server's side, by force, as the field manager `localcluster`."""
        query = "fieldManager=localcluster&force=true"
        return self.request("PATCH", f"{path}?{query}", body, "application/apply-patch+yaml")

    def delete(self, path: str, body: Json | None = None) -> Json:
        """DELETE, with optional DeleteOptions."""
        return self.request("DELETE", path, body)

    def request(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        """Send one request and return the object that answers it; ApiStatusError if its status is not 2xx."""
        headers = {**self._pool.headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        content: Json = json.loads(self._send(method, path, body=data, headers=headers).data)
        return content

    def watch(self, path: str, resource_version: str, timeout_seconds: int) -> Iterator[Json]:
        """Yield the events of a watch until it ends after `timeout_seconds`; ApiStatusError if it could not begin."""
        url = f"{path}?watch=1&resourceVersion={resource_version}&timeoutSeconds={timeout_seconds}"
        answer = self._send("GET", url, preload_content=False, timeout=timeout_seconds + _SECONDS)
        try:
            rest = b""
            for chunk in answer.stream(decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            answer.close()

    def check_ready(self) -> bool | str:
        """Return True if /readyz answers `ok`, else a sentence that says why the API server is not ready."""
        try:
            answer = self._pool.request("GET", f"{self._server}/readyz", timeout=_PROBE_SECONDS)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        text = answer.data.decode(errors="replace")
        return (answer.status == 200 and text == "ok") or f"HTTP {answer.status}: {text[:200]}"

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _send(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        answer = self._pool.request(method, self._server + path, **options)
        if 200 <= answer.status < 300:
            return answer
        try:
            body = json.loads(answer.data)
        except ValueError:
            body = answer.data.decode(errors="replace")
        raise ApiStatusError(method, path, answer.status, body)
