"""A Framework with its Pods, moment by moment, until it is Completed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frameworkclient.cluster.following import Collection
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkkube.http.client import resource_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from frameworkclient.aio import AsyncClient
    from frameworkclient.views.framework import FrameworkView


@dataclass(frozen=True)
class Moment:
    """A Framework and its Pods as they were at one moment.

    Attributes:
        view: The Framework.
        pods: Its Pods, by Task.
    """

    view: FrameworkView
    pods: Mapping[str, TaskPod] = field(default_factory=dict)


async def moments(client: AsyncClient, name: str) -> AsyncGenerator[Moment, None]:
    """Yield a Framework with its Pods as they are now, and again with each change, until it is Completed.

    A reader that is slow misses moments in between.

    Raises:
        DeletedError: It was deleted.
        ClientError: It does not exist, or its Pods may not be read.
    """
    first = await client.get(name)
    # An informer repeats what is refused; a permission that is missing must end the command.
    await client.pods(name)
    wake = asyncio.Event()
    pods: Collection[TaskPod] = Collection(
        client.kube,
        resource_path("v1", "pods", namespace=first.namespace),
        TASK_POD_DECODER,
        wake,
        label_selector=f"{names.FRAMEWORK_NAME}={name}",
    )
    async with pods, client.following(first, wake) as frameworks:
        while True:
            wake.clear()
            pods.check()
            view = client.current(first, frameworks)
            yield Moment(view, {pod.task: pod for pod in pods.objects.values()})
            if view.finished:
                return
            await wake.wait()
