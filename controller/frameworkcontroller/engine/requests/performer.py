"""Performs one effect at the API server and returns its outcome, in the core's terms.

The engine's workers call `perform` with the Framework instance and the effect. The promise: one effect is one request
(a status write, and the access to the roster, are a few), each with a UID or resourceVersion as its precondition where
it changes or deletes something; every failure becomes an `Outcome`, and the core decides when to try again.
"""

import asyncio
import gzip
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from frameworkcontroller.api import foreign, names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.meta import PARTIAL_DECODER, Meta
from frameworkcontroller.api.pod import POD_DECODER
from frameworkcontroller.api.status import STATUS_DECODER
from frameworkcontroller.api.stored_roles import UnreadableStatusError, roles_digest
from frameworkcontroller.core import effects
from frameworkcontroller.core.effects import Done, Effect, Failed, Found, Missing, Outcome, Refused, Subject
from frameworkcontroller.core.machines.framework import is_ours
from frameworkcontroller.core.machines.retention import has_ended
from frameworkcontroller.core.pods.template import TemplateError
from frameworkcontroller.core.status.conflict import resolve_conflict
from frameworkcontroller.engine.requests import (
    creation_error,
    manifests,
    pod_answer,
    status_encoding,
    workload_priority,
)
from frameworkcontroller.engine.requests.pod_bodies import PodBodies
from frameworkkube.errors import (
    AlreadyExistsError,
    AnswerTooLargeError,
    ApiStatusError,
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    NotSentError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from frameworkkube.http.client import JSON, PARTIAL_METADATA, KubeClient
from frameworkkube.paths import resource_path
from frameworkkube.slots import Slots

# From about 450 Tasks on. The API server sends a roster to every barrier: the last of 1,000 barriers receives it in
# half of the time if it is a quarter of the size.
ROSTER_GZIP_FROM_BYTES: Final = 32 * 1024
# Refusals of a creation that are transient (source: docs/reference/framework-api.md, section 5).
# A refusal of what is invalid quotes it, and anybody may write these words: the code has to be that of the refusal.
TRANSIENT_MESSAGES: Final = {400: "object provided is unrecognized", 403: "exceeded quota"}
MESSAGE_CHARACTERS: Final = 2048
"""Of a failure: the text of a refusal may quote a mebibyte."""
# The authorizer has refused this controller, not the object: so does an API server that has just started. An admission
# plugin names the object, too: `pods "fw-worker-0" is forbidden: ...`.
MISSING_PERMISSIONS: Final = ('pods is forbidden: User "', 'configmaps is forbidden: User "')
# A status may be sent upon a newer resourceVersion so often, while somebody edits the Framework.
STATUS_TRIES: Final = 5
# etcd's refusal, and that of the API server's client of etcd, arrive as 500.
TOO_LARGE_CODE: Final = 413
TOO_LARGE_MESSAGES: Final = ("request is too large", "message larger than max")
PERMANENT: Final = 422
PERMANENT_CODES: Final = frozenset({400, 403, 413, 422})
FINAL_REFUSALS: Final = PERMANENT_CODES | {405, 415}
MISSING_PERMISSION: Final = 'is forbidden: User "'
ANSWER_BYTES: Final = 512 * 1024
"""Of an answer about a Pod or a ConfigMap: more than annotations may have, and anybody may write MiB of owners."""
LOGS_SECONDS: Final = 3.0
LOGS_BYTES: Final = 1024 * 1024
"""Of an answer of the archive, and how long it may take."""
FOUND_ANNOTATIONS: Final = frozenset({*names.POD_ANNOTATIONS, names.ROSTER_ANNOTATION})
"""Those that say whose an object is."""


def _words_of(error: ApiStatusError) -> str:
    """Return what is kept of it, for each Framework that meets it."""
    return str(error)[:MESSAGE_CHARACTERS]


def _message_of(error: ApiStatusError) -> str:
    """Return the same without code and reason."""
    return error.message[:MESSAGE_CHARACTERS]


class Performer:
    """Makes the requests of all effects; large statuses may be written compressed. `history` leads to the archive."""

    def __init__(self, client: KubeClient, *, compress: bool = True, history: KubeClient | None = None) -> None:
        self._client, self._compress, self._bodies, self._history = client, compress, PodBodies(), history
        self._large_reads = Slots(1, 1)
        """By namespace: of each one waits for the read of large objects, so that namespaces take turns."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        """Perform the effect once and translate the answer."""
        try:
            return await self._request(subject, effect)
        except NotFoundError as error:
            # A proxy has a page of its own for what it does not find, which says nothing of the object; and so has the
            # API server for kinds that it does not serve.
            is_certain = error.status or isinstance(effect, effects.CreateCompanion | effects.FindOwner)
            return Missing() if is_certain else _failed(error)
        except AnswerTooLargeError:
            return Done()  # a patch or a deletion, which has happened
        except ApiStatusError as error:
            return _failed(error)
        except KubeError as error:
            return Failed(str(error), nothing_happened=isinstance(error, NotSentError))
        except (msgspec.DecodeError, UnreadableStatusError, RecursionError) as error:
            # A proxy's page, for example, or a Framework that was made unreadable. The request may have taken effect;
            # the next attempt finds out. Who makes many of them has them tried at the pace of what is refused.
            return Failed(f"the API server's answer cannot be decoded: {error}", refused=True)

    async def _request(self, subject: Subject, effect: Effect) -> Outcome:  # noqa: C901, PLR0911, PLR0912 -- one for each effect
        path = _path_of(subject, effect)
        match effect:
            case effects.AskProgress():
                return effects.Told(await pod_answer.ask(effect.ip, effect.port, "/gang"))
            case effects.AskLogs():
                return await self._ask_logs(effect)
            case effects.SetFinalizers():
                return await self._patch_version(path, manifests.finalizers(subject, effect))
            case effects.WriteStatus():
                return await self._write_status(subject, path, effect)
            case effects.CreatePod():
                try:
                    body = await self._bodies.render(effect)
                except TemplateError as error:
                    return Refused(PERMANENT, str(error), sent=False)
                return await self._create(path, body, creation_error.describe)
            case effects.CreateConfigMap():
                return await self._create(path, manifests.config_map(subject, effect))
            case effects.FindPod():
                meta = await self._read(path)
                # Anybody may use the name of a Pod for one of some MiB; only of one that was let go more is asked.
                ended = meta.labels.retained is not None and has_ended(POD_DECODER.decode(await self._get(path, JSON)))
                return Found(meta, ended)
            case effects.FindConfigMap():
                return Found(await self._read(path))
            case effects.DeletePod():
                return await self._delete_pod(path, effect)
            case effects.RetainPod():
                return await self._retain_pod(path, manifests.retained_pod_patch(subject, effect))
            case effects.DeleteConfigMap():
                return await self._delete(path, effect.uid, propagation="Foreground")
            case effects.LabelConfigMap():
                return await self._patch_version(path, manifests.config_map_patch(subject, effect))
            case effects.WriteRoster():
                return await self._write_roster(subject, path, effect)
            case effects.FindOwner():
                return await self._find_owner(path, effect)
            case effects.GrantRosterAccess():
                return await self._grant_roster_access(subject, effect)
            case effects.CreateCompanion():
                return await self._create_companion(subject, path, effect)
            case effects.PatchCompanion():
                send = self._patch_version if effect.resource_version else self._patch
                part = "/status" if "status" in effect.patch else ""
                return await send(path + part, manifests.companion_patch(effect))
            case effects.DeleteCompanion():
                return await self._delete(path, effect.uid)
            case effects.DeleteFramework():
                version = effect.resource_version or None
                return await self._delete(path, subject.uid, resource_version=version, propagation="Foreground")

    async def _ask_logs(self, effect: effects.AskLogs) -> Outcome:
        """Ask the archive, which answers as soon as it has something to say, after a second at the latest."""
        assert self._history is not None
        body = msgspec.json.encode({"uids": effect.uids})
        answer = self._history.request(
            "POST", "/kept", body=body, timeout_seconds=LOGS_SECONDS, max_bytes=LOGS_BYTES, flow_controlled=False
        )
        return effects.Told(await answer)

    # --- creations and deletions -------------------------------------------------------------------------------------

    async def _create(self, path: str, body: bytes, describe: Callable[[ApiStatusError], str] = _words_of) -> Outcome:
        """Create the object that is to have this path."""
        try:
            answer = await self._client.create(path.rpartition("/")[0], body, accept=PARTIAL_METADATA)
        except AlreadyExistsError as error:
            return effects.NameTaken(f"the name is in use: {_message_of(error)}")
        except ApiStatusError as error:
            if error.code in PERMANENT_CODES and not _is_transient(error):
                return Refused(error.code, describe(error))
            return _failed(error)
        made = PARTIAL_DECODER.decode(answer).metadata
        return Done(made.uid, made.resource_version)

    async def _read(self, path: str) -> Meta:
        found = PARTIAL_DECODER.decode(await self._get(path, PARTIAL_METADATA))
        return found.metadata.slim(FOUND_ANNOTATIONS)

    async def _get(self, path: str, accept: str) -> bytes:
        """Read an object that may be anybody's."""
        try:
            return await self._client.get(path, accept=accept, max_bytes=ANSWER_BYTES)
        except AnswerTooLargeError:
            return await self._get_large(path, accept)

    async def _get_large(self, path: str, accept: str) -> bytes:
        """Read large objects one at a time, since all at once are hundreds of MiB."""
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        async with self._large_reads.of(namespace):
            return await self._client.get(path, accept=accept)

    async def _find_owner(self, path: str, effect: effects.FindOwner) -> Outcome:
        try:
            document = await self._client.get(path, max_bytes=ANSWER_BYTES)
        except AnswerTooLargeError:
            # Thousands of gangs may name one that is not theirs, which only its metadata has to say.
            if effect.uid and (await self._read(path)).uid != effect.uid:
                return Missing()
            document = await self._get_large(path, JSON)
        return Found(PARTIAL_DECODER.decode(document).metadata.slim(FOUND_ANNOTATIONS), document=document)

    async def _delete_pod(self, path: str, effect: effects.DeletePod) -> Outcome:
        if effect.on_node or effect.grace_seconds is not None:
            return await self._delete(path, effect.uid, grace_period_seconds=effect.grace_seconds)
        # The API server removes a Pod without a node at once. It decides so before admission, and would also remove one
        # that the scheduler binds by then: its containers would run while the next Pod of the Task starts.
        found = await self._read(path)
        if found.uid != effect.uid:
            return Missing()
        outcome = await self._delete(path, effect.uid, resource_version=found.resource_version)
        if isinstance(outcome, Missing) and (await self._read(path)).uid == effect.uid:
            return Failed(f"Pod {found.name} changed while it was to be deleted")
        return outcome

    async def _retain_pod(self, path: str, patch: bytes) -> Outcome:
        try:
            return await self._patch(path, patch)
        except ApiStatusError as error:
            # A policy or a webhook of somebody. Everything else may pass.
            is_final = error.code in FINAL_REFUSALS and not _lacks_permission(error)
            if not is_final:
                raise
            return Refused(error.code, _message_of(error))

    async def _delete(self, path: str, uid: str, **options: Any) -> Outcome:
        request = self._client.delete(path, uid=uid, accept=PARTIAL_METADATA, max_bytes=ANSWER_BYTES, **options)
        try:
            answer = await request
        except ConflictError as error:
            # The precondition failed: another object has the name, so the one to delete is gone; or it has changed.
            return Missing() if error.status else _failed(error)
        # Nobody asks a second time for what counts as deleted, and a proxy's page deletes nothing.
        msgspec.json.decode(answer, type=msgspec.Raw)
        return Done()

    # --- the status --------------------------------------------------------------------------------------------------

    async def _write_status(self, subject: Subject, path: str, effect: effects.WriteStatus) -> Outcome:
        """Write the status, again if only the rest of the object has changed, without a pause: it holds a slot."""
        status, digest = await self._encode(effect)
        version = effect.resource_version
        for conflicts in range(STATUS_TRIES):
            outcome: Outcome | str
            try:
                outcome = await self._send_status(path, manifests.status_update(subject, version, status))
            except ConflictError:
                live = FRAMEWORK_DECODER.decode(await self._client.get(path))
                outcome = resolve_conflict(effect, subject.uid, live)
            if not isinstance(outcome, str):
                return replace(outcome, roles=digest, conflicts=conflicts) if isinstance(outcome, Done) else outcome
            version = outcome
        return Failed("the Framework changed during each of several attempts to write its status")

    async def _send_status(self, path: str, body: bytes) -> Outcome:
        """Send the status once; a conflict is raised, and errors of which another try may be rid."""
        try:
            answer = await self._client.replace(f"{path}/status", body, accept=PARTIAL_METADATA)
        except ApiStatusError as error:
            of_etcd = error.code >= 500 and any(part in error.message for part in TOO_LARGE_MESSAGES)
            too_large = error.code == TOO_LARGE_CODE or of_etcd
            if too_large and not error.by_webhook:
                return Refused(TOO_LARGE_CODE, _message_of(error))
            passes = ConflictError | NotFoundError | TooManyRequestsError | ServerError | UnauthorizedError
            if too_large or isinstance(error, passes):
                raise
            return Refused(error.code, _message_of(error))
        return Done(resource_version=PARTIAL_DECODER.decode(answer).metadata.resource_version)

    async def _encode(self, effect: effects.WriteStatus) -> tuple[bytes, int | None]:
        """Return the status as it is sent, and the digest of its roles: a plain one is not read for that."""
        encoded = msgspec.json.encode(effect.status)
        if not self._compress or status_encoding.is_small(len(encoded), effect.rest_bytes):
            return encoded, None
        encoded = await asyncio.to_thread(status_encoding.compress, effect.status, effect.rest_bytes)
        return encoded, roles_digest(STATUS_DECODER.decode(encoded))

    # --- the roster --------------------------------------------------------------------------------------------------

    async def _write_roster(self, subject: Subject, path: str, effect: effects.WriteRoster) -> Outcome:
        packed = None
        if len(effect.document) >= ROSTER_GZIP_FROM_BYTES:
            # Without the time, so that the same roster is the same object.
            packed = await asyncio.to_thread(gzip.compress, effect.document, 6, mtime=0)
        return await self._patch_version(path, manifests.roster_patch(subject, effect, packed))

    async def _patch_version(self, path: str, patch: bytes) -> Outcome:
        """Send a merge patch; where the object has changed, what is to be said may be something else now."""
        try:
            return await self._patch(path, patch)
        except ConflictError:
            return Missing()

    async def _patch(self, path: str, patch: bytes) -> Outcome:
        """Send a merge patch whose UID is a precondition; errors are those of `KubeClient.request`."""
        try:
            answer = await self._client.patch(path, patch, accept=PARTIAL_METADATA, max_bytes=ANSWER_BYTES)
        except InvalidError as error:
            # The server's answer to a patch whose UID is not the object's.
            if "metadata.uid: Invalid value" in error.message:
                return Missing()
            raise
        return Done(resource_version=PARTIAL_DECODER.decode(answer).metadata.resource_version)

    async def _grant_roster_access(self, subject: Subject, effect: effects.GrantRosterAccess) -> Outcome:
        """Create Role and RoleBinding, or update what the ConfigMap owns, or the Framework, as in earlier versions.

        An object of another owner is left alone. The ConfigMap of the last attempt may still be one for a moment.
        """
        for plural, body in manifests.roster_access(subject, effect):
            collection = resource_path("rbac.authorization.k8s.io/v1", plural, namespace=subject.namespace)
            try:
                await self._client.create(collection, msgspec.json.encode(body), accept=PARTIAL_METADATA)
            except AlreadyExistsError:
                path = f"{collection}/{body['metadata']['name']}"
                found = PARTIAL_DECODER.decode(await self._get(path, PARTIAL_METADATA)).metadata
                if all(owner.uid not in {subject.uid, effect.config_map_uid} for owner in found.owner_references):
                    return Failed(f"{plural}/{found.name} exists and is not owned by this Framework", refused=True)
                changes = {key: value for key, value in body.items() if key in {"rules", "subjects"}}
                changes["metadata"] = {"uid": found.uid, "ownerReferences": body["metadata"]["ownerReferences"]}
                patch, accept = msgspec.json.encode(changes), PARTIAL_METADATA
                with suppress(AnswerTooLargeError):  # it has happened
                    await self._client.patch(path, patch, accept=accept, max_bytes=ANSWER_BYTES)
        return Done()

    # --- objects of others --------------------------------------------------------------------------------------------

    async def _create_companion(self, subject: Subject, path: str, effect: effects.CreateCompanion) -> Outcome:
        """Create it; one of the same owner that the cache does not show gets back the label for that."""
        priority: dict[str, Any] = {}
        if effect.priority is not None:
            try:
                priority = await workload_priority.find(self._client, *effect.priority)
            except NotFoundError as error:
                return Refused(error.code, _message_of(error))
        outcome = await self._create(path, manifests.companion(subject, effect, priority))
        if not isinstance(outcome, effects.NameTaken):
            return outcome
        found = await self._read(path)
        if not is_ours(found, effect.config_map_uid or subject.uid):
            return outcome
        metadata = {"uid": found.uid, "labels": {names.FRAMEWORK_NAME: subject.name}}
        return await self._patch(path, msgspec.json.encode({"metadata": metadata}))


def _failed(error: ApiStatusError) -> Failed:
    passes = isinstance(error, TooManyRequestsError | ConflictError | UnauthorizedError) or _lacks_permission(error)
    refused = error.by_webhook or (400 <= error.code < 500 and not passes)
    is_late = isinstance(error, TooManyRequestsError)
    return Failed(_words_of(error), error.retry_after_seconds, refused=refused, nothing_happened=is_late)


def _lacks_permission(error: ApiStatusError) -> bool:
    return MISSING_PERMISSION in error.message and not error.by_webhook


def _is_transient(error: ApiStatusError) -> bool:
    words = TRANSIENT_MESSAGES.get(error.code)
    return error.message.startswith(MISSING_PERMISSIONS) or (words is not None and words in error.message)


def _path_of(subject: Subject, effect: Effect) -> str:
    """Return the path of the object that an effect is about."""
    match effect:
        case effects.PodEffect():
            api, plural, name = "v1", "pods", names.pod_name(subject.name, effect.role, effect.index)
        case effects.OfCompanion():
            api, plural, name = effect.api_version, manifests.COMPANIONS[effect.key][1], effect.name
        case effects.FindOwner():
            row, name = foreign.KINDS[effect.kind], effect.name
            api, plural = row.api_version, row.plural
        case effects.WriteStatus() | effects.SetFinalizers() | effects.DeleteFramework():
            api, plural, name = names.API_VERSION, names.PLURAL, subject.name
        case _:
            api, plural, name = "v1", "configmaps", names.config_map_name(subject.name)
    return resource_path(api, plural, namespace=subject.namespace, name=name)
