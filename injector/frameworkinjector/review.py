"""An AdmissionReview in, an AdmissionReview out: bytes to bytes, never raising, never calling anybody."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkinjector import patch
from frameworkinjector.errors import RefusalError
from frameworkinjector.plan import Plan, decide
from frameworkinjector.pod import decode_pod, decode_review
from frameworkinjector.reasons import Outcome, Reason, Verdict, verdict

if TYPE_CHECKING:
    from frameworkinjector.barrier import JSON
    from frameworkinjector.config import Config, EnvFiles
    from frameworkinjector.pod import Request

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
# Echoed and logged; the API server's are UUIDs.
MAX_UID: Final = 256

_STATUS_REASONS: Final = {422: "Invalid", 500: "InternalError"}
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP status and body to send, and what may be logged: never any part of the Pod."""

    status: int
    body: bytes
    verdict: Verdict
    uid: str = ""
    kind: str = ""
    namespace: str = ""
    failure: Exception | None = None


def answer(body: bytes, config: Config, env_files: EnvFiles) -> Answer:
    """Reviews one request body. What is not a review gets a 4xx, everything else HTTP 200 with a verdict in it."""
    try:
        review = decode_review(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem=_problem(error)))
    except RecursionError:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="it is nested too deeply"))
    request = review.request
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="its apiVersion or kind is another"))
    if not 0 < len(request.uid) <= MAX_UID:
        return rejected(verdict(Reason.NOT_A_REVIEW, problem="request.uid is empty or too long"))
    failure: Exception | None = None
    operations: list[JSON] = []
    warnings: tuple[str, ...] = ()
    try:
        found, operations, warnings = _review(request, config, env_files)
    except RefusalError as error:
        found = error.verdict
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found = verdict(Reason.MALFORMED_POD, problem=_problem(error))
    except RecursionError:
        found = verdict(Reason.MALFORMED_POD, problem="it is nested too deeply")
    except Exception as error:  # noqa: BLE001 -- a bug of ours must cost one Pod, not the process; it is logged by the caller
        found, failure = verdict(Reason.INTERNAL_ERROR), error
    encoded = _encode(_response(request.uid, found, operations, warnings))
    return Answer(200, encoded, found, request.uid, request.kind.kind, request.namespace, failure)


def rejected(found: Verdict) -> Answer:
    """The answer to what is not a review at all: a 4xx with the sentence in it."""
    return Answer(found.reason.code, _encode({"error": found.sentence, "reason": found.reason.slug}), found)


def _review(request: Request, config: Config, env_files: EnvFiles) -> tuple[Verdict, list[JSON], tuple[str, ...]]:
    if (request.kind.group, request.kind.kind) != ("", "Pod"):
        return verdict(Reason.NOT_A_POD, kind=repr(request.kind.kind[:80])), [], ()
    if request.operation != "CREATE" or request.sub_resource:
        return verdict(Reason.NOT_A_CREATE), [], ()
    pod = decode_pod(request.object)
    plan = decide(pod, request.namespace, config, env_files)
    if isinstance(plan, Plan):
        return verdict(Reason.INJECTED), patch.operations(pod, plan), plan.warnings
    return plan, [], ()


def _response(uid: str, found: Verdict, operations: list[JSON], warnings: tuple[str, ...]) -> JSON:
    response: JSON = {"uid": uid, "allowed": found.reason.outcome is not Outcome.REFUSED}
    if found.reason.outcome is Outcome.REFUSED:
        code = found.reason.code
        response["status"] = {
            "status": "Failure",
            "code": code,
            "reason": _STATUS_REASONS[code],
            "message": found.sentence,
        }
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(operations)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _problem(error: Exception) -> str:
    """What a decoder found wrong, as a clause: it names types and places, never values."""
    text = str(error).rstrip(".")[:300]
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]
