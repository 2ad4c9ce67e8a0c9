"""`Client`: Frameworks from plain Python, scripts and notebooks; an event loop in a thread does the work.

Methods that do the same as those of `AsyncClient` are documented there; `help` shows it here, too.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from frameworkclient.access import Impersonation
from frameworkclient.aio import AsyncClient
from frameworkclient.cluster.actions import Retry
from frameworkclient.errors import ArgumentError, ClientError
from frameworkclient.logs.lines import LogLine
from frameworkclient.logs.selection import LogSelection, Wanted
from frameworkclient.views.framework import FrameworkView

P = ParamSpec("P")
T = TypeVar("T")

_END: Final = object()
_JOIN_SECONDS: Final = 10


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return a method of `AsyncClient` as one of `Client`, which waits, with its signature and its docstring."""

    @wraps(method)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(method(client._client, *args, **kwargs))

    return call


class Client:
    """Frameworks of one cluster, as one user. A context manager; without one, call `close` at the end.

    Args:
        kubeconfig: A file; None for `KUBECONFIG`, `~/.kube/config` or the service account of this Pod.
        context: A context of it; None for the current one.
        namespace: Of all calls that name no other; None for that of the context.
        impersonate: Whom to act as; None for what the kubeconfig says.
        history: The address of the archive; "" for `FRAMEWORKCTL_HISTORY`, else for what the cluster names.
        history_token_file: A file with the token for it; "" for `FRAMEWORKCTL_HISTORY_TOKEN`, else for the user's own.

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
        history: str = "",
        history_token_file: str = "",
    ) -> None:
        self._client = AsyncClient(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            impersonate=impersonate,
            history=history,
            history_token_file=history_token_file,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="frameworkclient", daemon=True)
        self._thread.start()
        self._is_closed = False
        self._lock = threading.RLock()

    @property
    def namespace(self) -> str:
        """The namespace of calls that name no other."""
        return self._client.namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, also of calls in other threads; the client cannot be used any more."""
        with self._lock:
            if self._is_closed:
                return
            ending = self._begin(self._end())
            self._is_closed = True
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        await _cancelled(everything=True)
        await self._client.close()

    create = _blocking(AsyncClient.create)
    get = _blocking(AsyncClient.get)
    list = _blocking(AsyncClient.list)
    delete = _blocking(AsyncClient.delete)
    gone = _blocking(AsyncClient.gone)
    remove_retained = _blocking(AsyncClient.remove_retained)
    stop = _blocking(AsyncClient.stop)
    start = _blocking(AsyncClient.start)
    suspend = _blocking(AsyncClient.suspend)
    resume = _blocking(AsyncClient.resume)
    scale = _blocking(AsyncClient.scale)
    wait = _blocking(AsyncClient.wait)
    result = _blocking(AsyncClient.result)
    pods = _blocking(AsyncClient.pods)
    events = _blocking(AsyncClient.events)
    history = _blocking(AsyncClient.history)

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

    def watch(self, name: str, *, namespace: str | None = None) -> Iterator[FrameworkView]:
        """Yield a Framework as it is now, and again with each change, until it is Completed.

        Changes that follow each other faster than the caller reads come as one.

        Raises:
            DeletedError: It was deleted.
        """
        return self._iterate(self._client.watch(name, namespace=namespace))

    def logs(
        self, name: str, *, follow: bool = False, namespace: str | None = None, **wanted: Unpack[Wanted]
    ) -> Iterator[LogLine]:
        """Yield the lines of all Tasks, or of those that are wanted.

        Without `follow` these are the lines of the present Pods, in the order of time. With it they come as they
        arrive, of retries and rescaled Tasks too, until the Framework has ended.

        Args:
            name: Of the Framework.
            follow: Go on until the Framework has ended.
            namespace: None for that of the client.
            **wanted: Which lines: see `frameworkclient.logs.selection.Wanted`.

        Raises:
            DeletedError: The Framework was deleted while its logs were followed.
            ArgumentError: An argument is not valid, or `grep` is used where the package google-re2 is not installed.
        """
        selection = LogSelection.of(wanted)
        batches = self._client.log_batches(name, selection, follow=follow, namespace=namespace)
        return (line for batch in self._iterate(batches) for line in batch.lines)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            # What is still being read cannot be closed, and what was begun may have to be undone.
            future.cancel()
            self._begin(_cancelled()).result()
            raise
        except CancelledError as error:
            raise ClientError("the client was closed by another thread, before the answer came") from error

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            why = "the client is closed" if self._is_closed else ""
            if threading.current_thread() is self._thread:
                why = "a function that wait calls cannot use the client: look at the Framework that it is given"
            if why:
                work.close()
                raise ArgumentError(why)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        async def step() -> Any:
            return await anext(items, _END)

        try:
            while (item := self._run(step())) is not _END:
                yield item
        finally:
            if threading.current_thread() is self._thread:
                # The garbage collector closes an iterator that was left in any thread, and nobody may wait in this one.
                asyncio.run_coroutine_threadsafe(items.aclose(), self._loop)
            else:
                # An iterator that was left may outlive the client, and be ended by what closes it at this moment.
                with suppress(ArgumentError):
                    self._run(items.aclose())


async def _cancelled(*, everything: bool = False) -> None:
    """Wait for the tasks that are being cancelled, or cancel all others first."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others if everything else ():
        task.cancel()
    if going := {task for task in others if task.cancelling()}:
        await asyncio.wait(going, timeout=_JOIN_SECONDS)
