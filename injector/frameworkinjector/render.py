"""What would be injected, without a cluster: a Pod or anything with a Pod template in, the same injected out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from frameworkinjector import patch
from frameworkinjector.errors import InjectorError
from frameworkinjector.plan import Plan, decide
from frameworkinjector.pod import decode_pod
from frameworkinjector.reasons import Reason, verdict

if TYPE_CHECKING:
    from frameworkinjector.barrier import JSON
    from frameworkinjector.config import Config, EnvFiles
    from frameworkinjector.reasons import Verdict

_DEFAULT_NAMESPACE: Final = "default"


class RenderError(InjectorError):
    """The document holds no Pod."""


def rendered(document: JSON, config: Config, env_files: EnvFiles) -> tuple[JSON, Verdict, tuple[str, ...]]:
    """A copy of the document with its Pod injected (or as it was), what came of it, and warnings for its user.

    Raises:
        RefusalError: The Pod would be refused.
        RenderError: There is no Pod in the document, or none that can be understood.
    """
    result = copy.deepcopy(document)
    found = _pod_in(result)
    try:
        pod = decode_pod(msgspec.json.encode(found))
    except (msgspec.DecodeError, RecursionError) as error:
        raise RenderError(f"the Pod cannot be understood: {error}") from error
    namespace = (document.get("metadata") or {}).get("namespace") or _DEFAULT_NAMESPACE
    plan = decide(pod, namespace, config, env_files)
    if not isinstance(plan, Plan):
        return result, plan, ()
    for operation in patch.operations(pod, plan):
        _apply(found, operation)
    return result, verdict(Reason.INJECTED), plan.warnings


def _pod_in(document: Any) -> JSON:
    if not isinstance(document, dict):
        raise RenderError("the document is no object of Kubernetes")
    spec = document.get("spec")
    for candidate in (document, document.get("template"), spec.get("template") if isinstance(spec, dict) else None):
        if (
            isinstance(candidate, dict)
            and isinstance(candidate.get("spec"), dict)
            and "containers" in candidate["spec"]
        ):
            # A template may have no metadata; the patch counts on it, as every Pod has some.
            candidate.setdefault("metadata", {})
            return candidate
    kind = document.get("kind", "document without a kind")
    raise RenderError(f"{kind} holds no Pod: neither spec.containers nor spec.template.spec.containers is there")


def _apply(document: JSON, operation: JSON) -> None:
    """Applies one operation of our own patches: ``add`` and ``replace`` at paths that exist."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    target: Any = document
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if isinstance(target, list):
        target.insert(len(target) if last == "-" else int(last), operation["value"])
    else:
        target[last] = operation["value"]
