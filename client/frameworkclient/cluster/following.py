"""Follows collections by watches: the newest objects at any moment, and a wake-up when one has changed.

A reader that is slow misses states in between, and memory stays bounded. Interrupted watches are resumed by the
informer of `frameworkkube`, with pauses that grow; a permission that is missing is found before, by a plain request.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from frameworkclient.cluster.pages import pods_of
from frameworkclient.errors import DeletedError, translated
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.html import NotebookView
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkkube.errors import ForbiddenError, KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import HasMetadata
from frameworkkube.paths import resource_path

T = TypeVar("T", bound=HasMetadata)


@asynccontextmanager
async def collected(
    kube: KubeClient,
    path: str,
    decoder: msgspec.json.Decoder[T],
    objects: dict[tuple[str, str], T],
    wake: asyncio.Event,
    *,
    label_selector: str = "",
    field_selector: str = "",
    seen: Callable[[T], None] | None = None,
) -> AsyncIterator[Callable[[], None]]:
    """Keep what the selectors choose of a collection current in `objects`, by namespace and name, while the block runs.

    `wake` is set with each change, and may be shared. `seen` is called with each new state of an object, of which one
    who only wakes up may miss some. What this gives raises what has ended the watch, if anything has: a `ClientError`,
    because the API server's data was restored from a backup.
    """

    def changed(old: T | None, new: T | None) -> None:
        if new is not None:
            objects[new.metadata.namespace, new.metadata.name] = new
            if seen is not None:
                seen(new)
        elif old is not None:
            objects.pop((old.metadata.namespace, old.metadata.name), None)
        wake.set()

    def check() -> None:
        if watching.done():
            with translated(f"watch {path}"):
                watching.result()

    informer: Informer[T] = Informer(
        kube, path, decoder, on_change=changed, label_selector=label_selector, field_selector=field_selector
    )
    watching = asyncio.create_task(informer.run())
    watching.add_done_callback(lambda _: wake.set())
    synced = asyncio.create_task(informer.synced.wait())
    try:
        await asyncio.wait({watching, synced}, return_when=asyncio.FIRST_COMPLETED)
        check()
        yield check
    finally:
        synced.cancel()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await watching


@asynccontextmanager
async def followed_pods(
    kube: KubeClient,
    view: FrameworkView,
    pods: dict[tuple[str, str], TaskPod],
    wake: asyncio.Event,
    *,
    seen: Callable[[TaskPod], None] | None = None,
) -> AsyncIterator[Callable[[], None]]:
    """Keep the Pods of a Framework current while the block runs, as `collected` does.

    Raises:
        ClientError: They may not be read. An informer would repeat what is refused.
    """
    await pods_of(kube, view.namespace, view.name)
    path, selector = resource_path("v1", "pods", namespace=view.namespace), f"{names.FRAMEWORK_NAME}={view.name}"
    async with collected(kube, path, TASK_POD_DECODER, pods, wake, label_selector=selector, seen=seen) as check:
        yield check


@asynccontextmanager
async def following(
    kube: KubeClient, first: FrameworkView, wake: asyncio.Event
) -> AsyncIterator[Callable[[], FrameworkView]]:
    """Keep the newest state of one Framework while the block runs; `wake` is set when it has changed.

    What it gives returns that state, and raises `DeletedError` once the Framework is gone or another has its name.

    Raises:
        ClientError: Frameworks may not be listed. An informer would repeat what is refused.
    """
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=first.namespace)
    selector = f"metadata.name={first.name}"
    with translated(f"list Frameworks of namespace {first.namespace}"):
        try:
            await kube.get(path, query={"fieldSelector": selector, "limit": "1"})
        except ForbiddenError:
            raise
        except KubeError:
            pass  # the informer asks again
    frameworks: dict[tuple[str, str], Framework] = {}
    async with collected(kube, path, FRAMEWORK_DECODER, frameworks, wake, field_selector=selector) as check:

        def current() -> FrameworkView:
            check()
            stored = frameworks.get((first.namespace, first.name))
            if stored is None or stored.metadata.uid != first.uid:
                raise DeletedError(f"Framework {first.namespace}/{first.name} was deleted")
            return NotebookView(stored)

        yield current


@dataclass(frozen=True)
class Moment:
    """A Framework and its Pods, by Task, as they were at one moment."""

    view: FrameworkView
    pods: Mapping[str, TaskPod] = field(default_factory=dict)


async def moments(kube: KubeClient, first: FrameworkView, wake: asyncio.Event) -> AsyncGenerator[Moment, None]:
    """Yield a Framework with its Pods as they are now, and again with each change, until it is Completed.

    A reader that is slow misses moments in between. Whoever sets `wake` gets one more.

    Raises:
        DeletedError: It was deleted.
        ClientError: Its Pods may not be read.
    """
    pods = dict[tuple[str, str], TaskPod]()
    async with followed_pods(kube, first, pods, wake) as check, following(kube, first, wake) as current:
        while True:
            wake.clear()
            check()
            view = current()
            yield Moment(view, {pod.task: pod for pod in pods.values()})
            if view.finished:
                return
            await wake.wait()
