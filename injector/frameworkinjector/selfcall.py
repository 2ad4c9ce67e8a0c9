"""A call to ourselves by the Service's name, as the API server would make it: the proof that readiness needs.

The name goes into the handshake and is checked against the certificate; the connection goes to this very process.
Through the Service it could not: the Service sends nobody to a replica that is not ready yet.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

from frameworkinjector.errors import CertificateError
from frameworkinjector.server import ALIVE_PATH
from frameworkinjector.tls import client_context

if TYPE_CHECKING:
    from frameworkinjector.tls import Served

EVERY_SECONDS: Final = 10.0
# Until the first success: a replica should be ready as soon as it can be.
FIRST_SECONDS: Final = 0.2
CALL_SECONDS: Final = 5.0
FAILURES: Final = 3
_LOOPBACK: Final[dict[str | None, str]] = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class SelfCall:
    """Calls again and again; ``problem`` is None while the last call was answered."""

    def __init__(self, served: Served, name: str) -> None:
        self._served = served
        self._name = name
        self._failures = 0
        self.problem: str | None = "not made yet"

    async def run(self, host: str | None, port: int) -> None:
        """Calls until cancelled; ``host`` is what the server listens on, None for every address."""
        host = _LOOPBACK.get(host, host)
        while True:
            if self._served.ready:
                self._note(await self._call(host, port))
            await asyncio.sleep(FIRST_SECONDS if self.problem else EVERY_SECONDS)

    def _note(self, problem: str | None) -> None:
        """A replica that was ready is not given up for one slow answer: all replicas may be slow at once."""
        self._failures = 0 if problem is None else self._failures + 1
        if problem is None or self.problem is not None or self._failures >= FAILURES:
            self.problem = problem

    async def _call(self, host: str | None, port: int) -> str | None:
        """Why the call failed, None if it did not."""
        try:
            context = client_context(self._served.trust)
            async with asyncio.timeout(CALL_SECONDS):
                reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=self._name)
                try:
                    request = f"GET {ALIVE_PATH} HTTP/1.1\r\nHost: {self._name}\r\nConnection: close\r\n\r\n"
                    writer.write(request.encode("ascii"))
                    status = await reader.readline()
                finally:
                    writer.close()
        except TimeoutError:
            return f"no answer within {CALL_SECONDS:g} s"
        except (OSError, ssl.SSLError, CertificateError) as error:
            return str(error) or type(error).__name__
        return None if status.startswith(b"HTTP/1.1 200 ") else f"answered {status!r}"
