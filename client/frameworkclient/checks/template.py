"""Pod templates of roles: unknown fields, and what Kubernetes takes and a Framework cannot work with."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from frameworkclient.checks.problem import Problem, error, unknown, warning
from frameworkcontroller.api import names

MAX_HOSTNAME: Final = 63
_LIST: Final = re.compile(r"[Ll]ist\[(?P<item>\w+)\]")


def problems(role: Mapping[str, Any], framework: str, path: str) -> Iterator[Problem]:
    """Yield what is wrong with the Pod template of a role, which fits the schema of `taskRoles`."""
    pod = role["task"]["pod"]
    where = f"{path}.task.pod"
    yield from unknown_fields(pod, "V1PodTemplateSpec", where)
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        yield error(f"{where}.spec", "is missing" if spec is None else "must be an object")
        return
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        yield error(f"{where}.spec.containers", "must be a list of at least one container")
        return
    for place, one in enumerate(containers):
        for field in ("name", "image"):
            if not isinstance(one, dict) or not one.get(field):
                yield error(f"{where}.spec.containers[{place}].{field}", "is missing")
    if (policy := spec.get("restartPolicy")) in {None, "Always"}:
        said = "is missing, and means Always" if policy is None else "is Always"
        yield warning(
            f"{where}.spec.restartPolicy",
            f"{said}: the kubelet restarts what ends, so the Task never ends; set Never (or OnFailure)",
        )
    number = role.get("taskNumber") or 0
    longest = names.pod_name(framework, role["name"], max(number - 1, 0))
    if number and len(longest) > MAX_HOSTNAME:
        yield warning(
            f"{path}.name",
            f"the Pod {longest} has more than {MAX_HOSTNAME} characters, so its host name is cut; use shorter names",
        )


def unknown_fields(value: Any, kind: str, path: str) -> Iterator[Problem]:
    """Yield the fields that an object of the latest known Kubernetes does not have, by its kind, such as `V1Pod`.

    The controller keeps a template as it came, and the API server drops what it does not know.
    """
    from kubernetes import client

    model = getattr(client, kind)
    if not isinstance(value, dict):
        if value is not None:
            yield error(path, "must be an object")
        return
    types = {model.attribute_map[name]: wanted for name, wanted in model.openapi_types.items()}
    for key, entry in value.items():
        if key not in types:
            found = unknown(path, str(key), types)
            yield warning(found.path, found.text.replace("there is no such field", "no Pod has such a field"))
            continue
        wanted = types[key]
        listed = _LIST.fullmatch(wanted)
        if listed is not None and isinstance(entry, list):
            if hasattr(client, listed["item"]):
                for place, item in enumerate(entry):
                    yield from unknown_fields(item, listed["item"], f"{path}.{key}[{place}]")
        elif listed is not None and entry is not None:
            yield error(f"{path}.{key}", "must be a list")
        elif wanted.startswith("V1") and hasattr(client, wanted):
            yield from unknown_fields(entry, wanted, f"{path}.{key}")
