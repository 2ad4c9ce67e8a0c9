"""What the controller caches: Frameworks, the ConfigMaps of their attempts, and their Pods.

The promise: a listener's method is called after the cache shows the change, in the order of changes per object, and it
must return quickly, because one loop reads all watches.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.pod import POD_DECODER, Pod
from frameworkcontroller.api.pod_group import PodGroup
from frameworkcontroller.api.rank_topology import NODES
from frameworkcontroller.api.workload import FLAVORS, KUEUE, Flavor, Workload
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.cache.companions import Companions
from frameworkcontroller.engine.cache.each import config_maps_of_each, of_each
from frameworkcontroller.engine.cache.slim_pods import SlimPods
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.watch_events import UndecodableObject

FrameworkKey: TypeAlias = tuple[str, str]
"""Namespace and name of a Framework."""


class Listener(Protocol):
    """What the engine does about changes."""

    def on_framework(self, key: FrameworkKey) -> None:
        """Handle a new or changed Framework."""

    def keep_framework(self, found: Framework) -> Framework:
        """Return what the cache keeps of a Framework, with the same identity."""

    def on_framework_gone(self, last: Framework) -> None:
        """Handle the deletion of a Framework, with its last state as that was watched; otherwise, as it was kept."""

    def on_undecodable_framework(self, found: UndecodableObject) -> None:
        """Handle a Framework that cannot be read; the caches have its last state that could, or nothing."""

    def on_config_map(self, key: FrameworkKey) -> None:
        """Handle any change of the ConfigMap that has the name of this Framework's."""

    def on_companion(self, key: FrameworkKey, group: str) -> None:
        """Handle any change of a Workload that names this Framework, or of the group of Pods of this name."""

    def on_news(self) -> None:
        """Handle that all of Kueue, or all groups of a scheduler, are known now, or that a flavor has changed."""

    def on_pod(self, key: FrameworkKey, name: str) -> None:
        """Handle any change of the Pod `name`, which is that of a Task of this Framework, or looks like one."""

    def on_pod_gone(self, document: bytes) -> None:
        """Handle the deletion of a Pod; this is what is known of its last state, as JSON."""


class CacheView:
    """One Framework as the caches show it: the `View` of the reconciler."""

    def __init__(self, caches: "Caches", where: str, framework: Framework) -> None:
        self.framework, self._namespace = framework, framework.metadata.namespace
        self._config_maps, self._pods = caches.config_maps[where], caches.pods[where]
        self._companions = caches.companions

    def config_map(self) -> Partial | None:
        """Return the ConfigMap that has the name of the Framework's."""
        return self._config_maps.get(self._namespace, names.config_map_name(self.framework.metadata.name))

    def pod(self, name: str) -> Pod | None:
        """Return the Pod of that name in the Framework's namespace."""
        return self._pods.get(self._namespace, name)

    def unknown(self, what: str) -> str:
        """Return why nothing is known of this, "" if it is: `KUEUE`, a scheduler's groups, or `NODES`."""
        return self._companions.unknown(what)

    def workload(self, name: str) -> Workload | None:
        """Return the Workload of that name in the Framework's namespace."""
        found: Workload | None = self._companions.get(KUEUE, self._namespace, name)
        return found

    def flavor(self, name: str) -> Flavor | None:
        """Return the ResourceFlavor of that name."""
        found: Flavor | None = self._companions.get(FLAVORS, "", name)
        return found

    def group(self, scheduler: str, name: str) -> PodGroup | None:
        """Return the group of that name in the Framework's namespace."""
        found: PodGroup | None = self._companions.get(scheduler, self._namespace, name)
        return found

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the node of that name, None if they are not known."""
        found = self._companions.get(NODES, "", name)
        return None if found is None else found.metadata.labels


class Caches:
    """Three informers of each namespace, or of all, and the translation of their changes into the engine's terms.

    Without names of namespaces they are those of all. What is known of Kueue, groups and nodes is beside them
    (`Companions`); `on_scheduled` is told how long each group has waited for its place, in seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        listener: Listener,
        config: CoreConfig,
        on_scheduled: Callable[[float], None],
    ) -> None:
        self.companions = Companions(client, namespaces, config, listener.on_companion, listener.on_news, on_scheduled)
        self._listener, self._namespaces = listener, namespaces
        self._slim_pods = SlimPods()
        self._frameworks = of_each(
            client,
            namespaces,
            names.API_VERSION,
            names.PLURAL,
            FRAMEWORK_DECODER,
            on_change=self._on_framework,
            keep=listener.keep_framework,
            on_deleted=self._on_framework_gone,
            on_undecodable=listener.on_undecodable_framework,
        )
        self.config_maps = config_maps_of_each(client, namespaces, names.FRAMEWORK_NAME, self._on_config_map)
        self.pods = of_each(
            client,
            namespaces,
            "v1",
            "pods",
            POD_DECODER,
            on_change=self._on_pod,
            keep=self._slim_pods,
            on_deleted=self._on_pod_gone,
            label_selector=f"{names.FRAMEWORK_NAME},!{names.RETAINED_LABEL}",
        )
        self._informers: dict[str, list[Informer[Any]]] = {
            "frameworks": list(self._frameworks.values()),
            "configmaps": list(self.config_maps.values()),
            "pods": list(self.pods.values()),
        }

    @property
    def has_synced(self) -> bool:
        """Whether all caches have been filled once."""
        return all(informer.has_synced for informer in self._all())

    @property
    def sizes(self) -> dict[str, int]:
        """How many Frameworks and Pods are cached."""
        return {resource: sum(map(len, self._informers[resource])) for resource in ("frameworks", "pods")}

    @property
    def undecodable(self) -> dict[str, int]:
        """How many objects of which resource exist and cannot be read."""
        return {resource: sum(len(one.undecodable) for one in found) for resource, found in self._informers.items()}

    async def run(self) -> None:
        """Fill the caches and keep them current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all():
                group.create_task(informer.run())
            group.create_task(self.companions.run())

    async def synced(self) -> None:
        """Wait until all caches have been filled once."""
        for informer in self._all():
            await informer.synced.wait()
        self._slim_pods.keeps_times = False

    def view(self, key: FrameworkKey) -> CacheView | None:
        """Return the Framework as the caches show it, None if it is not there."""
        where = self._where(key[0])
        framework = self._frameworks[where].get(*key)
        return None if framework is None else CacheView(self, where, framework)

    def keep(self, same: Framework) -> None:
        """Keep another form of a Framework, unless the caches have another state of it."""
        self._frameworks[self._where(same.metadata.namespace)].replace(same)

    def _where(self, namespace: str) -> str:
        return namespace if self._namespaces else ""

    def _all(self) -> Iterator[Informer[Any]]:
        return chain.from_iterable(self._informers.values())

    def _on_framework(self, _old: Framework | None, new: Framework | None) -> None:
        if new is not None:
            self._listener.on_framework((new.metadata.namespace, new.metadata.name))

    def _on_framework_gone(self, kept: Framework, watched: bytes | None) -> None:
        self._listener.on_framework_gone(kept if watched is None else FRAMEWORK_DECODER.decode(watched))

    def _on_config_map(self, old: Partial | None, new: Partial | None) -> None:
        seen = new or old
        assert seen is not None
        # By its name, as the view finds it: anybody may give it the label of another Framework.
        framework = seen.metadata.name.removesuffix(names.config_map_name(""))
        if seen.metadata.name == names.config_map_name(framework):
            self._listener.on_config_map((seen.metadata.namespace, framework))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        seen = new or old
        assert seen is not None
        if old is not None and new is not None and _says_the_same(old, new):
            return
        if new is None:
            self._slim_pods.forget(seen)
        # By its name, as above: a Task waits until a Pod of others that has it is gone.
        framework = seen.metadata.name.rsplit("-", 2)[0]
        self._listener.on_pod((seen.metadata.namespace, framework), seen.metadata.name)

    def _on_pod_gone(self, kept: Pod, watched: bytes | None) -> None:
        self._listener.on_pod_gone(msgspec.json.encode(kept) if watched is None else watched)


def _says_the_same(old: Pod, new: Pod) -> bool:
    """Report whether nothing has changed that is kept: who patches a Pod all the time wakes nobody."""
    metadata = replace(old.metadata, resource_version=new.metadata.resource_version)
    return metadata == new.metadata and old.status == new.status and old.spec == new.spec
