"""What the controller caches of groups of Pods, of each scheduler whose groups Frameworks may have.

Nothing else waits for these caches: a scheduler's definitions may come later than this program, or not at all.
"""

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import GROUP_DECODER, KINDS, PLURAL, Kind, PodGroup
from frameworkcontroller.engine.cache.each import of_each
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer

UNKNOWN: Final = (
    "PodGroups of {api_version} are not read yet: does the API server serve them, and may this controller read them?"
)
DISABLED: Final = "its Pods are to be in groups of {scheduler}, which gangScheduling.schedulers of the controller lacks"
MAX_TEXT: Final = 1024
"""Characters of what is kept of a condition."""


class Groups:
    """The groups of these schedulers, in each namespace or in all.

    Args:
        on_group: is told the namespace and the Framework of a group that has changed, and its name.
        on_news: is told when all of a scheduler are known.
        on_scheduled: is told how long a group has waited for its place, in seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: Sequence[str],
        schedulers: Iterable[str],
        on_group: Callable[[tuple[str, str], str], None],
        on_news: Callable[[], None],
        on_scheduled: Callable[[float], None],
    ) -> None:
        self._on_group, self._on_news, self._on_scheduled = on_group, on_news, on_scheduled
        self._informers = {
            scheduler: of_each(
                client,
                namespaces,
                KINDS[scheduler].api_version,
                PLURAL,
                GROUP_DECODER,
                on_change=self._on_change,
                keep=functools.partial(_kept, KINDS[scheduler]),
                label_selector=names.FRAMEWORK_NAME,
            )
            for scheduler in schedulers
        }

    def unknown(self, scheduler: str) -> str:
        """Return why nothing can be said of the groups of this scheduler, "" if all are known."""
        if (informers := self._informers.get(scheduler)) is None:
            return DISABLED.format(scheduler=scheduler)
        if all(informer.has_synced for informer in informers.values()):
            return ""
        return UNKNOWN.format(api_version=KINDS[scheduler].api_version)

    def group(self, scheduler: str, namespace: str, name: str) -> PodGroup | None:
        """Return the group of that name."""
        informers = self._informers[scheduler]
        return informers[namespace if namespace in informers else ""].get(namespace, name)

    async def run(self) -> None:
        """Fill the caches and keep them current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informers in self._informers.values():
                tasks.create_task(self._run_one(list(informers.values())))

    async def _run_one(self, informers: list[Informer[PodGroup]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.synced.wait()
            self._on_news()

    def _on_change(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if old is not None and new is not None and old.seconds is None and (seconds := new.seconds) is not None:
            self._on_scheduled(seconds)
        # Both: whose it was has to learn that somebody has changed the label. Anybody may give the label to others.
        metas = [seen.metadata for seen in (old, new) if seen is not None]
        for framework in {meta.labels.framework or "" for meta in metas}:
            if metas[0].name.startswith(names.pod_group_prefix(framework)):
                self._on_group((metas[0].namespace, framework), metas[0].name)


def _kept(kind: Kind, found: PodGroup) -> PodGroup:
    said = kind.said(found) if kind.said else None
    kept = () if said is None else (replace(said, reason=said.reason[:MAX_TEXT], message=said.message[:MAX_TEXT]),)
    return replace(
        found, metadata=found.metadata.slim(frozenset()), status=replace(found.status, conditions=kept, phase="")
    )
