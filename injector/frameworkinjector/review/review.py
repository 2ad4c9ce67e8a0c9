"""Answers one AdmissionReview: request bytes in, response bytes out.

`server` calls `answer` with each body that it has read. It promises to answer any body at all: it raises nothing, makes
no request, and puts no part of a Pod into the values that are logged. Source: docs/reference/injector.md, section 2.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkinjector.review import patch
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import decode_pod, decode_review
from frameworkinjector.review.reasons import Outcome, Reason, RefusalError, Verdict, verdict

if TYPE_CHECKING:
    from frameworkinjector.review.barrier import JSON
    from frameworkinjector.review.config import Config, EnvFiles
    from frameworkinjector.review.eligibility.skew import Skew
    from frameworkinjector.review.pod import Request

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
# The response and the log repeat the uid; the API server sends UUIDs.
MAX_UID: Final = 256
# Bounds on memory. A decoded value takes up to 100 bytes, and each one needs a comma or a brace.
MAX_VALUES: Final = 300_000
# More than a whole object may have in etcd (1.5 MiB), so that no Pod is refused for it that could be created.
MAX_PATCH_BYTES: Final = 2 * 1024 * 1024

_STATUS_REASONS: Final = {422: "Invalid", 500: "InternalError"}
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP status and body to send, and what may be logged.

    Attributes:
        status: The HTTP status code.
        body: The response as JSON.
        verdict: The outcome of the review.
        uid: The `uid` of the request.
        kind: The kind of the object.
        namespace: The namespace of the request.
        failure: The defect of the injector that the review met, None if there was none.
        skew: The versions of controller and barrier, if they are too far apart.
    """

    status: int
    body: bytes
    verdict: Verdict
    uid: str = ""
    kind: str = ""
    namespace: str = ""
    failure: Exception | None = None
    skew: Skew | None = None


@dataclass(frozen=True, slots=True)
class _Decision:
    """The verdict on a request, its patch as JSON, what to warn the user of, and a skew of versions."""

    verdict: Verdict
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    skew: Skew | None = None


def answer(body: bytes, config: Config, env_files: EnvFiles) -> Answer:
    """Review one request body: return a 4xx for what is not a review, else HTTP 200 with a verdict in it."""
    try:
        review = decode_review(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem=_problem(error)))
    except RecursionError:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="it is nested too deeply"))
    request = review.request
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="its apiVersion or kind is different"))
    if not 0 < len(request.uid) <= MAX_UID:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="request.uid is empty or too long"))
    failure: Exception | None = None
    try:
        found = _decide(request, config, env_files)
    except RefusalError as error:
        found = _Decision(error.verdict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = _Decision(verdict(Reason.MALFORMED_POD, problem=_problem(error)))
    except RecursionError:
        found = _Decision(verdict(Reason.MALFORMED_POD, problem="it is nested too deeply"))
    except Exception as error:  # noqa: BLE001 -- a defect costs one Pod, not the process; `server` logs it
        found, failure = _Decision(verdict(Reason.INTERNAL_ERROR)), error
    encoded = _encode(_response(request.uid, found.verdict, found.patch, found.warnings))
    return Answer(200, encoded, found.verdict, request.uid, request.kind.kind, request.namespace, failure, found.skew)


def rejected(found: Verdict) -> Answer:
    """Return the answer to a request that is not a review: a 4xx with the sentence in it."""
    return Answer(found.reason.code, _encode({"error": found.sentence, "reason": found.reason.slug}), found)


def _decide(request: Request, config: Config, env_files: EnvFiles) -> _Decision:
    """Decide on a request.

    Raises:
        RefusalError: The Pod or its patch is too large, or its settings cannot work.
    """
    if (request.kind.group, request.kind.kind) != ("", "Pod"):
        return _Decision(verdict(Reason.NOT_A_POD, kind=repr(request.kind.kind[:80])))
    if request.operation != "CREATE" or request.sub_resource:
        return _Decision(verdict(Reason.NOT_A_CREATE))
    encoded = bytes(request.object)
    if encoded.count(b",") + encoded.count(b"{") > MAX_VALUES:
        raise RefusalError(verdict(Reason.POD_TOO_LARGE, limit=str(MAX_VALUES)))
    pod = decode_pod(request.object)
    plan = decide(pod, request.namespace, config, env_files)
    if not isinstance(plan, Plan):
        return _Decision(plan)
    operations = _encode(patch.operations(pod, plan))
    if len(operations) > MAX_PATCH_BYTES:
        details = {"size": str(len(operations)), "limit": str(MAX_PATCH_BYTES)}
        raise RefusalError(verdict(Reason.PATCH_TOO_LARGE, **details))
    return _Decision(verdict(Reason.INJECTED), operations, plan.warnings, plan.skew)


def _response(uid: str, found: Verdict, encoded_patch: bytes, warnings: tuple[str, ...]) -> JSON:
    response: JSON = {"uid": uid, "allowed": found.reason.outcome is not Outcome.REFUSED}
    if found.reason.outcome is Outcome.REFUSED:
        code = found.reason.code
        response["status"] = {
            "status": "Failure",
            "code": code,
            "reason": _STATUS_REASONS[code],
            "message": found.sentence,
        }
    if encoded_patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(encoded_patch).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _problem(error: Exception) -> str:
    """Return what a decoder found wrong, as a clause that names types and paths, never values."""
    text = str(error).rstrip(".")[:300]
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]
