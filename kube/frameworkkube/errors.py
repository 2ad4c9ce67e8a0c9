"""What can go wrong between this process and an API server, as one tree by meaning.

Everything that `KubeClient` raises derives from `KubeError`. Callers catch the meaning ("not found", "the answer was
lost"), never a status code or an exception of the HTTP library.
"""

from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

_MAX_RETRY_AFTER_SECONDS = 300.0
"""A broken proxy must not stop a controller for a day."""
_EXCERPT_CHARACTERS = 300
_WEBHOOK: Final = "admission webhook "


class KubeError(Exception):
    """Base of everything that the package `frameworkkube` raises."""


class CredentialsError(KubeError):
    """No usable address, certificate or token; the message names the file, variable or field."""


class EtcdRestoredError(KubeError):
    """The API server's versions went back, so what is cached may never have happened; a program must start again."""


class TransportError(KubeError):
    """No answer: connection refused or reset, TLS, DNS, or an answer that broke off.

    A write may or may not have happened.
    """


class RequestTimeoutError(KubeError):
    """No complete answer within the time allowed. A write may or may not have happened."""


class InactivityTimeoutError(RequestTimeoutError):
    """An open watch was silent for longer than the interval of the server's bookmarks allows."""


class AnswerTooLargeError(KubeError):
    """The answer has more bytes than the caller wants; the rest was not read."""


class NotSentError(KubeError):
    """The write was held back at the last moment, because this process may not write any more. Nothing happened."""


class ApiStatusError(KubeError):
    """The server refused: its answer has a status code that is not 2xx.

    Attributes:
        code: HTTP status code.
        reason: machine-readable reason of the Status object (`AlreadyExists`), or the phrase of HTTP without one.
        message: one sentence for people.
        status: the Status object as decoded JSON; empty if the body was something else (a proxy's HTML page).
        retry_after_seconds: the pause that was asked for, or None.
        by_webhook: whether an admission webhook has refused, which may give any code and reason.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        status: dict[str, Any] | None = None,
        retry_after_seconds: float | None = None,
        by_webhook: bool = False,
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.status = status or {}
        self.retry_after_seconds = retry_after_seconds
        self.by_webhook = by_webhook


class UnauthorizedError(ApiStatusError):
    """401 after the token was read again."""


class ForbiddenError(ApiStatusError):
    """403: RBAC, quota or an admission plugin; the message says which."""


class NotFoundError(ApiStatusError):
    """404."""


class ConflictError(ApiStatusError):
    """409 because of a resourceVersion or UID precondition: read and decide again."""


class AlreadyExistsError(ApiStatusError):
    """409 on a create: an object of that name exists."""


class GoneError(ApiStatusError):
    """410, or a Status of reason Expired: the resourceVersion or continue token is too old; list again."""


class InvalidError(ApiStatusError):
    """422: the server will not accept this object however often it is sent."""


class TooManyRequestsError(ApiStatusError):
    """429, or not sent at all because a pause that the server asked for has not passed: nothing has happened there."""


class ServerError(ApiStatusError):
    """5xx."""


_BY_REASON: dict[str, type[ApiStatusError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "Gone": GoneError,
}
_BY_CODE: dict[int, type[ApiStatusError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_of(code: int, phrase: str | None, retry_after: str | None, body: bytes, *, now: float) -> ApiStatusError:
    """Translate an answer whose status code is not 2xx, and whose body is a Status as JSON, or anything at all.

    Without a Status the phrase of HTTP is used. `retry_after` is the header, seconds or an HTTP date; `now` is the Unix
    time by which a date is read.
    """
    status = _status_of(body)
    details = status.get("details")
    pause = _pause_of(retry_after, now)
    if pause is None and isinstance(details, dict):
        pause = _bounded(details.get("retryAfterSeconds"))
    reason = str(status.get("reason") or phrase or "Unknown")
    message = str(status.get("message") or _excerpt(body) or "no message")
    # Of a Status that was too long to be read, the message is how it begins.
    by_webhook = message.startswith(_WEBHOOK) if status else _WEBHOOK in message
    of_this_kind = _class_of_webhook(code) if by_webhook else _class_of(code, reason)
    return of_this_kind(code, reason, message, status=status, retry_after_seconds=pause, by_webhook=by_webhook)


def error_of_status(status: dict[str, Any]) -> ApiStatusError:
    """Translate a Status object that came inside a stream (an ERROR event)."""
    code = status.get("code")
    return error_of(code if isinstance(code, int) else 500, None, None, msgspec.json.encode(status), now=0.0)


def causes_of(error: KubeError) -> list[dict[str, Any]]:
    """Return the causes that a Status names, such as invalid fields; none if it has no such list."""
    details = error.status.get("details") if isinstance(error, ApiStatusError) else None
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def is_unknown_version(error: KubeError) -> bool:
    """Report whether the server has no such version: only newer ones, or, restored from a backup, only older ones."""
    too_large = any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes_of(error))
    return isinstance(error, GoneError) or too_large


def _class_of(code: int, reason: str) -> type[ApiStatusError]:
    return _BY_REASON.get(reason) or (ServerError if code >= 500 else _BY_CODE.get(code, ApiStatusError))


def _class_of_webhook(code: int) -> type[ApiStatusError]:
    """Return no class that says something of the object: many a webhook passes on what its own requests have met."""
    return ApiStatusError if code in {401, 404, 409, 410, 422} else _class_of(code, "")


_LONG_BYTES: Final = 16 * 1024


class _Delay(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0


class _Brief(msgspec.Struct, omit_defaults=True):
    """What is read of a long Status: thousands of causes, each a field of an object, say no more than the first."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Delay = msgspec.field(default_factory=_Delay)


def _status_of(body: bytes) -> dict[str, Any]:
    try:
        if len(body) > _LONG_BYTES:
            brief = msgspec.json.decode(body, type=_Brief)
            message, reason = brief.message[:_LONG_BYTES], brief.reason[:_EXCERPT_CHARACTERS]
            value = msgspec.to_builtins(msgspec.structs.replace(brief, message=message, reason=reason))
        else:
            value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    # Kubelets and aggregated servers answer with other objects too; only a Status is used.
    return value if isinstance(value, dict) and value.get("kind") == "Status" else {}


def _excerpt(body: bytes) -> str:
    return " ".join(body[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace").split())[:_EXCERPT_CHARACTERS]


def _pause_of(header: str | None, now: float) -> float | None:
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return _bounded(int(text[:9]))
    try:
        return _bounded(parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _bounded(seconds: object) -> float | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    # details.retryAfterSeconds is 0 when the server names no pause (omitempty on its side, but proxies write it).
    return float(min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS))
