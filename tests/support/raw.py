"""The API server's JSON as it is, over one connection pool: for tests whose point is not a client library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster

Json = dict[str, Any]


class RefusedError(Exception):
    """The API server answered with an error.

    Attributes:
        status: The HTTP status.
        body: The `Status` object, or the text if it is none.
    """

    def __init__(self, method: str, path: str, status: int, body: object) -> None:
        self.status = status
        self.body = body
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: HTTP {status}: {message}")


class Raw:
    """One API server as one user.

    Args:
        cluster: Which.
        token: The user's bearer token; None means the administrator's.
    """

    def __init__(self, cluster: Cluster, token: str | None = None) -> None:
        self._server = cluster.server
        headers = {"Authorization": f"Bearer {token or cluster.admin_token}", "Accept": "application/json"}
        self._pool = urllib3.PoolManager(
            maxsize=16, ca_certs=str(cluster.ca_file), headers=headers, retries=False, timeout=30.0
        )

    def get(self, path: str) -> Json:
        """The object, or list, at this path."""
        return self.request("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """POST the body; the object as it was stored."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """PUT the body; the object as it was stored."""
        return self.request("PUT", path, body)

    def merge(self, path: str, body: Json) -> Json:
        """JSON merge patch (RFC 7386): lists are replaced, null removes."""
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def apply(self, path: str, body: Json) -> Json:
        """Server-side apply by force, as the manager `tests`."""
        return self.request("PATCH", f"{path}?fieldManager=tests&force=true", body, "application/apply-patch+yaml")

    def delete(self, path: str, body: Json | None = None) -> Json:
        """DELETE with optional DeleteOptions."""
        return self.request("DELETE", path, body)

    def request(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        """One request.

        Raises:
            RefusedError: The answer is not 2xx.
        """
        headers = {**self._pool.headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(method, self._server + path, body=data, headers=headers)
        content = _parsed(answer.data)
        if not 200 <= answer.status < 300:
            raise RefusedError(method, path, answer.status, content)
        assert isinstance(content, dict)
        return content

    def watch(self, path: str, resource_version: str, timeout_seconds: int) -> Iterator[Json]:
        """The events of a watch, until the server ends it after so many seconds.

        Raises:
            RefusedError: The watch could not begin.
        """
        url = f"{self._server}{path}?watch=1&resourceVersion={resource_version}&timeoutSeconds={timeout_seconds}"
        answer = self._pool.request("GET", url, preload_content=False, timeout=timeout_seconds + 30.0)
        try:
            if answer.status != 200:
                raise RefusedError("GET", path, answer.status, _parsed(answer.read()))
            rest = b""
            for chunk in answer.stream(decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            answer.close()

    def close(self) -> None:
        """Close its connections."""
        self._pool.clear()


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
