"""A Framework with its Pods, moment by moment, until it is Completed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from frameworkclient.cluster.following import followed_pods, following
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TaskPod
from frameworkkube.http.client import KubeClient


@dataclass(frozen=True)
class Moment:
    """A Framework and its Pods, by Task, as they were at one moment."""

    view: FrameworkView
    pods: Mapping[str, TaskPod] = field(default_factory=dict)


async def moments(kube: KubeClient, first: FrameworkView) -> AsyncGenerator[Moment, None]:
    """Yield a Framework with its Pods as they are now, and again with each change, until it is Completed.

    A reader that is slow misses moments in between.

    Raises:
        DeletedError: It was deleted.
        ClientError: Its Pods may not be read.
    """
    wake = asyncio.Event()
    async with await followed_pods(kube, first, wake) as pods, following(kube, first, wake) as current:
        while True:
            wake.clear()
            pods.check()
            view = current()
            yield Moment(view, {pod.task: pod for pod in pods.objects.values()})
            if view.finished:
                return
            await wake.wait()
