"""Requests to an API server: one attempt per call, raw bytes in and out, errors by meaning.

The controller's performer and the injector call `KubeClient`, the informers its `stream`, the election its `request`.
The promise of each call: it sends one HTTP request, bounded in time, honours a pause that the server asked for, and
raises nothing but `KubeError`. A failure is never repeated here, apart from a 401 with a rotated token: callers decide
(`backoff.retrying`, the informer, the controller's core). Callers decode, too: a struct of the five fields that are
used decodes a list of 500 Pods a hundred times faster than full models.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import aiohttp
import msgspec

from frameworkkube.errors import AnswerTooLargeError, InactivityTimeoutError, RequestTimeoutError, TransportError
from frameworkkube.http.lines import LineSplitter
from frameworkkube.http.session import cause_of
from frameworkkube.http.transport import REQUESTS, STREAMS, Transport
from frameworkkube.paths import with_query

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
PARTIAL_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Accept header: answers carry only the metadata, or the full object where the server cannot do that."""
PARTIAL_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

REQUEST_TIMEOUT_SECONDS = 10.0
WRITE_TIMEOUT_SECONDS = 60.0
"""The API server's own limit. A webhook may take 10 s by default and 30 s at most, and is passed over then if its
`failurePolicy` is Ignore: who gives up earlier and tries again never writes anything."""
INACTIVITY_TIMEOUT_SECONDS = 70.0
"""The server sends a bookmark about every 60 s; a watch that is silent for longer is dead (half-open TCP)."""


class KubeClient(Transport):
    """A client of one API server; its arguments are those of `Transport`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        max_bytes: int | None = None,
        flow_controlled: bool = True,
    ) -> bytes:
        """Send one request and return the body of its 2xx answer, which has at most `max_bytes`.

        Only a 401 is repeated, once, with a token that was read again. The path is encoded, see `resource_path`, the
        query is not. The timeout is for all of it but the throttle: waiting for a connection, sending, reading the
        answer. What is not flow-controlled is sent in spite of a pause that the server asked for. That is only for a
        leader's lease, which has its own priority level at the server.

        Raises:
            TooManyRequestsError: nothing has happened; if nothing was sent, `retry_after_seconds` is the rest of a
                pause.
            ApiStatusError: the server refused; see the subclasses.
            TransportError, RequestTimeoutError: whether the request took effect is unknown.
            AnswerTooLargeError: the answer has more than `max_bytes`; what it answers has happened.
            NotSentError: nothing has happened, and this process may not write any more.
            CredentialsError: there is no token or certificate to send it with.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._throttle is not None and flow_controlled:
            await self._throttle()
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._open(
                    REQUESTS, method, with_query(path, query or {}), headers, body, flow_controlled=flow_controlled
                )
                async with response:
                    return await _body_of(response, max_bytes)
        except TimeoutError as error:
            raise RequestTimeoutError(f"{method} {path}: no answer within {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{method} {path}: {cause_of(error)}") from error

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str = JSON, max_bytes: int | None = None
    ) -> bytes:
        """Read an object or a list."""
        return await self.request("GET", path, query=query, accept=accept, max_bytes=max_bytes)

    async def create(self, path: str, body: bytes, *, accept: str = JSON) -> bytes:
        """Create an object in the collection at `path`."""
        return await self.request("POST", path, body=body, accept=accept, timeout_seconds=WRITE_TIMEOUT_SECONDS)

    async def replace(self, path: str, body: bytes, *, accept: str = JSON) -> bytes:
        """Replace the object, or its subresource, at `path`; the body's resourceVersion is the precondition."""
        return await self.request("PUT", path, body=body, accept=accept, timeout_seconds=WRITE_TIMEOUT_SECONDS)

    async def patch(
        self,
        path: str,
        body: bytes,
        *,
        content_type: str = MERGE_PATCH,
        accept: str = JSON,
        max_bytes: int | None = None,
    ) -> bytes:
        """Patch the object, or its subresource, at `path`; `max_bytes`: see `request`."""
        return await self.request(
            "PATCH",
            path,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=WRITE_TIMEOUT_SECONDS,
            max_bytes=max_bytes,
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
        accept: str = JSON,
        max_bytes: int | None = None,
    ) -> bytes:
        """Delete the object at `path`; returns the object that is being deleted, or a Status.

        The UID and the resourceVersion are preconditions: another object of the same name, or one that has changed
        since, is a `ConflictError`. A grace period of 0 deletes at once, None takes the object's own; `propagation` is
        `Background`, `Foreground`, `Orphan` or None for the kind's default.
        """
        options = _given(
            apiVersion="v1",
            kind="DeleteOptions",
            gracePeriodSeconds=grace_period_seconds,
            preconditions=_given(uid=uid, resourceVersion=resource_version) or None,
            propagationPolicy=propagation,
        )
        body, limit = msgspec.json.encode(options), WRITE_TIMEOUT_SECONDS
        return await self.request("DELETE", path, body=body, accept=accept, timeout_seconds=limit, max_bytes=max_bytes)

    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        connect_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        inactivity_timeout_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Open a watch and yield its lines, without their newlines.

        Close the iterator (`contextlib.aclosing`) to end it early. The caller adds `watch=true` to the query. The
        status line, at which `on_open` is called, has its own timeout.

        Raises:
            TransportError: the answer broke off, or ended within a line.
            RequestTimeoutError: no status line in time.
            InactivityTimeoutError: the watch was open and fell silent.
            ApiStatusError: the server refused.
        """
        splitter = LineSplitter()
        chunks = self.chunks(
            path,
            query,
            accept=accept,
            connect_timeout_seconds=connect_timeout_seconds,
            inactivity_timeout_seconds=inactivity_timeout_seconds,
            on_open=on_open,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                try:
                    lines = splitter.feed(chunk)
                except ValueError as error:
                    raise TransportError(f"GET {path}: {error}") from error
                for line in lines:
                    yield line
        if splitter.unfinished:
            raise TransportError(f"GET {path}: the stream ended within a line")

    async def chunks(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        connect_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        inactivity_timeout_seconds: float | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Open an answer without an end, such as a log, and yield its bytes as they come.

        Nothing is read ahead of the caller but the connection's buffers. For the arguments and errors see `stream`; by
        default the answer may be silent for ever, and only TCP notices that the other side is gone.
        """
        url = with_query(path, query or {})
        response: aiohttp.ClientResponse | None = None
        if self._throttle is not None:
            await self._throttle()
        try:
            async with asyncio.timeout(connect_timeout_seconds):
                response = await self._open(STREAMS, "GET", url, {"Accept": accept}, None)
            if on_open is not None:
                on_open()
            while True:
                async with asyncio.timeout(inactivity_timeout_seconds):
                    chunk = await response.content.readany()
                if not chunk:
                    return
                yield chunk
        except TimeoutError as error:
            if response is None:
                raise RequestTimeoutError(f"GET {path}: no answer within {connect_timeout_seconds:g} s") from error
            raise InactivityTimeoutError(f"GET {path}: silent for {inactivity_timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"GET {path}: {cause_of(error)}") from error
        finally:
            if response is not None:
                response.close()


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


async def _body_of(response: aiohttp.ClientResponse, max_bytes: int | None) -> bytes:
    if max_bytes is None:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > max_bytes:
            response.close()
            raise AnswerTooLargeError(
                f"{response.method} {response.url.path}: the answer has more than {max_bytes} bytes"
            )
        pieces.append(piece)
    return b"".join(pieces)
