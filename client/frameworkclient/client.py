"""`Client`: Frameworks from plain Python, scripts and notebooks; an event loop in a thread does the work."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from frameworkclient.aio import AsyncClient
from frameworkclient.cluster.actions import check_task
from frameworkclient.logs.selection import LogSelection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
    from types import TracebackType

    from frameworkclient.access import Impersonation
    from frameworkclient.cluster.actions import Retry
    from frameworkclient.cluster.goals import Goal
    from frameworkclient.logs.lines import LogLine
    from frameworkclient.model.manifest import Framework
    from frameworkclient.views.events import EventView
    from frameworkclient.views.framework import FrameworkView, Result
    from frameworkclient.views.html import FrameworkViews
    from frameworkclient.views.pods import TaskPod

T = TypeVar("T")

_END: Final = object()
_JOIN_SECONDS: Final = 10


class Client:
    """Frameworks of one cluster, as one user. A context manager; without one, call `close` at the end.

    Args:
        kubeconfig: A file; None for `KUBECONFIG`, `~/.kube/config` or the service account of this Pod.
        context: A context of it; None for the current one.
        namespace: Of all calls that name no other; None for that of the context.
        impersonate: Whom to act as; None for what the kubeconfig says.

    Raises:
        AccessError: There is no cluster to talk to; the message names the file or the variable.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
        impersonate: Impersonation | None = None,
    ) -> None:
        self._client = AsyncClient(kubeconfig=kubeconfig, context=context, namespace=namespace, impersonate=impersonate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="frameworkclient", daemon=True)
        self._thread.start()

    @property
    def namespace(self) -> str:
        """The namespace of calls that name no other."""
        return self._client.namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the client cannot be used any more."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS)
        self._loop.close()

    def create(
        self, framework: Framework | Mapping[str, Any], *, namespace: str | None = None, dry_run: bool = False
    ) -> FrameworkView:
        """Create a Framework.

        Args:
            framework: A `Framework`, or a manifest as decoded from YAML.
            namespace: Where; None for what the manifest says, or that of the client.
            dry_run: Let the API server check it and create nothing.

        Returns:
            The Framework as it was stored.

        Raises:
            AlreadyExistsError: There is one of that name.
            InvalidError, RefusedError: The API server refuses it; the message names the field.
        """
        return self._run(self._client.create(framework, namespace=namespace, dry_run=dry_run))

    def get(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """Return a Framework as it is now.

        Raises:
            NotFoundError: There is none of that name.
        """
        return self._run(self._client.get(name, namespace=namespace))

    def list(
        self, *, namespace: str | None = None, all_namespaces: bool = False, label_selector: str = ""
    ) -> FrameworkViews:
        """Return the Frameworks of a namespace.

        Args:
            namespace: None for that of the client.
            all_namespaces: Of all namespaces instead.
            label_selector: Only those with these labels, such as `team=vision,stage!=test`.
        """
        return self._run(
            self._client.list(namespace=namespace, all_namespaces=all_namespaces, label_selector=label_selector)
        )

    def delete(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> None:
        """Delete a Framework; its name is free when all its Pods are gone.

        Args:
            name: Of the Framework.
            namespace: None for that of the client.
            wait: Return when it is gone.
            timeout: Seconds to wait; None for any time.

        Raises:
            NotFoundError: There is none of that name.
            WaitTimeoutError: It is not gone in time.
        """
        self._run(self._client.delete(name, namespace=namespace, wait=wait, timeout=timeout))

    def stop(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """End a Framework for good: its Pods are deleted, the object and its status stay."""
        return self._run(self._client.stop(name, namespace=namespace))

    def start(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """Start a Framework that was created with `execution_type="Create"`.

        Raises:
            ArgumentError: It was stopped, which is final.
        """
        return self._run(self._client.start(name, namespace=namespace))

    def scale(self, name: str, tasks: Mapping[str, int], *, namespace: str | None = None) -> FrameworkView:
        """Change numbers of Tasks, also while the Framework runs.

        Args:
            name: Of the Framework.
            tasks: The new number by role: `{"worker": 8}`.
            namespace: None for that of the client.

        Raises:
            ArgumentError: There is no such role.
        """
        return self._run(self._client.scale(name, tasks, namespace=namespace))

    def retry(self, name: str, task: str = "", *, namespace: str | None = None) -> Retry:
        """Begin another attempt of a Framework or of one Task.

        Of a Framework that runs, the objects of the attempt are deleted, and its retry policy begins the next one. One
        that is Completed is deleted and created again, from its spec; until then its manifest is in a file of
        `$XDG_STATE_HOME/frameworkctl` (`~/.local/state/frameworkctl`), which errors name.

        Args:
            name: Of the Framework.
            task: Such as `worker-0`; "" for the whole Framework.
            namespace: None for that of the client.

        Raises:
            ArgumentError: Nothing runs, or the retry policy would end it instead; then nothing was done.
            ConflictError: The Pod of the Task has changed in this moment; nothing was done either.
        """
        return self._run(self._client.retry(name, task, namespace=namespace))

    def wait(
        self,
        name: str,
        *,
        for_: Goal | Callable[[FrameworkView], bool] = "completed",
        namespace: str | None = None,
        timeout: float | None = None,
    ) -> FrameworkView | None:
        """Wait until a Framework is as far as it should be, or Completed.

        Args:
            name: Of the Framework.
            for_: `completed`, `succeeded`, `running`, `ready` (all Tasks are), `deleted`, or a function of the
                `FrameworkView`.
            namespace: None for that of the client.
            timeout: Seconds to wait; None for any time.

        Returns:
            The Framework; None if it was waited for to be deleted.

        Raises:
            WaitTimeoutError: It was not so far in time.
            DeletedError: It was deleted meanwhile.
        """
        return self._run(self._client.wait(name, for_=for_, namespace=namespace, timeout=timeout))

    def result(self, name: str, *, namespace: str | None = None, timeout: float | None = None) -> Result:
        """Wait until a Framework is Completed and return how it has ended.

        Raises:
            WaitTimeoutError: It is not Completed after `timeout` seconds.
            DeletedError: It was deleted meanwhile.
        """
        return self._run(self._client.result(name, namespace=namespace, timeout=timeout))

    def watch(self, name: str, *, namespace: str | None = None) -> Iterator[FrameworkView]:
        """Yield a Framework as it is now, and again with each change, until it is Completed.

        Changes that follow each other faster than the caller reads come as one.

        Raises:
            DeletedError: It was deleted.
        """
        return self._iterate(self._client.watch(name, namespace=namespace))

    def pods(self, name: str, *, namespace: str | None = None) -> Sequence[TaskPod]:
        """Return the Pods of a Framework by role and index."""
        return self._run(self._client.pods(name, namespace=namespace))

    def events(
        self, name: str, *, pods: Sequence[str] | None = None, namespace: str | None = None
    ) -> Sequence[EventView]:
        """Return the Events of a Framework, its ConfigMap and its Pods, the oldest first; of too many, the newest.

        Args:
            name: Of the Framework.
            pods: Only of the Framework and these Pods, by a request each; None for all, for which the Events of all
                Pods of the namespace are read.
            namespace: None for that of the client.
        """
        return self._run(self._client.events(name, pods=pods, namespace=namespace))

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        role: str = "",
        task: str = "",
        since: timedelta | float | None = None,
        tail: int | None = None,
        barrier: bool = False,
        previous: bool = False,
        grep: str = "",
        grep_text: str = "",
        namespace: str | None = None,
    ) -> Iterator[LogLine]:
        """Yield the lines of all Tasks.

        Without `follow` these are the lines of the present Pods, in the order of time. With it they come as they
        arrive, of retries and rescaled Tasks too, until the Framework has ended.

        Args:
            name: Of the Framework.
            follow: Go on until the Framework has ended.
            role: Only of this role.
            task: Only of this Task, such as `worker-0`.
            since: Only lines that are not older: a `timedelta`, or seconds.
            tail: Only so many last lines of each container.
            barrier: Of the barrier instead of the application.
            previous: Of the run before the last restart of each container.
            grep: Only lines in which this regular expression is found. Its syntax is that of RE2.
            grep_text: Only lines that contain this text. With `grep`, only lines that have both.
            namespace: None for that of the client.

        Raises:
            DeletedError: The Framework was deleted while its logs were followed.
            ArgumentError: An argument is not valid, or `grep` is used where the package google-re2 is not installed.
        """
        if task:
            check_task(task, [found.name for found in self.get(name, namespace=namespace).roles])
        seconds = since.total_seconds() if isinstance(since, timedelta) else since
        selection = LogSelection(
            role=role,
            task=task,
            barrier=barrier,
            since_seconds=None if seconds is None else max(1, round(seconds)),
            tail=tail,
            previous=previous,
            grep=grep,
            grep_text=grep_text,
        )
        batches = self._client.log_batches(name, selection, follow=follow, namespace=namespace)
        return (line for batch in self._iterate(batches) for line in batch.lines)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        async def step() -> Any:
            return await anext(items, _END)

        try:
            while (item := self._run(step())) is not _END:
                yield item
        finally:
            # An iterator that was left may outlive the client.
            if not self._loop.is_closed():
                self._run(items.aclose())
