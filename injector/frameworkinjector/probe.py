"""Asks the API server whether it takes ``fileKeyRef``: the field may be in its types and still be off by a gate.

The question is a dry-run create of a PodTemplate, not of a Pod. Both go through the same validation of Pod specs, but
nothing ever runs a PodTemplate, so the right to create one gives nobody anything. The right to create Pods, dry run or
not (RBAC does not tell them apart), would give a stolen token every service account of the namespace.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from frameworkcontroller.cluster.errors import Invalid, KubeError
from frameworkinjector.config import EnvFiles

if TYPE_CHECKING:
    from frameworkcontroller.cluster.rest import KubeClient

EVERY_SECONDS: Final = 3600.0
RETRY_SECONDS: Final = 2.0
# Syntax of the file: see EnvFiles.
FIRST_QUOTED_MINOR: Final = 35
_log = structlog.get_logger(__name__)

_REFERENCE: Final = {"volumeName": "probe", "path": "env", "key": "NAME"}
_TEMPLATE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": {"generateName": "frameworkinjector-probe-"},
    "template": {
        "spec": {
            "containers": [
                {
                    "name": "probe",
                    "image": "probe",
                    "env": [{"name": "NAME", "valueFrom": {"fileKeyRef": _REFERENCE}}],
                }
            ],
            "volumes": [{"name": "probe", "emptyDir": {}}],
        }
    },
}


class Probe:
    """Knows, once it was told, whether and in which syntax the cluster takes ``fileKeyRef``."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.env_files: EnvFiles | None = None
        self.problem: str | None = "not asked yet"

    async def run(self) -> None:
        """Asks at once and then hourly, until cancelled; the last answer stands while the next cannot be had."""
        while True:
            wait = EVERY_SECONDS
            try:
                found = await self.ask()
            except KubeError as error:
                if str(error) != self.problem:
                    _log.warning("support for fileKeyRef not known", problem=str(error))
                # Once there is an answer, it stands; there is no hurry to hear it again.
                wait = RETRY_SECONDS if self.env_files is None else RETRY_SECONDS * 30
                self.problem = str(error)
            else:
                if found is not self.env_files:
                    _log.info("support for fileKeyRef", found=found.value)
                self.env_files, self.problem = found, None
            await asyncio.sleep(wait)

    async def ask(self) -> EnvFiles:
        """Asks once.

        Raises:
            KubeError: No answer, or another than yes or no.
        """
        path = f"/api/v1/namespaces/{self._namespace}/podtemplates"
        try:
            answer = await self._client.request(
                "POST", path, query={"dryRun": "All"}, body=msgspec.json.encode(_TEMPLATE)
            )
        except Invalid:
            # Gate off: the field is dropped, and a valueFrom without a source is no valid Pod.
            return EnvFiles.NONE
        if _reference_in(msgspec.json.decode(answer)) != _REFERENCE:
            # A server that drops what it does not know, without a word.
            return EnvFiles.NONE
        return syntax_of(msgspec.json.decode(await self._client.get("/version")))


def syntax_of(version: dict[str, Any]) -> EnvFiles:
    """The syntax that the nodes of a server of this ``/version`` read; managed clusters write the minor as ``35+``."""
    digits = "".join(one for one in str(version.get("minor", "")) if one.isdigit())
    return EnvFiles.QUOTED if int(digits or FIRST_QUOTED_MINOR) >= FIRST_QUOTED_MINOR else EnvFiles.PLAIN


def _reference_in(template: dict[str, Any]) -> dict[str, Any] | None:
    (variable,) = template["template"]["spec"]["containers"][0]["env"]
    found: dict[str, Any] | None = variable.get("valueFrom", {}).get("fileKeyRef")
    # The server adds the default of "optional".
    return None if found is None else {key: found[key] for key in _REFERENCE if key in found}
