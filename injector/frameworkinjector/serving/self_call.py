"""Calls this replica over TLS by the Service's name, as the API server would: what readiness must prove.

`run` starts `SelfCall.run` beside the server. The name goes into the handshake and is checked against the certificate,
but the connection goes to this process: the Service routes no call to a replica that is not ready yet. It promises that
`status` turns ready with the first answer, and unready after `FAILURES` failed calls in a row.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

from frameworkinjector.certificates.tls import client_context
from frameworkinjector.errors import CertificateError, SelfCallError
from frameworkinjector.readiness import PartStatus

if TYPE_CHECKING:
    from frameworkinjector.certificates.tls import ServedCertificate

EVERY_SECONDS: Final = 10.0
# While unready: a replica should become ready as soon as it can.
UNREADY_SECONDS: Final = 0.2
CALL_SECONDS: Final = 5.0
# One slow answer does not make a ready replica unready: all replicas may be slow at the same time.
FAILURES: Final = 3
_LOOPBACK: Final[dict[str | None, str]] = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class SelfCall:
    """Calls this replica periodically.

    Args:
        served: The certificate that the server serves, and what to trust.
        name: The DNS name of the Service.

    Attributes:
        status: For readiness.
    """

    def __init__(self, served: ServedCertificate, name: str) -> None:
        self._served = served
        self._name = name
        self.status = PartStatus("not made yet", tolerated=FAILURES - 1)

    async def run(self, host: str | None, port: int) -> None:
        """Call until cancelled; `host` is the address that the server listens on, None for every address."""
        while True:
            try:
                await self._call(_LOOPBACK.get(host, host), port)
                self.status.succeeded()
            except SelfCallError as error:
                self.status.failed(str(error))
            await asyncio.sleep(EVERY_SECONDS if self.status.unready is None else UNREADY_SECONDS)

    async def _call(self, host: str | None, port: int) -> None:
        """Call once.

        Raises:
            SelfCallError: There is no certificate yet, or the handshake fails.
        """
        if not self._served.has_certificate:
            raise SelfCallError("waits for a certificate")
        try:
            context = client_context(self._served.trust)
            async with asyncio.timeout(CALL_SECONDS):
                # A whole handshake, and no request: the port serves reviews only, and this is none.
                _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=self._name)
                writer.close()
        except TimeoutError:
            raise SelfCallError(f"no answer within {CALL_SECONDS:g} s") from None
        except (OSError, ssl.SSLError, CertificateError) as error:
            raise SelfCallError(str(error) or type(error).__name__) from error
