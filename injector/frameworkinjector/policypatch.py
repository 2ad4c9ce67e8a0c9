"""What the policy without a webhook does to a Pod, as operations of a JSON Patch in CEL.

`policy` has the variables that the operations refer to. What is added comes from the modules of the webhook; only what
depends on the Pod is written again, as an expression. A list is written as a whole, with the new entries in place.
Source: docs/reference/injector.md, section 1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from frameworkbarrier.settings import DEFAULT_OUTPUT_DIR, SETTINGS
from frameworkinjector import barrier, names
from frameworkinjector.cel import Cel, written
from frameworkinjector.config import EnvFiles
from frameworkinjector.pod import Pod
from frameworkinjector.policyfaults import setting
from frameworkinjector.reasons import Reason
from frameworkinjector.settings import parse

if TYPE_CHECKING:
    from frameworkinjector.config import Config


def operations(config: Config) -> Cel:
    """Write the operations; none for a Pod that the other policy refuses."""
    sidecar, init = (_container(config, mode) for mode in ("sidecar", "init"))
    operations = [
        _status(config),
        _appended("/spec/volumes", "object.spec.?volumes", written(list(barrier.volumes(parse({}))), 1)),
        _appended(
            "/spec/initContainers",
            "object.spec.?initContainers",
            Cel(f'[variables.mode == "sidecar" ?\n{sidecar} :\n{init}]'),
        ),
        *_pull_secrets(config),
        _environment(),
        _mounts(),
    ]
    return Cel("variables.faults.size() > 0 ? [] :\n" + " +\n".join(operations))


def _appended(path: str, existing: str, values: Cel) -> str:
    return f'[JSONPatch{{op: "add", path: {written(path)}, value: {existing}.orValue([]) + {values}}}]'


def _status(config: Config) -> str:
    def listed(variable: str) -> str:
        return f"""({variable}.size() == 0 ? "[]" : '["' + {variable}.join('","') + '"]')"""

    known = {"reason": Reason.INJECTED.slug, "version": config.version}
    begin = json.dumps(known, separators=(",", ":")).removesuffix("}")
    value = (
        f"""'{begin},"mode":"' + variables.mode + '","env":"' + variables.way + '",'"""
        f""" +\n  '"containers":' + {listed("variables.chosen")} + ',"hosts":' + {listed("variables.hosts")} + '}}'"""
    )
    whole = f"{{{written(names.STATUS)}: {value}}}"
    path = f"/metadata/annotations/{names.STATUS.replace('/', '~1')}"
    return (
        "[has(object.metadata.annotations) ?\n"
        f'JSONPatch{{op: "add", path: "{path}", value: {value}}} :\n'
        f'JSONPatch{{op: "add", path: "/metadata/annotations", value: {whole}}}]'
    )


def _pull_secrets(config: Config) -> list[str]:
    if not config.pull_secrets:
        return []
    own = "object.spec.?imagePullSecrets.orValue([]).exists(own, own.name == name)"
    secrets = written(list(dict.fromkeys(config.pull_secrets)))
    missing = Cel(f'{secrets}.filter(name, !{own}).map(name, {{"name": dyn(name)}})')
    return [_appended("/spec/imagePullSecrets", "object.spec.?imagePullSecrets", missing)]


def _container(config: Config, mode: str) -> Cel:
    """Write the container of the barrier: that of the webhook, with an expression for all that depends on the Pod."""
    found = barrier.container(Pod(), "", parse({f"{names.PREFIX}mode": mode}), config, EnvFiles.QUOTED)
    image, timeout, user = setting("image"), setting("timeout"), "object.spec.?securityContext.?runAsUser.orValue(0)"
    found |= {
        "image": Cel(f'{image} == "" ? {written(config.barrier_image)} : {image}'),
        "env": Cel("variables.identity + variables.options"),
        "resources": {"requests": Cel("variables.resourceRequests"), "limits": Cel("variables.resourceLimits")},
    }
    found["securityContext"]["runAsUser"] = Cel(f"{user} == 0 ? {barrier.DEFAULT_UID} : {user}")
    if "startupProbe" in found:
        # As without an annotation, and what this Pod waits longer.
        least, default = found["startupProbe"]["failureThreshold"], SETTINGS["timeout_sec"].default
        found["startupProbe"]["failureThreshold"] = Cel(
            f'{timeout} == "" ? {least} : int({timeout}) + {least - default}'
        )
    return written(found, 1)


def _environment() -> str:
    """Write the variables of the preset, before the container's own, as in `delivery`."""
    from_file = {
        "name": Cel("name"),
        "valueFrom": {
            "fileKeyRef": {
                "volumeName": names.VOLUME,
                "path": "env",
                "key": Cel("name"),
                "optional": Cel("!(name in variables.presetVariables)"),
            }
        },
    }
    from_source = {
        "name": Cel("name"),
        "valueFrom": Cel(
            '{source.kind: {"name": dyn(source.of), "key": dyn(name.substring(source.prefix.size())), '
            '"optional": dyn(true)}}'
        ),
    }
    marker = {
        "name": names.VARIABLES,
        "value": Cel('one.wanted.filter(name, !one.sources.exists(source, name.startsWith(source.prefix))).join(",")'),
    }
    value = (
        f"one.wanted.map(name, [{written(from_file, 1)}] +\n"
        "  one.sources.filter(source, name.startsWith(source.prefix) && name != source.prefix)\n"
        f"  .map(source, {written(from_source, 1)})).flatten() +\n"
        f"  ({written(names.VARIABLES)} in one.own ? [] : [{written(marker, 1)}]) + one.env"
    )
    return f'(variables.way == "none" ? [] :\n variables.applications.map(one, {_operation("env", value)}))'


def _mounts() -> str:
    ours = {"name": names.VOLUME, "mountPath": DEFAULT_OUTPUT_DIR, "readOnly": True}
    hosts = {"name": names.VOLUME, "mountPath": names.HOSTS_PATH, "subPath": "hosts", "readOnly": True}
    value = f"one.mounts +\n  {written([ours], 1)} + (one.name in variables.hosts ? {written([hosts], 1)} : [])"
    return f"variables.applications.map(one, {_operation('volumeMounts', value)})"


def _operation(field: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: one.path + "/{field}", value: {value}}}'
