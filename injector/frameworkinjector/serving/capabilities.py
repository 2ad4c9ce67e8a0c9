"""Asks the API server what it supports: a field may be in its types while a feature gate is off.

The questions are about `fileKeyRef` and about the action `RestartAllContainers` of `restartPolicyRules`. `run` starts
`Capabilities.run` unless the command line gives the answers, and passes them to each review.
It promises an answer as soon as the API server gives one, a new one every hour, and no request inside a review.

A question is a dry-run create of a PodTemplate, not of a Pod. Both pass the same validation of Pod specs, but nothing
runs a PodTemplate, so permission to create one gives an attacker nothing. Permission to create Pods, dry run or not
(RBAC does not distinguish the two), would give the holder of a stolen token every service account of the namespace.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from frameworkinjector.readiness import PartStatus
from frameworkinjector.review import sidecar
from frameworkinjector.review.config import EnvFiles
from frameworkkube.errors import InvalidError, KubeError, causes_of
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path

EVERY_SECONDS: Final = 3600.0
# After a failure, before the first answer: the replica is not ready without one.
RETRY_SECONDS: Final = 2.0
# After a failure, once there is an answer, which stays valid meanwhile.
RETRY_KNOWN_SECONDS: Final = 60.0
# From this minor version on, nodes read only the quoted syntax: see `EnvFiles`.
FIRST_QUOTED_MINOR: Final = 35
_log = structlog.get_logger(__name__)


class Capabilities:
    """Knows what the cluster supports, once the API server has answered; before, `env_files` is None.

    In `namespace` the injector may create PodTemplates.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.env_files: EnvFiles | None = None
        self.in_place_restart = False
        self.status = PartStatus("not asked yet")

    async def run(self) -> None:
        """Ask at once and then hourly until cancelled; the last answer stays valid while a question fails."""
        while True:
            try:
                env_files, in_place_restart = await self.ask(), await self.ask_in_place_restart()
            except (KubeError, msgspec.DecodeError) as error:
                pause = RETRY_SECONDS if self.env_files is None else RETRY_KNOWN_SECONDS
                if self.status.failed(str(error)):
                    _log.warning("what the cluster supports is unknown", problem=str(error))
            else:
                pause = EVERY_SECONDS
                if env_files is not self.env_files:
                    _log.info("support for fileKeyRef found", env_files=env_files.value)
                if in_place_restart is not self.in_place_restart:
                    _log.info("support for in-place restart found", in_place_restart=in_place_restart)
                self.env_files, self.in_place_restart = env_files, in_place_restart
                self.status.succeeded()
            await asyncio.sleep(pause)

    async def ask(self) -> EnvFiles:
        """Ask once about `fileKeyRef`.

        Raises:
            KubeError: There is no answer, or one that is neither yes nor no.
            msgspec.DecodeError: The answer is no JSON, such as the page of a proxy.
        """
        asked = {"volumeName": "probe", "path": "env", "key": "NAME"}
        # Gate off: the server drops the field, and a valueFrom without a source is invalid.
        container = await self._created({"env": [{"name": "NAME", "valueFrom": {"fileKeyRef": asked}}]})
        if container is None:
            return EnvFiles.NONE
        stored = _named("NAME", container.get("env")).get("valueFrom", {}).get("fileKeyRef") or {}
        # One server drops an unknown field silently, another adds the default of `optional`.
        if not asked.items() <= stored.items():
            return EnvFiles.NONE
        return syntax_of(msgspec.json.decode(await self._client.get("/version")))

    async def ask_in_place_restart(self) -> bool:
        """Ask once about in-place restart.

        Raises:
            KubeError: There is no answer, or one that is neither yes nor no.
            msgspec.DecodeError: The answer is no JSON, such as the page of a proxy.
        """
        rules = list(sidecar.BARRIER_RULES)
        container = await self._created({"restartPolicy": sidecar.NEVER, "restartPolicyRules": rules})
        return container is not None and container.get("restartPolicyRules") == rules

    async def _created(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Return a container with these fields as the API server would store it, None if it is invalid."""
        path = resource_path("v1", "podtemplates", namespace=self._namespace)
        containers = [{"name": "probe", "image": "probe", **fields}]
        template = {"spec": {"containers": containers, "volumes": [{"name": "probe", "emptyDir": {}}]}}
        metadata = {"generateName": "frameworkinjector-probe-"}
        body = msgspec.json.encode(
            {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}
        )
        try:
            answer = await self._client.request("POST", path, query={"dryRun": "All"}, body=body)
        except InvalidError as error:
            # An admission policy refuses with the same code, and names no field.
            if not any(str(cause.get("field")).startswith("template.spec.containers") for cause in causes_of(error)):
                raise
            return None
        return _named("probe", msgspec.json.decode(answer)["template"]["spec"]["containers"])


def _named(name: str, found: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the one of this name: a webhook may have added others."""
    return next((one for one in found or () if one["name"] == name), {})


def syntax_of(version: dict[str, Any]) -> EnvFiles:
    """Return the syntax that nodes of this `/version` read; managed clusters write the minor version as `35+`."""
    digits = "".join(one for one in str(version.get("minor", "")) if one.isdigit())
    return EnvFiles.QUOTED if int(digits or FIRST_QUOTED_MINOR) >= FIRST_QUOTED_MINOR else EnvFiles.PLAIN
