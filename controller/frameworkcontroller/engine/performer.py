"""Performs one effect at the API server and says what became of it, in the core's terms."""

from __future__ import annotations

import asyncio
import gzip
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.types import FRAMEWORK_DECODER, PARTIAL_DECODER, FrameworkStatus
from frameworkcontroller.cluster.backoff import Backoff
from frameworkcontroller.cluster.rest import (
    PARTIAL_METADATA,
    AlreadyExists,
    ApiStatusError,
    Conflict,
    Invalid,
    KubeClient,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    resource_path,
)
from frameworkcontroller.core.book import plain
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Effect,
    Failed,
    GrantRosterAccess,
    Missing,
    Outcome,
    Outpaced,
    Refused,
    WriteRoster,
    WriteStatus,
)

from . import manifests
from .limiter import Limiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .manifests import Subject

COMPRESS_FROM_BYTES: Final = 700 * 1024
# From about 450 Tasks on. The API server copies a roster to every barrier: of 1,000 the last one hears of it in half of
# the time if it is a quarter of the size.
ROSTER_GZIP_FROM_BYTES: Final = 32 * 1024
# Refusals of a creation that pass by themselves (source: the Framework API, section 5).
TRANSIENT_MESSAGES: Final = ("object provided is unrecognized", "exceeded quota")
LASTING_CODES: Final = frozenset({400, 403, 413, 422})


class Performer:
    """Speaks to the API server for the engine.

    Args:
        client: of the API server.
        compress: whether large statuses may be written compressed.
        limiter: gives turns; everybody has one at once by default.
        sleep: waits so many seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        compress: bool = True,
        limiter: Limiter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limiter = limiter or Limiter(None, 1)
        self._client, self._compress, self._sleep, self._clock = client, compress, sleep, clock

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:  # noqa: PLR0911 - one for each effect
        """Do it once, and translate the answer; only a status write insists until its fate is known."""
        await self._limiter.turn()
        try:
            match effect:
                case WriteStatus():
                    return await self._write_status(subject, effect)
                case CreatePod():
                    path = resource_path("v1", "pods", namespace=subject.namespace)
                    return await self._create(path, effect.body())
                case CreateConfigMap():
                    path = resource_path("v1", "configmaps", namespace=subject.namespace)
                    return await self._create(path, manifests.config_map(subject, effect))
                case DeletePod():
                    return await self._delete_pod(subject, effect)
                case DeleteConfigMap():
                    return await self._delete_config_map(subject, effect)
                case WriteRoster():
                    return await self._write_roster(subject, effect)
                case GrantRosterAccess():
                    return await self._grant_roster_access(subject, effect)
                case DeleteFramework():
                    await self._client.delete(subject.path, uid=subject.uid, propagation="Foreground")
                    return Done()
        except NotFound:
            return Missing()
        except ApiStatusError as error:
            return Failed(str(error), error.retry_after_seconds)
        except KubeError as error:
            return Failed(str(error))

    # --- creations and deletions -------------------------------------------------------------------------------------

    async def _create(self, path: str, body: bytes) -> Outcome:
        try:
            answer = await self._client.create(path, body, accept=PARTIAL_METADATA)
        except AlreadyExists as error:
            return Failed(f"the name is in use: {error.message}")
        except ApiStatusError as error:
            transient = any(part in error.message for part in TRANSIENT_MESSAGES)
            if error.code in LASTING_CODES and not transient:
                return Refused(error.code, msgspec.json.encode(error.status).decode() if error.status else str(error))
            return Failed(str(error), error.retry_after_seconds)
        return Done(uid=PARTIAL_DECODER.decode(answer).metadata.uid)

    async def _delete_pod(self, subject: Subject, effect: DeletePod) -> Outcome:
        name = names.pod_name(subject.name, effect.role, effect.index)
        path = resource_path("v1", "pods", namespace=subject.namespace, name=name)
        return await self._delete(path, effect.uid, grace_period_seconds=effect.grace_seconds)

    async def _delete_config_map(self, subject: Subject, effect: DeleteConfigMap) -> Outcome:
        name = names.config_map_name(subject.name)
        path = resource_path("v1", "configmaps", namespace=subject.namespace, name=name)
        return await self._delete(path, effect.uid, propagation="Foreground")

    async def _delete(self, path: str, uid: str, **options: Any) -> Outcome:
        try:
            await self._client.delete(path, uid=uid, accept=PARTIAL_METADATA, **options)
        except Conflict:
            # The precondition failed: another instance has the name, so the one that was meant is gone.
            return Missing()
        return Done()

    # --- the status --------------------------------------------------------------------------------------------------

    async def _write_status(self, subject: Subject, effect: WriteStatus) -> Outcome:
        """Replace the status. Repeating it is safe, since the resourceVersion lets only one of them happen."""
        status = await self._encode(effect.status)
        version = effect.resource_version
        backoff = Backoff(self._clock)
        while True:
            try:
                body = manifests.status_update(subject, version, status)
                answer = await self._client.replace(f"{subject.path}/status", body, accept=PARTIAL_METADATA)
                return Done(resource_version=PARTIAL_DECODER.decode(answer).metadata.resource_version)
            except Conflict:
                found = await self._compare(subject, effect)
                if not isinstance(found, str):
                    return found
                version = found
            except (TooManyRequests, ServerError) as error:
                await self._sleep(backoff.next(error.retry_after_seconds))
            except ApiStatusError as error:
                if isinstance(error, NotFound):
                    return Missing()
                return Refused(error.code, error.message)
            except KubeError:
                # It may have happened unseen; then the next try conflicts with it and is recognized.
                await self._sleep(backoff.next())

    async def _compare(self, subject: Subject, effect: WriteStatus) -> Outcome | str:
        """Why the write conflicted: it had happened already, somebody wrote, or only the rest of the object changed.

        Returns:
            An outcome, or the resourceVersion to write upon.
        """
        live = FRAMEWORK_DECODER.decode(await self._client.get(subject.path))
        if live.metadata.uid != subject.uid:
            return Missing()
        stored = live.stored_status()
        stored = None if stored is None else plain(stored)
        if stored is not None and stored == plain(effect.status):
            return Done(resource_version=live.metadata.resource_version)
        if stored == (None if effect.previous is None else plain(effect.previous)):
            return live.metadata.resource_version
        return Outpaced()

    async def _encode(self, status: FrameworkStatus) -> bytes:
        encoded = msgspec.json.encode(status)
        if not self._compress or len(encoded) < COMPRESS_FROM_BYTES:
            return encoded
        roles = msgspec.json.encode(status.attempt_status.task_role_statuses)
        if len(roles) < COMPRESS_FROM_BYTES:
            return encoded
        packed = b64encode(await asyncio.to_thread(gzip.compress, roles, 1)).decode()
        attempt = replace(status.attempt_status, task_role_statuses=None, task_role_statuses_compressed=packed)
        return msgspec.json.encode(replace(status, attempt_status=attempt))

    # --- the roster --------------------------------------------------------------------------------------------------

    async def _write_roster(self, subject: Subject, effect: WriteRoster) -> Outcome:
        name = names.config_map_name(subject.name)
        path = resource_path("v1", "configmaps", namespace=subject.namespace, name=name)
        packed = None
        if len(effect.document) >= ROSTER_GZIP_FROM_BYTES:
            packed = await asyncio.to_thread(gzip.compress, effect.document, 6)
        try:
            await self._client.patch(path, manifests.roster_patch(effect, packed), accept=PARTIAL_METADATA)
        except Conflict:
            return Missing()
        except Invalid as error:
            # So the server answers a patch whose UID is that of another instance.
            if "metadata.uid" in str(error):
                return Missing()
            raise
        return Done()

    async def _grant_roster_access(self, subject: Subject, effect: GrantRosterAccess) -> Outcome:
        for kind, body in manifests.roster_access(subject, effect.service_accounts):
            outcome = await self._ensure_owned(subject, kind, body)
            if outcome is not None:
                return outcome
        return Done()

    async def _ensure_owned(self, subject: Subject, plural: str, body: dict[str, Any]) -> Outcome | None:
        """Create the object, or bring ours up to date. Somebody else's is never touched: that is an outcome."""
        group = "rbac.authorization.k8s.io/v1"
        collection = resource_path(group, plural, namespace=subject.namespace)
        try:
            await self._client.create(collection, msgspec.json.encode(body), accept=PARTIAL_METADATA)
        except AlreadyExists:
            path = resource_path(group, plural, namespace=subject.namespace, name=body["metadata"]["name"])
            metadata = PARTIAL_DECODER.decode(await self._client.get(path, accept=PARTIAL_METADATA)).metadata
            if all(owner.uid != subject.uid for owner in metadata.owner_references):
                return Failed(f"{plural}/{metadata.name} belongs to somebody else")
            changes = {key: value for key, value in body.items() if key in {"rules", "subjects"}}
            await self._client.patch(path, msgspec.json.encode(changes), accept=PARTIAL_METADATA)
        return None
