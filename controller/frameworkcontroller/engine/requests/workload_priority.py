"""Finds the priority of a Workload as Kueue and the API server would: from its own class, or from that of its Pods."""

from typing import Final

import msgspec

from frameworkcontroller.api.workload import KUEUE_API, KUEUE_GROUP
from frameworkcontroller.core.effects import CreateWorkload
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path

_API: Final = "scheduling.k8s.io/v1"


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Priority(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Named = _Named()
    value: int = 0
    global_default: bool = False


class _Priorities(msgspec.Struct, frozen=True):
    items: tuple[_Priority, ...] = ()


_PRIORITY: Final = msgspec.json.Decoder(_Priority)
_PRIORITIES: Final = msgspec.json.Decoder(_Priorities)


async def find(client: KubeClient, effect: CreateWorkload) -> tuple[dict[str, str] | None, int]:
    """Return the reference to the class of the Workload's priority, None if there is no class, and its value.

    Raises:
        KubeError: The API server has not answered, or has no class of this name.
        msgspec.DecodeError: Its answer cannot be read.
    """
    if name := effect.workload_priority_class:
        found = await client.get(resource_path(KUEUE_API, "workloadpriorityclasses", name=name))
        reference = {"group": KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": name}
        return reference, _PRIORITY.decode(found).value
    if name := effect.priority_class:
        one = _PRIORITY.decode(await client.get(resource_path(_API, "priorityclasses", name=name)))
    else:
        all_of_them = _PRIORITIES.decode(await client.get(resource_path(_API, "priorityclasses"))).items
        # Of several, as the API server does.
        defaults = sorted((one for one in all_of_them if one.global_default), key=lambda one: one.value)
        if not defaults:
            return None, 0
        one = defaults[0]
    return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": one.metadata.name}, one.value
