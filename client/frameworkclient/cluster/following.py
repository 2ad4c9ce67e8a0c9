"""Follows collections by watches: the newest objects at any moment, and a wake-up when one has changed.

A reader that is slow misses states in between, and memory stays bounded. Interrupted watches are resumed by the
informer of `frameworkkube`, with pauses that grow; a permission that is missing is found before, by a plain request.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Self, TypeVar

import msgspec

from frameworkclient.cluster.pages import pods_of
from frameworkclient.errors import DeletedError, translated
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.html import NotebookView
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import HasMetadata
from frameworkkube.paths import resource_path

T = TypeVar("T", bound=HasMetadata)


class Collection(Generic[T]):
    """The objects of one collection that the selectors choose, kept current while the block runs.

    Args:
        wake: Set with each change; several collections may share it.
        seen: Called with each new state of an object; a reader that only wakes up may miss those in between.

    Attributes:
        objects: The newest states, by namespace and name.
    """

    def __init__(
        self,
        kube: KubeClient,
        path: str,
        decoder: msgspec.json.Decoder[T],
        wake: asyncio.Event,
        *,
        label_selector: str = "",
        field_selector: str = "",
        seen: Callable[[T], None] | None = None,
    ) -> None:
        self.objects: dict[tuple[str, str], T] = {}
        self._path = path
        self._wake = wake
        self._seen = seen
        self._informer: Informer[T] = Informer(
            kube, path, decoder, on_change=self._changed, label_selector=label_selector, field_selector=field_selector
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._informer.run())
        self._task.add_done_callback(lambda _: self._wake.set())
        synced = asyncio.create_task(self._informer.synced.wait())
        try:
            await asyncio.wait({self._task, synced}, return_when=asyncio.FIRST_COMPLETED)
            self.check()
        except BaseException:
            await self.__aexit__()
            raise
        finally:
            synced.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task

    def check(self) -> None:
        """Raise what has ended the watch, if anything has.

        Raises:
            ClientError: The watch cannot go on, because the API server's data was restored from a backup.
        """
        if self._task is not None and self._task.done():
            with translated(f"watch {self._path}"):
                self._task.result()

    def _changed(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self.objects[new.metadata.namespace, new.metadata.name] = new
            if self._seen is not None:
                self._seen(new)
        elif old is not None:
            self.objects.pop((old.metadata.namespace, old.metadata.name), None)
        self._wake.set()


async def followed_pods(
    kube: KubeClient, view: FrameworkView, wake: asyncio.Event, *, seen: Callable[[TaskPod], None] | None = None
) -> Collection[TaskPod]:
    """Return the Pods of a Framework, to be kept current; the arguments are those of `Collection`.

    Raises:
        ClientError: They may not be read. An informer would repeat what is refused.
    """
    await pods_of(kube, view.namespace, view.name)
    path, selector = resource_path("v1", "pods", namespace=view.namespace), f"{names.FRAMEWORK_NAME}={view.name}"
    return Collection(kube, path, TASK_POD_DECODER, wake, label_selector=selector, seen=seen)


@asynccontextmanager
async def following(
    kube: KubeClient, first: FrameworkView, wake: asyncio.Event
) -> AsyncIterator[Callable[[], FrameworkView]]:
    """Keep the newest state of one Framework while the block runs; `wake` is set when it has changed.

    What it gives returns that state, and raises `DeletedError` once the Framework is gone or another has its name.
    """
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=first.namespace)
    selector = f"metadata.name={first.name}"
    async with Collection(kube, path, FRAMEWORK_DECODER, wake, field_selector=selector) as frameworks:

        def current() -> FrameworkView:
            frameworks.check()
            stored = frameworks.objects.get((first.namespace, first.name))
            if stored is None or stored.metadata.uid != first.uid:
                raise DeletedError(f"Framework {first.namespace}/{first.name} was deleted")
            return NotebookView(stored)

        yield current
