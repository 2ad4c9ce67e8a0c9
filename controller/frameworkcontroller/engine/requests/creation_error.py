"""The diagnostics of a Pod that the API server refused, in the words of Microsoft's controller.

The performer calls `describe`. That controller prints the error value of the Go client as JSON: a wrapper with the
Status of the answer, whose `metadata` is always written, and whose other fields are in the order of `meta/v1` and left
out where they are empty (docs/reference/framework-api.md, section 5).
"""

from typing import Any, Final

import msgspec

from frameworkkube.errors import ApiStatusError

_METADATA: Final = ("selfLink", "resourceVersion", "continue", "remainingItemCount")
_STATUS: Final = ("status", "message", "reason", "details", "code")
_DETAILS: Final = ("name", "group", "kind", "uid", "causes", "retryAfterSeconds")
_CAUSE: Final = ("reason", "message", "field")
# An admission webhook chooses the texts, and each Task of the Framework stores them.
_MAX_BYTES: Final = 1900
"""With what the core says before and after it, diagnostics stay below 2 KiB."""
_MAX_REASON: Final = 100
"""Characters. Those of Kubernetes are a word; webhooks write sentences there, which the API server repeats as message
if they give no other."""


def describe(error: ApiStatusError) -> str:
    """Return `{"ErrStatus":{"metadata":{},"status":"Failure","message":...,"reason":...,"details":{...},"code":...}}`.

    Where the body of the refusal was no Status, one is made of code, reason and message. Beyond 1,900 bytes it has no
    `details` and `metadata`, and a shorter reason and message.
    """
    status = error.status or {"message": error.message, "reason": error.reason, "code": error.code}
    status = {"status": "Failure"} | status
    details = _given(status.get("details"), _DETAILS)
    if isinstance(causes := details.get("causes"), list):
        details["causes"] = [_given(cause, _CAUSE) for cause in causes]
    whole = _text(status | {"details": details})
    length = _MAX_BYTES
    while len(whole.encode()) > _MAX_BYTES:
        length = length * 3 // 4
        message, reason = error.message[:length], error.reason[:_MAX_REASON]
        whole = _text({"status": "Failure", "message": f"{message}...", "reason": reason, "code": error.code})
    return whole


def _text(status: dict[str, Any]) -> str:
    document = {"metadata": _given(status.get("metadata"), _METADATA)} | _given(status, _STATUS)
    return msgspec.json.encode({"ErrStatus": document}).decode()


def _given(value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the known fields that are not empty, in the order of the keys."""
    return {key: value[key] for key in keys if value.get(key)} if isinstance(value, dict) else {}
