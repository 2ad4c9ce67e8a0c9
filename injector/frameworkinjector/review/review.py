"""Answers one AdmissionReview: request bytes in, response bytes out.

`server` calls `answer` with each body that it has read. It promises to answer any body at all: it raises nothing, makes
no request, and puts no part of a Pod into the values that are logged. Source: docs/reference/injector.md, section 2.
"""

import base64
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from frameworkinjector.review import patch
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.eligibility import Skew
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import JSON, Request, decode_pod, decode_review
from frameworkinjector.review.reasons import Reason, RefusalError, Ruling, Verdict

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
# The response and the log repeat the uid; the API server sends UUIDs.
MAX_UID: Final = 256
MAX_NAMESPACE: Final = 63
BEGINNING_BYTES: Final = 4096
"""Of a body, in which an API server says for which namespace it asks: before the object, in which anybody may write."""
_NAMESPACE: Final = re.compile(rb'"namespace": ?"([^"\\]{1,63})"')
# Bounds memory and time: a decoded value takes up to 100 bytes and 0.3 µs, and each one needs a comma or a brace.
MAX_VALUES: Final = 50_000
# More than a whole object may have in etcd (1.5 MiB), so that no Pod is refused for it that could be created.
MAX_PATCH_BYTES: Final = 2 * 1024 * 1024

_STATUS_REASONS: Final = {422: "Invalid", 500: "InternalError"}
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP status and JSON body to send, and what may be logged."""

    status: int
    body: bytes
    verdict: Verdict
    uid: str = ""
    kind: str = ""
    namespace: str = ""
    failure: Exception | None = None
    """The defect of the injector that the review met, None if there was none."""
    skew: Skew | None = None
    """The versions of controller and barrier, if they are too far apart."""

    @property
    def is_question(self) -> bool:
        """Whether it answers a question of the injector itself (`callers`) and no Pod is created."""
        return self.verdict.reason is Reason.POD_TEMPLATE


def answer(body: bytes, config: Config, env_files: EnvFiles) -> Answer:
    """Review one request body: return a 4xx for what is not a review, else HTTP 200 with a verdict in it."""
    try:
        request = _request_in(body)
    except RefusalError as error:
        return rejected(error.verdict)
    try:
        return _decided(request, config, env_files)
    except RefusalError as error:
        return _reviewed(request, error.verdict)
    except _UNREADABLE as error:
        return _reviewed(request, Verdict(Reason.MALFORMED_POD, {"problem": _problem(error)}))
    except Exception as error:  # noqa: BLE001 -- a defect costs one Pod, not the process; `server` logs it
        return _reviewed(request, Verdict(Reason.INTERNAL_ERROR), failure=error)


def namespace_of(body: bytes) -> bytes:
    """Return for which namespace a body asks, or its beginning; empty if that does not say it, as API servers do."""
    found = _NAMESPACE.search(body, 0, BEGINNING_BYTES)
    return b"" if found is None else found[1]


def rejected(verdict: Verdict) -> Answer:
    """Return the answer to a request that is not a review: a 4xx with the sentence in it."""
    return Answer(verdict.reason.code, _encode({"error": verdict.sentence, "reason": verdict.reason.slug}), verdict)


def _request_in(body: bytes) -> Request:
    """Decode a body.

    Raises:
        RefusalError: It is not a review.
    """
    try:
        review = decode_review(body)
    except _UNREADABLE as error:
        raise RefusalError(Reason.NOT_A_REVIEW, problem=_problem(error)) from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise RefusalError(Reason.NOT_A_REVIEW, problem="its apiVersion or kind is different")
    if not 0 < len(review.request.uid) <= MAX_UID:
        raise RefusalError(Reason.NOT_A_REVIEW, problem="request.uid is empty or too long")
    if len(review.request.namespace) > MAX_NAMESPACE:
        raise RefusalError(Reason.NOT_A_REVIEW, problem="request.namespace is too long")
    return review.request


def _decided(request: Request, config: Config, env_files: EnvFiles) -> Answer:
    """Decide on a request.

    Raises:
        RefusalError: The Pod or its patch is too large, or its settings cannot work.
    """
    if (request.kind.group, request.kind.kind) == ("", "PodTemplate"):
        return _reviewed(request, Verdict(Reason.POD_TEMPLATE))
    if (request.kind.group, request.kind.kind) != ("", "Pod"):
        raise RefusalError(Reason.NOT_A_POD, kind=repr(request.kind.kind[:80]))
    if request.operation != "CREATE" or request.sub_resource:
        return _reviewed(request, Verdict(Reason.NOT_A_CREATE))
    encoded = bytes(request.object)
    if encoded.count(b",") + encoded.count(b"{") > MAX_VALUES:
        raise RefusalError(
            Reason.POD_TOO_LARGE,
            limit=f"{MAX_VALUES} commas and opening braces, so keep data in a ConfigMap and not in the Pod",
        )
    pod = decode_pod(request.object)
    plan = decide(pod, config, env_files)
    if not isinstance(plan, Plan):
        return _reviewed(request, plan)
    operations = _encode(patch.operations(pod, plan))
    if len(operations) > MAX_PATCH_BYTES:
        raise RefusalError(Reason.PATCH_TOO_LARGE, size=len(operations), limit=MAX_PATCH_BYTES)
    done: JSON = {"patchType": "JSONPatch", "patch": base64.b64encode(operations).decode()}
    if plan.warnings:
        done["warnings"] = list(plan.warnings)
    return _reviewed(request, Verdict(Reason.INJECTED), done, skew=plan.skew)


def _reviewed(
    request: Request,
    verdict: Verdict,
    done: JSON | None = None,
    *,
    failure: Exception | None = None,
    skew: Skew | None = None,
) -> Answer:
    """Return the answer with a verdict; `done` are the fields of its response that change the Pod."""
    reason = verdict.reason
    response: JSON = {"uid": request.uid, "allowed": reason.ruling is not Ruling.REFUSED, **(done or {})}
    if reason.ruling is Ruling.REFUSED:
        response["status"] = {
            "status": "Failure",
            "code": reason.code,
            "reason": _STATUS_REASONS[reason.code],
            "message": verdict.sentence,
        }
    body = _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
    return Answer(200, body, verdict, request.uid, request.kind.kind, request.namespace, failure, skew)


def _problem(error: Exception) -> str:
    """Return what a decoder found wrong, as a clause that names types and paths, never values."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error).rstrip(".")[:300]
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]
