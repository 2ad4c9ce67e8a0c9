"""Credentials that are rotated while this process runs (tokens, CAs, client certificates), read again in time.

`transport` asks for them before each request. While a file is empty or unreadable (a rotation in progress), the old
value stays in use, and each check logs that.
"""

import asyncio
import ssl
from collections.abc import Callable

from frameworkkube.errors import CredentialsError
from frameworkkube.http.credentials import Endpoint
from frameworkkube.log import Logger

_log = Logger(__name__)

CHECK_EVERY_SECONDS = 60.0
RELOAD_EVERY_SECONDS = 10.0
"""An exec plugin may open a browser or call a cloud API: it must not run for every 401 of a burst."""


class RotatingCredentials:
    """The Authorization header and the TLS context of the next request: `token` and `tls` say what they are now.

    The clock is monotonic: a wall clock that is set back would delay a rotation. A reload may replace the `endpoint`.
    """

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reloaded_at = float("-inf")
        self._reloading: asyncio.Task[None] | None = None
        self._use(endpoint)

    def _use(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.token, self.tls = _Token(endpoint, self._clock), _Tls(endpoint, self._clock)

    async def refused(self, authorization: str | None) -> bool:
        """Read everything again after the server refused this header; return whether there is something else to try.

        A reload goes on when the request that waits for it is given up: a plugin may take longer than a request.
        """
        refused = authorization, self.endpoint.client_certificate_file
        if self.endpoint.reload is None:
            self.token.read_again()
        elif self.token.current() == authorization:
            is_due = self._clock() - self._reloaded_at >= RELOAD_EVERY_SECONDS
            if self._reloading is None or (self._reloading.done() and is_due):
                self._reloaded_at = self._clock()
                self._reloading = asyncio.create_task(self._reload(self.endpoint.reload))
            await asyncio.shield(self._reloading)
        return (self.token.current(), self.endpoint.client_certificate_file) != refused

    async def _reload(self, load: Callable[[], Endpoint]) -> None:
        try:
            fresh = await asyncio.to_thread(load)
        except CredentialsError as error:
            _log.warning("cannot load the credentials again, the old ones stay in use", error=str(error))
            return
        if fresh.is_anonymous and not self.endpoint.is_anonymous:
            # The official reader swallows the failure of a plugin. Without credentials the server may answer 403, and
            # nothing would be loaded again.
            _log.warning("no credentials were found, the old ones stay in use", server=fresh.server)
            return
        self._use(fresh)


class _Token:
    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._file = endpoint.token_file
        self._clock = clock
        self._read_at = float("-inf")
        self._value = endpoint.authorization

    def current(self) -> str | None:
        """Return the value of the Authorization header, or None to send none.

        Raises:
            CredentialsError: the token file has never held a token.
        """
        if self._file is None:
            return self._value
        if self._value is None or self._clock() - self._read_at >= CHECK_EVERY_SECONDS:
            self.read_again()
        if self._value is None:
            raise CredentialsError(f"token file {self._file} is empty or unreadable, and held no token before")
        return self._value

    def read_again(self) -> None:
        if self._file is None:
            return
        self._read_at = self._clock()
        try:
            token = self._file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            _log.warning(
                "cannot read the token file, the old token stays in use", file=str(self._file), error=str(error)
            )
            return
        # The HTTP library would refuse every request with a control character or a blank in its header, and the server
        # an empty header.
        if not token or any(not "!" <= character <= "~" for character in token):
            _log.warning("the token file holds no token, the old token stays in use", file=str(self._file))
            return
        self._value = f"Bearer {token}"


class _Tls:
    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._read_at = float("-inf")
        self._seen: tuple[bytes, ...] | None = None
        self._context: ssl.SSLContext | bool = True

    def current(self) -> ssl.SSLContext | bool:
        """Return the context for new connections.

        It is a new object when the CA or the client certificate has changed, so that no pooled connection is reused.

        Raises:
            CredentialsError: the files have never been usable.
        """
        if not self._endpoint.server.startswith("https:"):
            return True
        if self._seen is None or self._clock() - self._read_at >= CHECK_EVERY_SECONDS:
            self.read_again()
        return self._context

    def read_again(self) -> None:
        self._read_at = self._clock()
        files = (self._endpoint.ca_file, self._endpoint.client_certificate_file, self._endpoint.client_key_file)
        try:
            seen = tuple(b"" if file is None else file.read_bytes() for file in files)
            if seen != self._seen:
                self._context, self._seen = _context(self._endpoint, seen[0]), seen
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if self._seen is None:
                raise CredentialsError(f"TLS files of {self._endpoint.server}: {error}") from error
            names = [str(file) for file in files if file is not None]
            _log.warning("cannot use the TLS files, the old ones stay in use", files=names, error=str(error))


def _context(endpoint: Endpoint, ca: bytes) -> ssl.SSLContext:
    if endpoint.ca_file is not None and not ca.strip():
        # create_default_context would silently fall back to the system's trust store.
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
