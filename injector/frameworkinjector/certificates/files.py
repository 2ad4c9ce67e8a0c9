"""Serves a certificate from files that the operator supplies, for example a Secret of cert-manager that is mounted.

`run` starts `CertificateFiles.run` if the command line names the files. It promises that a changed pair is served
without a restart, and that a pair which does not work never replaces one that does.
"""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from frameworkinjector.certificates import bundle
from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.errors import CertificateError
from frameworkinjector.readiness import PartStatus

CHECK_SECONDS: Final = 5.0
_log = structlog.get_logger(__name__)


class CertificateFiles:
    """Reads a certificate and its key, PEM, again on each change; `name` is that by which the API server calls."""

    def __init__(self, certificate: Path, key: Path, name: str, served: ServedCertificate) -> None:
        self._certificate = certificate
        self._key = key
        self._name = name
        self._served = served
        self._pair: tuple[bytes, bytes] | None = None
        self.status = PartStatus("no certificate yet")

    async def run(self) -> None:
        """Read the files until cancelled; log a pair that does not work once and keep serving the previous one."""
        while True:
            self.reconcile()
            await asyncio.sleep(CHECK_SECONDS)

    def reconcile(self) -> None:
        """Read the files once, and serve them if they work and are not what is served."""
        try:
            found = certificate, key = self._certificate.read_bytes(), self._key.read_bytes()
            if found != self._pair:
                # The issuer is the operator's choice, so the check trusts this very certificate.
                self._served.publish(certificate, key, certificate, self._name)
                self._pair = found
                _log.info("certificate served", until=bundle.expiry(certificate).isoformat())
        except (OSError, CertificateError) as error:
            problem = f"{self._certificate}: {error}"
            if self.status.failed(problem):
                _log.warning("certificate files not usable", problem=problem)
        else:
            self.status.succeeded()
