"""The hot path to the API server: one attempt per call, raw bytes in and out, errors by meaning.

Everything here is about one HTTP exchange; what to do about a failure is decided by callers (`retry`, `informer`, the
engine's queue). The decoding is
theirs too: a list of 500 Pods is decoded a hundred times faster by a struct that wants five fields than by full models.
"""

import asyncio
import errno
import os
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping

import aiohttp
import msgspec

from frameworkcontroller.cluster.credentials import Endpoint
from frameworkcontroller.cluster.errors import (
    AlreadyExists,
    ApiStatusError,
    Conflict,
    CredentialsError,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Silent,
    TimedOut,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from frameworkcontroller.cluster.lines import LineSplitter
from frameworkcontroller.cluster.paths import resource_path, with_query
from frameworkcontroller.cluster.transport import REQUESTS, STREAMS, RequestObserver, Transport

__all__ = [
    "JSON",
    "MERGE_PATCH",
    "PARTIAL_METADATA",
    "PARTIAL_METADATA_LIST",
    "AlreadyExists",
    "ApiStatusError",
    "Conflict",
    "CredentialsError",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeClient",
    "KubeError",
    "NotFound",
    "RequestObserver",
    "ServerError",
    "Silent",
    "TimedOut",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "resource_path",
]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
PARTIAL_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Accept header: answers carry the metadata only, the full object where the server cannot do that."""
PARTIAL_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

WRITE_TIMEOUT_SECONDS = 10.0
INACTIVITY_TIMEOUT_SECONDS = 70.0
"""The server sends a bookmark about each 60 s; a watch that is silent for longer is dead (half-open TCP)."""


class KubeClient:
    """Talks to one API server. Create and use it inside one running event loop, close it at the end.

    Args:
        endpoint: the server and the credentials.
        user_agent: what the server's audit log shows.
        max_connections: of requests; watches are not counted.
        observer: counts requests.
        clock: monotonic seconds.
        wall_clock: Unix seconds, only to read a ``Retry-After`` that is a date.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str = "frameworkcontroller",
        max_connections: int = 128,
        observer: RequestObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._transport = Transport(
            endpoint,
            user_agent=user_agent,
            max_connections=max_connections,
            observer=observer,
            clock=clock,
            wall_clock=wall_clock,
        )

    async def close(self) -> None:
        """Closes all connections; a watch that is open ends with a TransportError."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = WRITE_TIMEOUT_SECONDS,
        gated: bool = True,
    ) -> bytes:
        """Sends one request; only a 401 is repeated once, with a token read again.

        Args:
            method: HTTP verb.
            path: encoded, see `resource_path`.
            query: not encoded.
            body: JSON or whatever `content_type` says.
            content_type: of the body.
            accept: see `PARTIAL_METADATA`.
            timeout_seconds: for all of it: waiting for a connection, sending, and reading the answer.
            gated: False sends in spite of a pause that the server asked for. Only for a leader's lease, which has
                its own share of the server.

        Returns:
            The body of a 2xx answer.

        Raises:
            TooManyRequests: nothing has happened; `retry_after_seconds` is the rest of the pause if it was not even
                sent.
            ApiStatusError: the server refused; see the subclasses.
            TransportError, TimedOut: whether it has happened is unknown.
            CredentialsError: no token or certificate to send it with.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._transport.open(
                    REQUESTS, method, with_query(path, query or {}), headers, body, gated=gated
                )
                async with response:
                    return await response.read()
        except TimeoutError as error:
            raise TimedOut(f"{method} {path}: no answer within {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{method} {path}: {_cause(error)}") from error

    async def get(self, path: str, *, query: Mapping[str, str] | None = None, accept: str = JSON) -> bytes:
        """Reads an object or a list."""
        return await self.request("GET", path, query=query, accept=accept)

    async def create(
        self, path: str, body: bytes, *, accept: str = JSON, timeout_seconds: float = WRITE_TIMEOUT_SECONDS
    ) -> bytes:
        """Creates an object in the collection at `path`."""
        return await self.request("POST", path, body=body, accept=accept, timeout_seconds=timeout_seconds)

    async def replace(
        self, path: str, body: bytes, *, accept: str = JSON, timeout_seconds: float = WRITE_TIMEOUT_SECONDS
    ) -> bytes:
        """Replaces the object, or its subresource, at `path`; the body's resourceVersion is the precondition."""
        return await self.request("PUT", path, body=body, accept=accept, timeout_seconds=timeout_seconds)

    async def patch(self, path: str, body: bytes, *, content_type: str = MERGE_PATCH, accept: str = JSON) -> bytes:
        """Patches the object, or its subresource, at `path`."""
        return await self.request("PATCH", path, body=body, content_type=content_type, accept=accept)

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
        accept: str = JSON,
    ) -> bytes:
        """Deletes the object at `path`.

        Args:
            path: of the object.
            uid: precondition; another object of the same name is then a `Conflict`.
            resource_version: precondition; an object that has changed since is then a `Conflict`.
            grace_period_seconds: None for the object's own; 0 forces.
            propagation: ``Background``, ``Foreground``, ``Orphan`` or None for the kind's default.
            accept: see `PARTIAL_METADATA`.

        Returns:
            The object that is being deleted, or a Status.
        """
        preconditions = {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value is not None
        }
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_period_seconds,
            "preconditions": preconditions or None,
            "propagationPolicy": propagation,
        }
        body = msgspec.json.encode({key: value for key, value in options.items() if value is not None})
        return await self.request("DELETE", path, body=body, accept=accept)

    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        connect_timeout_seconds: float = WRITE_TIMEOUT_SECONDS,
        inactivity_timeout_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Opens a watch (or another endless answer) and yields its lines.

        Close the iterator (`contextlib.aclosing`) to end it early.

        Args:
            path: encoded.
            query: not encoded; ``watch=true`` is the caller's.
            accept: see `PARTIAL_METADATA`.
            connect_timeout_seconds: until the status line.
            inactivity_timeout_seconds: of silence before it counts as dead.
            on_open: called when the status line is there.

        Raises:
            TransportError: it broke off, or ended within a line.
            TimedOut: no status line in time.
            Silent: it was open and fell silent.
            ApiStatusError: the server refused.
        """
        url = with_query(path, query or {})
        splitter = LineSplitter()
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(connect_timeout_seconds):
                response = await self._transport.open(STREAMS, "GET", url, {"Accept": accept}, None)
            if on_open is not None:
                on_open()
            while True:
                async with asyncio.timeout(inactivity_timeout_seconds):
                    chunk = await response.content.readany()
                if not chunk:
                    break
                for line in splitter.feed(chunk):
                    yield line
        except TimeoutError as error:
            if response is None:
                raise TimedOut(f"GET {path}: no answer within {connect_timeout_seconds:g} s") from error
            raise Silent(f"GET {path}: silent for {inactivity_timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"GET {path}: {_cause(error)}") from error
        finally:
            if response is not None:
                response.close()
        if splitter.unfinished:
            raise TransportError(f"GET {path}: the stream ended within a line")


def _cause(error: Exception) -> str:
    """The failure in one line, the same each time: the HTTP library's texts hold object addresses, or nothing."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorError(os_error=cause):
            # asyncio says "Connect call failed"; the errno says why. TLS and DNS errors have numbers of their own.
            known = not isinstance(cause, ssl.SSLError) and (cause.errno or 0) in errno.errorcode
            why = os.strerror(cause.errno or 0) if known else cause.strerror or cause
            return f"cannot connect to {error.host}:{error.port}: {why}"
        case aiohttp.ClientPayloadError():
            return "the connection broke within the answer"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case _:
            return str(error) or type(error).__name__
