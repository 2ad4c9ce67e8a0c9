"""Calls this replica over TLS by the Service's name, as the API server would: what readiness must prove.

`run` starts `SelfCall.run` beside the server. The name goes into the handshake and is checked against the certificate,
but the connection goes to this process: the Service routes no call to a replica that is not ready yet. It promises that
`status` turns ready with the first answer, and unready after `FAILURES` failed calls in a row.
"""

import asyncio
from typing import Final

from frameworkinjector.certificates.tls import ServedCertificate, client_context
from frameworkinjector.errors import CertificateError
from frameworkinjector.readiness import PartStatus

EVERY_SECONDS: Final = 10.0
# While unready: a replica should become ready as soon as it can.
UNREADY_SECONDS: Final = 0.2
CALL_SECONDS: Final = 5.0
# One slow answer does not make a ready replica unready: all replicas may be slow at the same time.
FAILURES: Final = 3
_LOOPBACK: Final[dict[str | None, str]] = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class SelfCall:
    """Calls this replica periodically by `name`, the DNS name of the Service."""

    def __init__(self, served: ServedCertificate, name: str) -> None:
        self._served = served
        self._name = name
        self.status = PartStatus("not made yet", tolerated=FAILURES - 1)

    async def run(self, host: str | None, port: int) -> None:
        """Call until cancelled; `host` is the address that the server listens on, None for every address."""
        while True:
            problem = await self._problem(_LOOPBACK.get(host, host), port)
            if problem is None:
                self.status.succeeded()
            else:
                self.status.failed(problem)
            await asyncio.sleep(EVERY_SECONDS if self.status.unready is None else UNREADY_SECONDS)

    async def _problem(self, host: str | None, port: int) -> str | None:
        """Call once, and return as a clause why that failed."""
        if not self._served.certificate:
            return "waits for a certificate"
        try:
            context = client_context(self._served.trust)
            async with asyncio.timeout(CALL_SECONDS):
                # A whole handshake, and no request: the port serves reviews only, and this is none.
                _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=self._name)
                writer.close()
        except TimeoutError:
            return f"no answer within {CALL_SECONDS:g} s"
        except (OSError, CertificateError) as error:
            return str(error) or type(error).__name__
        return None
