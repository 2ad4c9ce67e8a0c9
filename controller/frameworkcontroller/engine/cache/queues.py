"""What the controller caches of Kueue, where it queues Frameworks: their Workloads, and the flavors of resources.

Nothing else waits for these caches: Kueue's definitions may come later than this program, or not at all.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.workload import (
    FLAVOR_DECODER,
    FLAVORS,
    KUEUE_API,
    WORKLOAD_DECODER,
    WORKLOADS,
    Flavor,
    Workload,
)
from frameworkcontroller.engine.cache.each import of_each
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.paths import resource_path

UNKNOWN: Final = (
    "Kueue's Workloads or ResourceFlavors are not read yet: is Kueue installed, and may this controller read them?"
)


class Queues:
    """The Workloads of each namespace, or of all, and all flavors.

    Args:
        on_workload: is told the namespace of a Workload that has changed, and the Framework that owns it.
        on_news: is told when everything is known, and of each change of a flavor then.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        on_workload: Callable[[tuple[str, str]], None],
        on_news: Callable[[], None],
    ) -> None:
        self._on_workload, self._on_news, self._namespaces = on_workload, on_news, namespaces
        self._workloads = of_each(
            client,
            namespaces,
            KUEUE_API,
            WORKLOADS,
            WORKLOAD_DECODER,
            on_change=self._on_change,
            keep=lambda found: replace(found, metadata=found.metadata.slim(frozenset())),
            label_selector=names.FRAMEWORK_NAME,
        )
        self._flavors = Informer(
            client,
            resource_path(KUEUE_API, FLAVORS),
            FLAVOR_DECODER,
            on_change=self._on_flavor,
            keep=lambda found: replace(found, metadata=found.metadata.slim(frozenset())),
        )

    @property
    def unknown(self) -> str:
        """Why nothing can be said of Workloads and flavors, "" if everything is known."""
        return "" if all(informer.has_synced for informer in self._all()) else UNKNOWN

    def _all(self) -> list[Informer[Any]]:
        return [*self._workloads.values(), self._flavors]

    async def run(self) -> None:
        """Fill the caches and keep them current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all():
                group.create_task(informer.run())
            for informer in self._all():
                await informer.synced.wait()
            self._on_news()

    def workload(self, namespace: str, name: str) -> Workload | None:
        """Return the Workload of that name."""
        return self._workloads[namespace if self._namespaces else ""].get(namespace, name)

    def flavor(self, name: str) -> Flavor | None:
        """Return the flavor of that name."""
        return self._flavors.get("", name)

    def _on_change(self, old: Workload | None, new: Workload | None) -> None:
        for meta in (seen.metadata for seen in (old, new) if seen is not None):
            owner = meta.controller
            # Anybody may give a Workload the label.
            if owner is not None and meta.name == names.workload_name(owner.name, owner.uid):
                self._on_workload((meta.namespace, owner.name))

    def _on_flavor(self, _old: Flavor | None, _new: Flavor | None) -> None:
        if not self.unknown:
            self._on_news()
