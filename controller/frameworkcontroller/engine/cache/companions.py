"""What the controller caches of Kueue, of groups of Pods by scheduler, and of nodes, where it has to know of them.

Nothing else waits for these caches: definitions and permissions may come later than this program, or not at all.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.json import encode
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import GROUP_DECODER, KINDS, PLURAL, Kind, PodGroup
from frameworkcontroller.api.rank_topology import NODES
from frameworkcontroller.api.workload import (
    FLAVOR_DECODER,
    FLAVORS,
    KUEUE,
    KUEUE_API,
    WORKLOAD_DECODER,
    WORKLOADS,
    Workload,
)
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.cache.each import of_each
from frameworkcontroller.engine.cache.nodes import NODE_DECODER, SharedLabels
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.paths import resource_path

UNKNOWN: Final = {
    KUEUE: (
        "Kueue's Workloads or ResourceFlavors are not read yet: is Kueue installed, and may this controller read them?"
    ),
    NODES: "labels of nodes are not read yet: may this controller list and watch nodes?",
}
"""What is said until everything is read, of others than groups."""
GROUPS_UNKNOWN: Final = (
    "PodGroups of {api_version} are not read yet: does the API server serve them, and may this controller read them?"
)
NODES_DISABLED: Final = "labels of nodes are not read, because rankTopology.enabled of the controller is false"
DISABLED: Final = "its Pods are to be in groups of {scheduler}, which gangScheduling.schedulers of the controller lacks"
MAX_TEXT: Final = 1024
"""Characters of what is kept of a group's condition."""
LONGEST_WAIT_SECONDS: Final = 7 * 86_400.0
MAX_SPEC: Final = 8 * 1024
MAX_GIVEN: Final = 64 * 1024
MAX_CONDITIONS: Final = 256 * 1024
"""Bytes of what is read of a Workload, as JSON: of 18 podSets some 3 KiB; Kueue cuts a message at 32 KiB."""


class Companions:
    """The Workloads and groups of each namespace, or of all, all flavors, and the labels of all nodes.

    Args:
        on_change: is told the namespace and the Framework of what has changed, and the name of a group, "" of Kueue.
        on_news: is told when all of Kueue, or of a scheduler, is known, and of each change of a flavor then.
        on_scheduled: is told how long a group has waited for its place, in seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        config: CoreConfig,
        on_change: Callable[[tuple[str, str], str], None],
        on_news: Callable[[], None],
        on_scheduled: Callable[[float], None],
    ) -> None:
        self._on_change, self._on_news, self._on_scheduled = on_change, on_news, on_scheduled
        each: Callable[..., dict[str, Informer[Any]]]
        # Their owners may make them undecodable, and what schedulers say of them then is not known.
        each = functools.partial(of_each, client, namespaces, label_selector=names.FRAMEWORK_NAME, keeps_last=False)
        self._informers: dict[str, dict[str, Informer[Any]]] = {}
        """By scheduler, `KUEUE`, `FLAVORS` or `NODES`, and by namespace; "" for all, and for what is in none."""
        for scheduler in config.group_schedulers:
            kind = KINDS[scheduler]
            keep = functools.partial(_kept, kind)
            self._informers[scheduler] = each(
                kind.api_version, PLURAL, GROUP_DECODER, on_change=self._on_group, keep=keep
            )
        if config.kueue:
            self._informers[KUEUE] = each(
                KUEUE_API, WORKLOADS, WORKLOAD_DECODER, on_change=self._on_workload, keep=_kept_workload
            )
            path = resource_path(KUEUE_API, FLAVORS)
            flavors = Informer(client, path, FLAVOR_DECODER, on_change=self._on_flavor, keep=_slim)
            self._informers[FLAVORS] = {"": flavors}
        if config.rank_topology:
            nodes = Informer(
                client,
                resource_path("v1", NODES),
                NODE_DECODER,
                on_change=lambda _old, _new: None,
                keep=SharedLabels().keep,
                accept=PARTIAL_METADATA,
            )
            self._informers[NODES] = {"": nodes}

    def unknown(self, what: str) -> str:
        """Return why nothing can be said of this, "" if all is known: `KUEUE`, a scheduler's groups, or `NODES`."""
        if what not in self._informers:
            return NODES_DISABLED if what == NODES else DISABLED.format(scheduler=what)
        parts = (KUEUE, FLAVORS) if what == KUEUE else (what,)
        if all(informer.has_synced for part in parts for informer in self._informers[part].values()):
            return ""
        return UNKNOWN.get(what) or GROUPS_UNKNOWN.format(api_version=KINDS[what].api_version)

    def get(self, what: str, namespace: str, name: str) -> Any:
        """Return the object of that name, None without one."""
        informers = self._informers.get(what, {})
        found = informers.get(namespace, informers.get(""))
        return None if found is None else found.get(namespace, name)

    async def run(self) -> None:
        """Fill the caches and keep them current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for what, informers in self._informers.items():
                tasks.create_task(self._run(what, list(informers.values())))

    async def _run(self, what: str, informers: list[Informer[Any]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.synced.wait()
            # Nothing has to wait for nodes.
            if what != NODES and not self.unknown(KUEUE if what == FLAVORS else what):
                self._on_news()

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        for meta in (seen.metadata for seen in (old, new) if seen is not None):
            owner = meta.controller
            # Anybody may give a Workload the label.
            if owner is not None and meta.name == names.workload_name(owner.name, owner.uid):
                self._on_change((meta.namespace, owner.name), "")

    def _on_flavor(self, *_changes: object) -> None:
        if not self.unknown(KUEUE):
            self._on_news()

    def _on_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        waited = None if old is None or new is None or old.seconds is not None else new.seconds
        if waited is not None and 0 <= waited <= LONGEST_WAIT_SECONDS:  # anybody may write a time into a status
            self._on_scheduled(waited)
        # Both: whose it was has to learn that somebody has changed the label. Anybody may give the label to others.
        metas = [seen.metadata for seen in (old, new) if seen is not None]
        for framework in {meta.labels.framework or "" for meta in metas}:
            if metas[0].name.startswith(names.pod_group_prefix(framework)):
                self._on_change((metas[0].namespace, framework), metas[0].name)


def _slim(found: Any) -> Any:
    return replace(found, metadata=found.metadata.slim(frozenset()))


def _kept_workload(found: Workload) -> Workload:
    """Return a Workload, of one that is too large nothing: so it is for no Pods. Anybody may make one."""
    kept: Workload = _slim(found)
    status = found.status
    parts = (found.spec, MAX_SPEC), (replace(status, conditions=()), MAX_GIVEN), (status.conditions, MAX_CONDITIONS)
    return kept if all(len(encode(part)) <= most for part, most in parts) else Workload(metadata=kept.metadata)


def _kept(kind: Kind, found: PodGroup) -> PodGroup:
    said = kind.said(found) if kind.said else None
    kept = () if said is None else (replace(said, reason=said.reason[:MAX_TEXT], message=said.message[:MAX_TEXT]),)
    return replace(
        found, metadata=found.metadata.slim(frozenset()), status=replace(found.status, conditions=kept, phase="")
    )
