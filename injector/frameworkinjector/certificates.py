"""Keeps a working certificate served: made by ourselves and shared through a Secret, or read from files.

Replicas race for the Secret with its resourceVersion as the precondition: one wins, the others read what it wrote. A
certificate of a new authority is served only after the webhook configuration has trusted that authority for a while,
because the API server learns of the configuration by a watch. The configuration is read before the Secret and patched
with the resourceVersion read, so a replica that sleeps between the two cannot put an old authority back.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from frameworkcontroller.cluster.errors import Conflict, KubeError, NotFound
from frameworkinjector import pki
from frameworkinjector.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frameworkcontroller.cluster.rest import KubeClient
    from frameworkinjector.tls import Served

STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
RETRY_SECONDS: Final = 1.0
_RACES: Final = 20
_log = structlog.get_logger(__name__)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the certificates live and who must trust them."""

    namespace: str
    secret: str
    webhook_configuration: str

    @property
    def secret_path(self) -> str:
        """Of the Secret."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret}"

    @property
    def configuration_path(self) -> str:
        """Of the MutatingWebhookConfiguration."""
        base = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        return f"{base}/{self.webhook_configuration}"


class SelfMade:
    """Makes, shares, renews and publishes certificates.

    Args:
        client: Talks to the API server.
        places: The Secret and the webhook configuration, by name.
        policy: Lives and names.
        served: Where a certificate goes once it may be seen.
        check_seconds: Between two looks at the Secret and the configuration.
        settle_seconds: How long an authority is in the configuration before its certificates are served.
        now: The time.
    """

    def __init__(
        self,
        client: KubeClient,
        places: Places,
        policy: pki.Policy,
        served: Served,
        *,
        check_seconds: float = 10.0,
        settle_seconds: float = 5.0,
        now: Callable[[], dt.datetime] = _now,
    ) -> None:
        self._client = client
        self._places = places
        self._policy = policy
        self._served = served
        self._check_seconds = check_seconds
        self._settle = dt.timedelta(seconds=settle_seconds)
        self._now = now
        self._trusted_since: dict[bytes, dt.datetime] = {}
        self.problem: str | None = "no certificate yet"
        self.was_in_order = False

    async def run(self) -> None:
        """Looks again and again until cancelled; what fails is logged, shown by ``problem`` and tried again."""
        while True:
            wait = self._check_seconds
            try:
                wait = await self.step()
                self.problem, self.was_in_order = None, True
            except (KubeError, CertificateError) as error:
                if str(error) != self.problem:
                    _log.warning("certificates not in order", problem=str(error))
                wait, self.problem = min(self._check_seconds, RETRY_SECONDS), str(error)
            await asyncio.sleep(wait)

    async def step(self) -> float:
        """Brings Secret, configuration and served certificate in order once.

        Returns:
            Seconds after which to look again.

        Raises:
            KubeError: The API server refused, or did not answer.
            CertificateError: What is in the Secret does not work.
        """
        for _ in range(_RACES):
            try:
                return await self._try()
            except Conflict:
                # Another replica was faster; what it wrote is read now.
                continue
        raise CertificateError(f"lost {_RACES} races for Secret {self._places.secret}")

    async def _try(self) -> float:
        configuration = await self._get(self._places.configuration_path, "MutatingWebhookConfiguration")
        secret = await self._get(self._places.secret_path, "Secret")
        bundle = pki.bundle_of(_data_of(secret))
        change = pki.renewed(bundle, self._policy, self._now())
        if change is not None:
            bundle, why = change
            body = {**secret, "data": {name: _base64(value) for name, value in bundle.files().items()}}
            await self._client.replace(self._places.secret_path, msgspec.json.encode(body))
            _log.info("new certificate written", secret=self._places.secret, because=why)
        await self._trust(configuration, bundle.authorities)
        return self._publish(bundle)

    async def _get(self, path: str, kind: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._client.get(path))
        except NotFound as error:
            raise CertificateError(f"{kind} {path.rpartition('/')[2]} does not exist: apply the manifests") from error
        return found

    async def _trust(self, configuration: dict[str, Any], authorities: bytes) -> None:
        """Puts the authorities into each webhook of the configuration where they are not yet."""
        wanted = _base64(authorities)
        stale = [
            {"name": one["name"], "clientConfig": {"caBundle": wanted}}
            for one in configuration.get("webhooks") or []
            if one.get("clientConfig", {}).get("caBundle") != wanted
        ]
        if stale:
            version = configuration["metadata"]["resourceVersion"]
            body = msgspec.json.encode({"metadata": {"resourceVersion": version}, "webhooks": stale})
            await self._client.patch(self._places.configuration_path, body, content_type=STRATEGIC_MERGE)
            _log.info("caBundle written", configuration=self._places.webhook_configuration, webhooks=len(stale))
        self._trusted_since.setdefault(pki.newest_authority(authorities), self._now())

    def _publish(self, bundle: pki.Bundle) -> float:
        """Serves the bundle's certificate if it is time to; returns seconds until the next look."""
        next_look = self._check_seconds
        if bundle.certificate != self._served.certificate:
            since = self._trusted_since[pki.newest_authority(bundle.authorities)]
            remaining = (since + self._settle - self._now()).total_seconds()
            if self._served.ready and remaining > 0:
                return min(next_look, remaining)
            self._served.publish(bundle.certificate, bundle.key, bundle.authorities, self._policy.names[0])
            _log.info("certificate served", until=pki.expiry(bundle.certificate).isoformat())
        due = min(pki.renewal(bundle.certificate), pki.renewal(bundle.authorities)) - self._now()
        return max(0.1, min(next_look, due.total_seconds()))


class FromFiles:
    """Serves a certificate that somebody else keeps in files (cert-manager's Secret, mounted), read again on change."""

    def __init__(self, certificate: Path, key: Path, name: str, served: Served, *, check_seconds: float = 5.0) -> None:
        self._certificate = certificate
        self._key = key
        self._name = name
        self._served = served
        self._check_seconds = check_seconds
        self._seen: tuple[bytes, bytes] | None = None
        self.problem: str | None = "no certificate yet"
        self.was_in_order = False

    async def run(self) -> None:
        """Looks again and again until cancelled; a pair that does not work is logged once, the last good one served."""
        while True:
            self.step()
            await asyncio.sleep(self._check_seconds)

    def step(self) -> None:
        """Reads the files once and serves them if they changed and work."""
        try:
            found = (self._certificate.read_bytes(), self._key.read_bytes())
            if found == self._seen:
                return
            self._seen = found
            certificate, key = found
            # Who signed it is not our business: a client that trusts this very certificate stands for all.
            self._served.publish(certificate, key, certificate, self._name)
        except (OSError, CertificateError) as error:
            problem = f"{self._certificate}: {error}"
            if problem != self.problem:
                _log.warning("certificate not usable, the last good one is still served", problem=problem)
            self.problem = problem
        else:
            self.problem, self.was_in_order = None, True
            _log.info("certificate served", until=pki.expiry(certificate).isoformat())


def _data_of(secret: dict[str, Any]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return found


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
