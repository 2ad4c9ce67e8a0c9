"""The command `audit`: lists Pods that carry the label and lack the barrier.

They were created while the webhook configuration was absent or changed. `failurePolicy: Fail` should leave no such Pod;
an audit verifies that. It looks at every Pod with the label, page by page, and changes nothing.
Source: docs/reference/injector.md, section 3.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, TextIO

import msgspec

from frameworkinjector import names
from frameworkinjector.review.pod import Named
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.http.pages import objects
from frameworkkube.paths import resource_path

PAGE: Final = 500
_LIVING: Final = frozenset({"Pending", "Running"})


class Finding(msgspec.Struct, frozen=True):
    """A Pod that lacks the barrier it asked for; `created` is its creation time, RFC 3339."""

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


def audit(endpoint: Endpoint, namespace: str | None, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Print the Pods of a namespace, or of all if it is None, that carry the label and lack the barrier.

    Return 0 if there is none, 1 if there is one, 2 if the API server cannot be asked.
    """
    try:
        found = asyncio.run(_all_findings(endpoint, namespace))
    except KubeError as error:
        print(f"frameworkinjector: {error}", file=err)
        return 2
    if as_json:
        out.write(msgspec.json.encode(found).decode() + "\n")
    else:
        rows = [("NAMESPACE", "NAME", "PHASE", "CREATED"), *((f.namespace, f.name, f.phase, f.created) for f in found)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows if found else ():
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=out)
        print(f"{len(found)} Pods carry the label and lack the barrier", file=err)
    return 1 if found else 0


async def _all_findings(endpoint: Endpoint, namespace: str | None) -> list[Finding]:
    client = KubeClient(endpoint, user_agent="frameworkinjector-audit", max_connections=2)
    try:
        return [one async for one in findings(client, namespace)]
    finally:
        await client.close()


async def findings(client: KubeClient, namespace: str | None = None, page: int = PAGE) -> AsyncIterator[Finding]:
    """Yield such Pods in phase Pending or Running; an answer of the API server has at most `page` Pods.

    Raises:
        KubeError: The API server refused, or did not answer.
    """
    path, label = resource_path("v1", "pods", namespace=namespace or None), f"{names.LABEL}={names.LABEL_VALUE}"
    decode = msgspec.json.Decoder(_Pod).decode
    async for document in objects(client, path, label, page_size=page):
        pod = decode(document)
        if _lacks_barrier(pod):
            about = pod.metadata
            yield Finding(about.namespace, about.name, pod.status.phase, about.creation_timestamp)


def _lacks_barrier(pod: _Pod) -> bool:
    if pod.status.phase not in _LIVING or pod.metadata.deletion_timestamp:
        return False
    return all(one.name != names.CONTAINER for one in (*pod.spec.containers, *pod.spec.init_containers))
