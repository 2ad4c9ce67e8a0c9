"""Credentials that others rotate while this process runs (tokens, CAs, client certificates), read again in time.

A file that is empty or unreadable for a moment (a rotation in progress) keeps the old value in use and is logged once
per look.
"""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import structlog

from frameworkcontroller.cluster.credentials import Endpoint
from frameworkcontroller.cluster.errors import CredentialsError

_log = structlog.get_logger(__name__)

LOOK_EVERY_SECONDS = 60.0
RELOAD_EVERY_SECONDS = 10.0
"""An exec plugin may open a browser or call a cloud: not for every 401 of a burst."""


class Credentials:
    """The Authorization header and the TLS context of the next request.

    Args:
        endpoint: what to read.
        clock: monotonic seconds; a wall clock that is set back must not delay a rotation.
    """

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._endpoint = endpoint
        self._reloaded_at = float("-inf")
        self._reloading = asyncio.Lock()
        self._token = _Token(endpoint, clock)
        self._tls = _Tls(endpoint, clock)

    @property
    def endpoint(self) -> Endpoint:
        """The description in use; a reload may replace it."""
        return self._endpoint

    def authorization(self) -> str | None:
        """Value of the Authorization header, or None for none.

        Raises:
            CredentialsError: there is a token file, and it has never held a token.
        """
        return self._token.current()

    def tls(self) -> ssl.SSLContext | bool:
        """The context for new connections.

        A new object when the CA or the client certificate has changed, so that no pooled connection is reused for it.

        Raises:
            CredentialsError: the files have never been usable.
        """
        return self._tls.current()

    async def refused(self, authorization: str | None) -> bool:
        """Reads everything again after the server refused a request.

        Args:
            authorization: the header's value that was refused.

        Returns:
            Whether there is now another token or certificate to try.
        """
        if self._endpoint.reload is None:
            self._token.look()
            return self._token.current() != authorization
        async with self._reloading:
            if self._token.current() != authorization:
                return True  # another request's reload was faster
            if self._clock() - self._reloaded_at < RELOAD_EVERY_SECONDS:
                return False
            self._reloaded_at = self._clock()
            try:
                fresh = await asyncio.to_thread(self._endpoint.reload)
            except CredentialsError as error:
                _log.warning("credentials could not be loaded again, the old ones stay in use", error=str(error))
                return False
            changed = (fresh.authorization, fresh.client_certificate_file) != (
                authorization,
                self._endpoint.client_certificate_file,
            )
            self._endpoint = fresh
            self._token, self._tls = _Token(fresh, self._clock), _Tls(fresh, self._clock)
            return changed

    def distrusted(self) -> None:
        """The server's certificate was not accepted: the CA may have been rotated, look at once."""
        self._tls.look()


class _Token:
    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._file = endpoint.token_file
        self._clock = clock
        self._looked_at = float("-inf")
        self._value = endpoint.authorization

    def current(self) -> str | None:
        if self._file is None:
            return self._value
        if self._value is None or self._clock() - self._looked_at >= LOOK_EVERY_SECONDS:
            self.look()
        if self._value is None:
            raise CredentialsError(f"token file {self._file} is empty or unreadable, and held no token before")
        return self._value

    def look(self) -> None:
        if self._file is None:
            return
        self._looked_at = self._clock()
        try:
            token = self._file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            _log.warning(
                "token file cannot be read, the old token stays in use", file=str(self._file), error=str(error)
            )
            return
        # A control character or a blank inside would be refused by the HTTP library in every request; so would an
        # empty header by the server.
        if not token or any(not "!" <= character <= "~" for character in token):
            _log.warning("token file holds no token, the old one stays in use", file=str(self._file))
            return
        self._value = f"Bearer {token}"


class _Tls:
    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._looked_at = float("-inf")
        self._seen: tuple[bytes, ...] | None = None
        self._context: ssl.SSLContext | bool = True

    def current(self) -> ssl.SSLContext | bool:
        if not self._endpoint.server.startswith("https:"):
            return True
        if self._seen is None or self._clock() - self._looked_at >= LOOK_EVERY_SECONDS:
            self.look()
        return self._context

    def look(self) -> None:
        self._looked_at = self._clock()
        files = (self._endpoint.ca_file, self._endpoint.client_certificate_file, self._endpoint.client_key_file)
        try:
            seen = tuple(b"" if file is None else file.read_bytes() for file in files)
            if seen != self._seen:
                self._context, self._seen = _context(self._endpoint, seen[0]), seen
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if self._seen is None:
                raise CredentialsError(f"TLS files of {self._endpoint.server}: {error}") from error
            _log.warning("TLS files cannot be used, the old ones stay in use", files=_names(files), error=str(error))


def _context(endpoint: Endpoint, ca: bytes) -> ssl.SSLContext:
    if endpoint.ca_file is not None and not ca.strip():
        # create_default_context would fall back to the system's trust store without a word.
        raise ValueError(f"{endpoint.ca_file} is empty")
    context = ssl.create_default_context(cadata=ca.decode("ascii", "replace") if ca else None)
    # Since Python 3.13 the default is strict about extensions that many cluster CAs lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not endpoint.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if endpoint.client_certificate_file is not None:
        context.load_cert_chain(endpoint.client_certificate_file, endpoint.client_key_file)
    return context


def _names(files: tuple[Path | None, ...]) -> list[str]:
    return [str(file) for file in files if file is not None]
