"""Makes the certificate of the webhook, shares it between replicas through a Secret, and publishes its authority.

`run` starts `ManagedCertificates.run` unless the operator supplies certificate files (module `files`). It
promises that the certificate in the Secret is served and renewed in time, and that `caBundle` of the webhook
configuration holds its authority.

Replicas race for the Secret with its resourceVersion as the precondition: one wins, the others read what it wrote. A
certificate of a new authority is served only after the webhook configuration has held that authority for a while,
because the API server learns of the configuration by a watch. The configuration is read before the Secret and patched
with the resourceVersion that was read, so a replica that is delayed between the two cannot restore an old authority.
"""

import asyncio
import base64
import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from frameworkinjector.certificates import bundle as pki
from frameworkinjector.certificates.issuing import Profile
from frameworkinjector.certificates.tls import ServedCertificate
from frameworkinjector.errors import CertificateError
from frameworkinjector.readiness import PartStatus
from frameworkkube.errors import ConflictError, KubeError, NotFoundError
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path

STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
RETRY_SECONDS: Final = 1.0
MIN_PAUSE_SECONDS: Final = 0.1
_MAX_RACES: Final = 20
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedObjects:
    """The objects that the injector writes, by name."""

    namespace: str
    secret: str
    webhook_configuration: str


class ManagedCertificates:
    """Makes, shares, renews and publishes certificates.

    It looks at `objects` every `check_seconds`, and serves a certificate of a new authority `settle_seconds` after the
    configuration has got that authority.
    """

    def __init__(
        self,
        client: KubeClient,
        objects: ManagedObjects,
        profile: Profile,
        served: ServedCertificate,
        *,
        check_seconds: float,
        settle_seconds: float,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._client = client
        self._objects = objects
        self._secret = resource_path("v1", "secrets", namespace=objects.namespace, name=objects.secret)
        self._configuration = resource_path(
            "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", name=objects.webhook_configuration
        )
        self._profile = profile
        self._served = served
        self._check_seconds = check_seconds
        self._settle = dt.timedelta(seconds=settle_seconds)
        self._now = now
        self._trusted_since: dict[bytes, dt.datetime] = {}
        self.status = PartStatus("no certificate yet")

    async def run(self) -> None:
        """Reconcile until cancelled; log each new failure and try again."""
        while True:
            try:
                pause = await self.reconcile()
                self.status.succeeded()
            except (KubeError, CertificateError, msgspec.DecodeError) as error:
                pause = min(self._check_seconds, RETRY_SECONDS)
                if self.status.failed(str(error)):
                    _log.warning("certificates not reconciled", problem=str(error))
            await asyncio.sleep(pause)

    async def reconcile(self) -> float:
        """Bring Secret, webhook configuration and certificate in order once; return the seconds to the next time.

        Raises:
            KubeError: The API server refused, or did not answer.
            msgspec.DecodeError: The answer is no JSON, such as the page of a proxy.
            CertificateError: An object is missing, its content does not work, or other replicas won every race.
        """
        for _ in range(_MAX_RACES):
            with contextlib.suppress(ConflictError):
                return await self._attempt()
        raise CertificateError(
            f"Secret {self._objects.secret} or MutatingWebhookConfiguration {self._objects.webhook_configuration} "
            f"changed during each of {_MAX_RACES} attempts to write it"
        )

    async def _attempt(self) -> float:
        # The order matters: see the docstring of the module.
        configuration = await self._get(self._configuration, "MutatingWebhookConfiguration")
        secret = await self._get(self._secret, "Secret")
        bundle = await self._renew(secret)
        trusted_since = await self._trust(configuration, bundle.authorities)
        if bundle.certificate != self._served.certificate:
            unsettled_seconds = (trusted_since + self._settle - self._now()).total_seconds()
            # A replica cannot wait that serves nothing yet, or what nobody trusts any more.
            is_trusted = bool(self._served.trust) and pki.signing_authority(self._served.trust) in bundle.authorities
            if is_trusted and unsettled_seconds > 0:
                return min(self._check_seconds, unsettled_seconds)
            self._served.publish(bundle.certificate, bundle.key, bundle.authorities, self._profile.names[0])
            _log.info("certificate served", until=pki.expiry(bundle.certificate).isoformat())
        due = min(pki.renewal_due(bundle.certificate), pki.renewal_due(bundle.authorities)) - self._now()
        return max(MIN_PAUSE_SECONDS, min(self._check_seconds, due.total_seconds()))

    async def _get(self, path: str, kind: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._client.get(path))
        except NotFoundError as error:
            raise CertificateError(f"{kind} {path.rpartition('/')[2]} does not exist: apply the manifests") from error
        return found

    async def _renew(self, secret: dict[str, Any]) -> pki.Bundle:
        """Return the bundle in the Secret, replaced by a new one if it is due or cannot be used."""
        bundle = pki.bundle_of(_decoded_data(secret))
        renewal = pki.renewed(bundle, self._profile, self._now())
        if renewal is None:
            return bundle
        body = {**secret, "data": {name: _base64(value) for name, value in renewal.bundle.files().items()}}
        await self._client.replace(self._secret, msgspec.json.encode(body))
        _log.info("new certificate written", secret=self._objects.secret, because=renewal.because)
        return renewal.bundle

    async def _trust(self, configuration: dict[str, Any], authorities: bytes) -> dt.datetime:
        """Write the authorities into each webhook that lacks them, and return since when the first is trusted."""
        ca_bundle = _base64(authorities)
        outdated = [
            {"name": one["name"], "clientConfig": {"caBundle": ca_bundle}}
            for one in configuration.get("webhooks") or []
            if one.get("clientConfig", {}).get("caBundle") != ca_bundle
        ]
        if outdated:
            version = configuration["metadata"]["resourceVersion"]
            body = msgspec.json.encode({"metadata": {"resourceVersion": version}, "webhooks": outdated})
            await self._client.patch(self._configuration, body, content_type=STRATEGIC_MERGE)
            _log.info("caBundle written", configuration=self._objects.webhook_configuration, webhooks=len(outdated))
        return self._trusted_since.setdefault(pki.signing_authority(authorities), self._now())


def _decoded_data(secret: dict[str, Any]) -> dict[str, bytes]:
    """Return the data of a Secret; a value that is not base64 is left out, and so replaced."""
    found: dict[str, bytes] = {}
    for name, value in (secret.get("data") or {}).items():
        with contextlib.suppress(ValueError, TypeError):
            found[name] = base64.b64decode(value, validate=True)
    return found


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
