"""Finds the priority of a Workload as Kueue and the API server would: from its own class, or from that of its Pods."""

from typing import Any, Final

import msgspec

from frameworkcontroller.api.meta import Identity, Wire
from frameworkcontroller.api.workload import KUEUE_API, KUEUE_GROUP
from frameworkkube.http.client import KubeClient
from frameworkkube.paths import resource_path

_API: Final = "scheduling.k8s.io/v1"


class _Priority(Wire, frozen=True):
    metadata: Identity
    value: int = 0
    global_default: bool = False


class _Priorities(Wire, frozen=True):
    items: tuple[_Priority, ...] = ()


async def find(client: KubeClient, workload_class: str, pod_class: str) -> dict[str, Any]:
    """Return the fields of its spec that say the priority: its value, and the reference to its class if there is one.

    Raises:
        KubeError: The API server has not answered, or has no class of this name.
        msgspec.DecodeError: Its answer cannot be read.
    """
    if workload_class or pod_class:
        api, plural = (KUEUE_API, "workloadpriorityclasses") if workload_class else (_API, "priorityclasses")
        found = await client.get(resource_path(api, plural, name=workload_class or pod_class))
        one = msgspec.json.decode(found, type=_Priority)
    else:
        all_of_them = msgspec.json.decode(await client.get(resource_path(_API, "priorityclasses")), type=_Priorities)
        defaults = [one for one in all_of_them.items if one.global_default]
        if not defaults:
            return {"priority": 0}
        # Of several, as the API server does.
        one = min(defaults, key=lambda one: one.value)
    group, kind = (KUEUE_GROUP, "WorkloadPriorityClass") if workload_class else ("scheduling.k8s.io", "PriorityClass")
    return {"priority": one.value, "priorityClassRef": {"group": group, "kind": kind, "name": one.metadata.name}}
