"""What the injector and the barrier will say of a Framework's roles, by asking their own rules.

The webhook's decision is that of `frameworkinjector` with its default settings. What a preset makes of the roles is
rendered by `frameworkbarrier` for a gang with made-up addresses: its refusals are the ones that the Pods would give.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.render import render
from frameworkbarrier.gate.gang import Gang, Task, assemble
from frameworkbarrier.gate.gate import Released
from frameworkbarrier.presets.model import in_order, load
from frameworkbarrier.settings import Settings
from frameworkclient.checks.problem import Problem, error, warning
from frameworkcontroller.api import names
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.core.pods.facts import facts_of
from frameworkinjector import names as injector
from frameworkinjector.offline.documents import RenderError
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.reasons import RefusalError
from frameworkinjector.review.settings import parse

PRESETS: Final = in_order()
"""The presets of this version, in the order in which a person reads them."""
_PYTHON: Final = re.compile(r"(.*/)?python[0-9.]*")
_LAUNCHER: Final = re.compile(r"torchrun|torch\.distributed|accelerate|deepspeed|mpirun|horovodrun")
# In a cluster that can do what the injector may ask of it.
_INJECTOR: Final = Config(version="", in_place_restart=True)
_UID: Final = "00000000-0000-0000-0000-000000000000"


def problems(manifest: Mapping[str, Any], spec: FrameworkSpec, roles: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield what the barrier or its injection would refuse of the roles of a Framework whose templates are Pods."""
    facts = facts_of(spec)
    if problem := facts.restart_problem:
        yield error("spec.taskRoles", problem)
    refused = ""
    gpus = facts.gpus
    gang = made_up_gang(manifest, gpus)
    for role in roles:
        path = f"spec.taskRoles[{role['name']}].task.pod.metadata"
        metadata = role["task"]["pod"].get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        asked = {key for key in annotations if str(key).startswith(injector.PREFIX) and key != injector.STATUS}
        if (metadata.get("labels") or {}).get(names.BARRIER_LABEL) != "enabled":
            if asked:
                yield warning(f"{path}.labels", f"has no {names.BARRIER_LABEL}: enabled, so {min(asked)} does nothing")
            continue
        try:
            settings = parse({str(key): str(value) for key, value in annotations.items()})
            rendered({**manifest, "spec": {"taskRoles": [role]}}, _INJECTOR, EnvFiles.QUOTED)
        except (RefusalError, RenderError) as refusal:
            yield error(f"{path}.annotations", str(refusal))
            refused += str(refusal)
            continue
        yield from _processes(role, gpus.get(role["name"], 0), settings.barrier, path.removesuffix(".metadata"))
        if not role.get("taskNumber"):
            continue
        try:
            found = next(one for one in gang.roles if one.name == role["name"])
            released = Released(gang, "{}", role=found, task=found.tasks[0])
            for text in render(released, settings.barrier, Container()).warnings:
                yield warning(f"{path}.annotations", text)
        except SettingsError as refusal:
            yield error(f"{path}.annotations", str(refusal))
    # The refusal of a bad value has said it.
    if facts.rank_problem and names.RANK_TOPOLOGY_ANNOTATION not in refused:
        yield error("spec.taskRoles", facts.rank_problem)


def _processes(role: Mapping[str, Any], gpus: int, settings: Settings, path: str) -> Iterator[Problem]:
    """Yield that the processes of a Pod are not as many as its GPUs, where a library counts processes."""
    counting = [name for name in settings.presets if "WORLD_SIZE" in load(name).variables]
    if not counting or gpus < 2:
        return
    if settings.nproc_per_node.isdecimal() and int(settings.nproc_per_node) != gpus:
        text = f"nproc-per-node is {settings.nproc_per_node}, and each Pod asks for {gpus} GPUs; leave it out"
        yield warning(f"{path}.metadata.annotations", text)
    for place, container in enumerate(role["task"]["pod"]["spec"]["containers"]):
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        if words and _PYTHON.fullmatch(words[0]) and not any(_LAUNCHER.search(word) for word in words):
            yield warning(
                f"{path}.spec.containers[{place}].command",
                f"{words[0]} starts one process for {gpus} GPUs; use torchrun or another launcher of preset "
                f"{counting[0]}, unless the program starts the others itself",
            )


def made_up_gang(manifest: Mapping[str, Any], gpus: Mapping[str, int]) -> Gang:
    """Return the gang of a Framework with addresses that no Pod has: 192.0.2.1 and so on, or from 198.18.0.1 on."""
    name = str(manifest["metadata"]["name"])
    numbers = [(role["name"], role.get("taskNumber") or 0) for role in manifest["spec"].get("taskRoles") or ()]
    *starts, total = accumulate((number for _, number in numbers), initial=0)
    first = dict(zip((role for role, _ in numbers), starts, strict=True))

    def find(role: str, index: int) -> Task:
        place = first[role] + index
        ip = f"192.0.2.{place + 1}" if total < 255 else f"198.18.{place // 250}.{place % 250 + 1}"
        return Task(index, ip, _UID[:8], 0, "node", "203.0.113.1", names.pod_name(name, role, index))

    namespace = str(manifest["metadata"].get("namespace") or "default")
    uid = f"0_{_UID}"
    return assemble(Gang(namespace, name, attempt_instance_uid=uid), numbers, find, gpus)
