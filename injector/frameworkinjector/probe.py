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
                wait, self.problem = RETRY_SECONDS, str(error)
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
        if _REFERENCE["key"] not in str(_env_of(msgspec.json.decode(answer))):
            return EnvFiles.NONE
        minor = _minor(msgspec.json.decode(await self._client.get("/version")))
        return EnvFiles.QUOTED if minor >= FIRST_QUOTED_MINOR else EnvFiles.PLAIN


def _env_of(template: dict[str, Any]) -> Any:
    return template["template"]["spec"]["containers"][0].get("env", [{}])[0].get("valueFrom", {}).get("fileKeyRef")


def _minor(version: dict[str, Any]) -> int:
    """The minor version; managed clusters write it as ``35+``."""
    digits = "".join(one for one in str(version.get("minor", "")) if one.isdigit())
    return int(digits) if digits else 0
