"""What the controller needs of the API server's Frameworks, and the wait for it at the start.

The API server's discovery says what it serves: every authenticated client may read it, also one whose permissions end
at its namespace, and it speaks of what is served now and not of what somebody has declared.
"""

import asyncio

import msgspec
import structlog

from frameworkcontroller.api import names
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient

_log = structlog.get_logger(__name__)


class NotServedError(Exception):
    """The API server does not serve Frameworks as this controller needs them."""


class _Resource(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


def what_is_missing(discovery: bytes) -> str:
    """Return what is missing in the API server's discovery of the group of Frameworks, "" if nothing is.

    Raises:
        msgspec.DecodeError: the answer is something else.
    """
    served = {resource.name: resource for resource in msgspec.json.decode(discovery, type=_ResourceList).resources}
    frameworks = served.get(names.PLURAL)
    status = served.get(f"{names.PLURAL}/status")
    if frameworks is None or frameworks.kind != names.KIND or not frameworks.namespaced:
        return f"{names.API_VERSION} has no namespaced resource {names.PLURAL} of kind {names.KIND}"
    if status is None or "update" not in status.verbs:
        return (
            f"the definition {names.CRD_NAME} has no status subresource, without which no status can be written (the "
            "one that Microsoft's controller installs has none)"
        )
    return ""


async def wait_until_served(client: KubeClient, *, every: float, within: float) -> None:
    """Ask every so many seconds until the API server serves Frameworks with everything that this controller needs.

    After `within` seconds it gives up, even in the middle of a request.

    Raises:
        NotServedError: the time is up; the message says what the last attempt met with, and what to do.
    """
    why = ""
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    found = what_is_missing(await client.get(names.DISCOVERY_PATH))
                except (KubeError, msgspec.DecodeError) as error:
                    # Every error: NotFoundError and ForbiddenError pass too, once the manifests are applied.
                    found = str(error)
                if not found:
                    return
                if found != why:
                    why = found
                    _log.warning("Frameworks are not served yet; is this version's CRD applied?", error=why)
                await asyncio.sleep(every)
    except TimeoutError:
        last = why or "no answer"
        reason = f"Frameworks are not served as needed after {within:g} s: {last}; apply this version's CRD"
        raise NotServedError(reason) from None
