"""Finds Pods that carry the label and lack the barrier: created while the webhook configuration was absent or changed.

`commands.audit` calls `findings` with a client. It promises to look at every Pod with the label, page by page, and to
change nothing. `failurePolicy: Fail` should leave no such Pod; an audit verifies that.
Source: docs/reference/injector.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from frameworkinjector import names
from frameworkinjector.review.pod import Named

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from frameworkkube.http.client import KubeClient

PAGE: Final = 500
_LIVING: Final = frozenset({"Pending", "Running"})


@dataclass(frozen=True, slots=True)
class Finding:
    """A Pod that lacks the barrier it asked for.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        phase: Pending or Running.
        created: Its creation time, RFC 3339.
    """

    namespace: str
    name: str
    phase: str
    created: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[Named] = []
    init_containers: list[Named] = []


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _ListMetadata(msgspec.Struct, rename={"continue_": "continue"}):
    continue_: str = ""


class _Page(msgspec.Struct):
    items: list[_Pod] = []
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


async def findings(client: KubeClient, namespace: str | None = None, page: int = PAGE) -> AsyncIterator[Finding]:
    """Find such Pods in one namespace, or in all if it is None.

    Args:
        client: The client of the API server.
        namespace: The namespace to look at.
        page: Pods in one answer of the API server.

    Yields:
        Each Pod in phase Pending or Running that carries the label and lacks the barrier.

    Raises:
        KubeError: The API server refused, or did not answer.
    """
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    query = {"labelSelector": f"{names.LABEL}={names.LABEL_VALUE}", "limit": str(page)}
    decode = msgspec.json.Decoder(_Page).decode
    while True:
        found = decode(await client.get(path, query=query))
        for pod in found.items:
            if _lacks_barrier(pod):
                about = pod.metadata
                yield Finding(about.namespace, about.name, pod.status.phase, about.creation_timestamp)
        if not found.metadata.continue_:
            return
        query["continue"] = found.metadata.continue_


def _lacks_barrier(pod: _Pod) -> bool:
    if pod.status.phase not in _LIVING or pod.metadata.deletion_timestamp:
        return False
    return all(one.name != names.CONTAINER for one in (*pod.spec.containers, *pod.spec.init_containers))
