"""A very small client of the API server on `requests`: get one object, watch, and say precisely what went wrong.

The official client costs 0.65 s of CPU and 65 MiB at its first call, which every Pod of every gang would pay.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import requests
import urllib3.exceptions

from frameworkbarrier.source.access import Access
from frameworkbarrier.text import one_line

CONNECT_TIMEOUT_SEC = 5.0
READ_TIMEOUT_SEC = 10.0
LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one watch event; etcd holds objects of 1.5 MiB at most by default."""
RETRY_AFTER_LIMIT_SEC = 300.0


class ApiError(Exception):
    """Base of everything that a request can end with instead of an object."""


class UnavailableError(ApiError):
    """No usable answer: try again, after `retry_after` seconds if the server asked for that."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class ForbiddenError(ApiError):
    """HTTP 403; the text is the server's own."""


class NotFoundError(ApiError):
    """HTTP 404."""


class ExpiredError(ApiError):
    """HTTP 410, as a status or as an event: the resourceVersion is too old to watch from."""


class Api:
    """One API server. Not for use by more than one thread."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session = requests.Session()
        # No proxy for the cluster's own address, and no .netrc of the image instead of the token.
        self._session.trust_env = False
        self._session.headers["User-Agent"] = "frameworkbarrier"
        self._session.headers.update(access.headers)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Read one object or list.

        Raises:
            ApiError: one of the subclasses, by meaning.
        """
        with self._open(path, params or {}, READ_TIMEOUT_SEC, compressed=True) as response:
            try:
                document = json.loads(response.content)
            except (ValueError, RecursionError, requests.RequestException) as fault:
                raise UnavailableError(f"the API server's answer cannot be read: {_cause(fault)}") from fault
        if not isinstance(document, dict):
            raise UnavailableError("the API server's answer is not an object")
        return document

    def watch(
        self, path: str, params: Mapping[str, str], read_timeout_sec: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Follow a watch until the server ends it; yields (type, object) with bookmarks.

        Raises:
            ApiError: one of the subclasses; `UnavailableError` too if nothing arrives for `read_timeout_sec`.
        """
        with self._open(path, {**params, "watch": "1"}, read_timeout_sec, compressed=False) as response:
            for line in _lines(response):
                yield _event(line)

    def _open(
        self, path: str, params: Mapping[str, str], read_timeout_sec: float, *, compressed: bool
    ) -> requests.Response:
        headers = {"Accept": "application/json"}
        if not compressed:
            headers["Accept-Encoding"] = "identity"  # a compressor may hold an event back
        if self._access.token and (token := self._access.token.read()):
            headers["Authorization"] = f"Bearer {token}"
        try:
            response = self._session.get(
                self._access.address + path,
                params=dict(params),
                headers=headers,
                stream=True,
                timeout=(CONNECT_TIMEOUT_SEC, read_timeout_sec),
                verify=self._access.ca,
                cert=self._access.client_certificate,
                allow_redirects=False,
            )
            if response.status_code == 200:
                return response
            with response:
                raise _error(response)
        except requests.RequestException as fault:
            raise UnavailableError(f"the API server does not answer: {_cause(fault)}") from fault
        except OSError as fault:  # `requests` raises it for a missing CA file
            raise UnavailableError(f"the CA cannot be used: {one_line(str(fault))}") from fault


def _error(response: requests.Response) -> ApiError:
    """Translate an answer other than 200 by its meaning."""
    try:
        status = json.loads(response.raw.read(65536, decode_content=True))
        message = str(status["message"])
    except (ValueError, KeyError, TypeError, RecursionError, urllib3.exceptions.HTTPError, OSError):
        message = response.reason or ""
    text = f"HTTP {response.status_code}: {one_line(message)}"
    match response.status_code:
        case 403:
            return ForbiddenError(text)
        case 404:
            return NotFoundError(text)
        case 410:
            return ExpiredError(text)
    return UnavailableError(f"the API server answers {text}", _retry_after(response.headers.get("Retry-After")))


def _retry_after(value: object) -> float | None:
    """Return the seconds that the server asks to wait; None if it does not ask, or gives a date."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(seconds, RETRY_AFTER_LIMIT_SEC) if seconds >= 0 else None


def _lines(response: requests.Response) -> Iterator[bytes]:
    """Yield complete lines as they arrive; the unfinished line of a broken stream is dropped."""
    pending = bytearray()
    while True:
        try:
            data = response.raw.read1(65536, decode_content=True)
        except urllib3.exceptions.ReadTimeoutError as silence:
            raise UnavailableError("the watch is silent") from silence
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as fault:
            raise UnavailableError(f"the watch broke off: {_cause(fault)}") from fault
        if not data:
            return
        searched = len(pending)
        pending += data
        while (end := pending.find(b"\n", searched)) >= 0:
            line = bytes(pending[:end])
            del pending[: end + 1]
            searched = 0
            if line.strip():
                yield line
        if len(pending) > LINE_LIMIT:
            raise UnavailableError("the watch sent an event of more than 16 MiB")


def _event(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        event = json.loads(line)
        kind, body = event["type"], event["object"]
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise UnavailableError("the watch sent something that is not an event") from fault
    if not isinstance(kind, str) or not isinstance(body, dict):
        raise UnavailableError("the watch sent something that is not an event")
    if kind == "ERROR":
        text = f"{body.get('code')}: {one_line(str(body.get('message') or body.get('reason')))}"
        if body.get("code") == 410:
            raise ExpiredError(text)
        details = body.get("details")
        wait = details.get("retryAfterSeconds") if isinstance(details, dict) else None
        raise UnavailableError(f"the watch ended with {text}", _retry_after(wait))
    return kind, body


def _cause(fault: BaseException) -> str:
    """Return the innermost reason of an exception of `requests`; the outer ones show addresses of objects."""
    inner: BaseException = fault
    while True:
        reasons = (getattr(inner, "reason", None), *inner.args)
        following = next((each for each in reasons if isinstance(each, BaseException)), None)
        if following is None:
            break
        inner = following
    text = str(inner)
    return one_line(text.rsplit(": ", 1)[-1] if " object at 0x" in text else text, 200) or type(inner).__name__
