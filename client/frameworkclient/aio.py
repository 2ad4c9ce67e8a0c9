"""`AsyncClient`: Frameworks from asyncio. `Client` is the same for code without an event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self, Unpack

import msgspec

from frameworkclient import access, errors
from frameworkclient.archive import NONE, Archive, Archived, find
from frameworkclient.cluster import actions
from frameworkclient.cluster.again import delete_view, kept, named, perform
from frameworkclient.cluster.pages import pods_of
from frameworkclient.logs.lines import LogBatch, LogLine
from frameworkclient.logs.selection import LogSelection, Wanted
from frameworkclient.model.code import Code
from frameworkclient.model.manifest import Framework
from frameworkclient.version import __version__
from frameworkclient.views.events import EventView, newest, selectors
from frameworkclient.views.framework import FrameworkView, Result
from frameworkclient.views.html import FrameworkViews, NotebookView
from frameworkclient.views.pods import TaskPod
from frameworkcontroller.api import names
from frameworkkube.http.client import MERGE_PATCH, KubeClient
from frameworkkube.http.pages import objects
from frameworkkube.paths import resource_path


class AsyncClient:
    """Frameworks of one cluster, as one user. Use it inside one event loop, as a context manager.

    It has the methods of `Client`: those that return something are coroutines, and `watch` and `logs` are asynchronous
    generators. The arguments are those of `Client`; `found` is a cluster that was found already, instead of them.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
        impersonate: access.Impersonation | None = None,
        history: str = "",
        history_token_file: str = "",
        found: access.Access | None = None,
    ) -> None:
        self._access = found or access.find(kubeconfig=kubeconfig, context=context, impersonate=impersonate)
        self.namespace = namespace or self._access.namespace
        self._kube: KubeClient | None = None
        self._named_archive = history, history_token_file
        self._archive: Archive | None = None

    @property
    def kube(self) -> KubeClient:
        """The client of the API server, for requests that this class has no method for."""
        if self._kube is None:
            self._kube = KubeClient(self._access.endpoint, user_agent=f"frameworkctl/{__version__}", max_connections=32)
        return self._kube

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        clients = self._kube, self._archive
        self._kube = self._archive = None
        for client in clients:
            if client is not None:
                await client.close()

    # --- one request -------------------------------------------------------------------------------------------------

    async def create(
        self,
        framework: Framework | Mapping[str, Any],
        *,
        code: Sequence[Code] = (),
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> FrameworkView:
        """Create a Framework.

        Args:
            framework: A `Framework`, or a manifest as decoded from YAML.
            code: That of a manifest's Pods; a `Framework` has that of its roles. It is created after it, in ConfigMaps
                that go with it; where one cannot be created, the Framework is deleted.
            namespace: Where; None for what the manifest says, or that of the client.
            dry_run: Let the API server check it and create nothing.

        Returns:
            The Framework as it was stored.

        Raises:
            AlreadyExistsError: There is one of that name.
            InvalidError, RefusedError: The API server refuses it; the message names the field.
        """
        manifest = framework.to_dict() if isinstance(framework, Framework) else dict(framework)
        metadata = dict(manifest.get("metadata") or {})
        own = metadata.get("namespace")
        if namespace and own and namespace != own:
            raise errors.ArgumentError(
                f"namespace {namespace}: the manifest says {own} in metadata.namespace; remove one"
            )
        metadata["namespace"] = namespace or own or self.namespace
        if isinstance(framework, Framework):
            code = [*code, *{role.code.name: role.code for role in framework.roles if role.code}.values()]
        for one in code:
            # Everybody who may refuse it is asked before there is a Framework.
            await self._create_code(one, metadata["namespace"], {"dryRun": "All"})
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        with errors.translated(f"create Framework {metadata['namespace']}/{metadata.get('name')}"):
            answer = await self.kube.request(
                "POST",
                self._path(metadata["namespace"]),
                query=query,
                body=msgspec.json.encode(manifest | {"metadata": metadata}),
                timeout_seconds=60,
            )
            view = NotebookView.decode(_with_version(answer) if dry_run else answer)
        try:
            for one in () if dry_run else code:
                await self._create_code(one, view.namespace, {}, actions.owner(view))
        except BaseException:
            await delete_view(self.kube, view)
            raise
        return view

    async def _create_code(
        self, code: Code, namespace: str, query: Mapping[str, str], owner: Mapping[str, Any] | None = None
    ) -> None:
        path = resource_path("v1", "configmaps", namespace=namespace)
        with errors.translated(f"create ConfigMap {namespace}/{code.name} with the code"):
            body = msgspec.json.encode(code.config_map(owner))
            await self.kube.request("POST", path, query=query, body=body, timeout_seconds=60)

    async def get(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """Return a Framework as it is now.

        Raises:
            NotFoundError: There is none of that name.
        """
        with errors.translated(f"get Framework {namespace or self.namespace}/{name}"):
            return NotebookView.decode(await self.kube.get(self._path(namespace, name)))

    async def list(
        self, *, namespace: str | None = None, all_namespaces: bool = False, label_selector: str = ""
    ) -> FrameworkViews:
        """Return the Frameworks of a namespace, in a tuple that a notebook shows as a table.

        Args:
            namespace: None for that of the client.
            all_namespaces: Of all namespaces instead.
            label_selector: Only those with these labels, such as `team=vision,stage!=test`.
        """
        place = "all namespaces" if all_namespaces else f"namespace {namespace or self.namespace}"
        path = resource_path(names.API_VERSION, names.PLURAL) if all_namespaces else self._path(namespace)
        with errors.translated(f"list Frameworks of {place}"):
            return FrameworkViews([NotebookView.decode(one) async for one in objects(self.kube, path, label_selector)])

    async def delete(
        self,
        name: str,
        *,
        namespace: str | None = None,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 -- as of `Client`
    ) -> FrameworkView:
        """Delete a Framework, and return it as it was; its name is free when all its Pods are gone.

        Args:
            name: Of the Framework.
            namespace: None for that of the client.
            wait: Return when it is gone.
            timeout: Seconds to wait; None for any time.

        Raises:
            NotFoundError: There is none of that name.
            WaitTimeoutError: It is not gone in time.
        """
        view = await self.get(name, namespace=namespace)
        await delete_view(self.kube, view)
        if wait:
            await self.gone(view, timeout)
        return view

    async def remove_retained(self, name: str, *, namespace: str | None = None) -> tuple[TaskPod, ...]:
        """Delete the Pods that stay after the end of their Tasks (`retain_pods`), and return them."""
        found = [pod for pod in await self.pods(name, namespace=namespace) if pod.metadata.labels.retained is not None]
        for pod in found:
            path = resource_path("v1", "pods", namespace=pod.metadata.namespace, name=pod.metadata.name)
            # Another one of its name is not this one.
            gone = suppress(errors.NotFoundError, errors.ConflictError)
            with gone, errors.translated(f"delete Pod {pod.metadata.namespace}/{pod.metadata.name}"):
                await self.kube.delete(path, uid=pod.metadata.uid)
        return tuple(found)

    async def stop(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """End a Framework for good: its Pods are deleted, the object and its status stay."""
        return await self._patch("stop", name, namespace, {"spec": {"executionType": "Stop"}})

    async def start(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """Start a Framework that was created with `execution_type="Create"`.

        Raises:
            ArgumentError: It was stopped, which is final.
        """
        view = await self.get(name, namespace=namespace)
        if view.spec.execution_type == "Stop":
            raise errors.ArgumentError(f"Framework {name}: was stopped, which is final; retry it to run it again")
        return await self._patch("start", name, namespace, {"spec": {"executionType": "Start"}})

    async def suspend(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """End the attempt that runs, and let none begin until the Framework is resumed; no retry is counted for it.

        Raises:
            ArgumentError: It is Completed or was stopped, or the cluster's definition of Frameworks is older than this.
        """
        before = await self.get(name, namespace=namespace)
        if before.finished or before.spec.execution_type == "Stop":
            why = "is Completed" if before.finished else "was stopped, which is final"
            raise errors.ArgumentError(f"Framework {name}: {why}, so that nothing can be suspended")
        view = await self._patch("suspend", name, namespace, {"spec": {"suspend": True}})
        if not view.spec.suspend:
            raise errors.ArgumentError("suspend: the cluster's definition of Frameworks does not know it; upgrade it")
        return view

    async def resume(self, name: str, *, namespace: str | None = None) -> FrameworkView:
        """Let a suspended Framework go on, with its next attempt."""
        return await self._patch("resume", name, namespace, {"spec": {"suspend": False}})

    async def scale(self, name: str, tasks: Mapping[str, int], *, namespace: str | None = None) -> FrameworkView:
        """Change numbers of Tasks, also while the Framework runs.

        Args:
            name: Of the Framework.
            tasks: The new number by role: `{"worker": 8}`.
            namespace: None for that of the client.

        Raises:
            ArgumentError: There is no such role.
        """
        patch = actions.scale_patch(await self.get(name, namespace=namespace), tasks)
        return await self._patch("scale", name, namespace, patch, "application/json-patch+json")

    async def retry(
        self, name: str, task: str = "", *, namespace: str | None = None, on_kept: Callable[[Path], None] | None = None
    ) -> actions.Retry:
        """See `Client.retry`; `on_kept` is called with the file of the manifest before a Framework is deleted."""
        try:
            view = await self.get(name, namespace=namespace)
        except errors.NotFoundError:
            if not (files := kept(namespace or self.namespace, name)):
                raise
            with named(files[-1]):
                raise
        action = actions.retry_of(view, task)
        await perform(self, view, action, task, on_kept)
        return action

    async def pods(self, name: str, *, namespace: str | None = None) -> tuple[TaskPod, ...]:
        """Return the Pods of a Framework by role and index."""
        return await pods_of(self.kube, namespace or self.namespace, name)

    async def events(
        self, name: str, *, pods: Sequence[str] | None = None, namespace: str | None = None
    ) -> tuple[EventView, ...]:
        """Return the Events of a Framework, its ConfigMap and its Pods, the oldest first; of too many, the newest.

        Args:
            name: Of the Framework.
            pods: Only of the Framework and these Pods, by a request each; None for all, for which the Events of all
                Pods of the namespace are read.
            namespace: None for that of the client.
        """
        path, chosen = resource_path("v1", "events", namespace=namespace or self.namespace), selectors(name, pods)
        with errors.translated(f"list Events of {namespace or self.namespace}/{name}"):
            found = (one for each in chosen async for one in objects(self.kube, path, field_selector=each))
            return await newest(found, name)

    # --- what is gone ------------------------------------------------------------------------------------------------

    async def archive(self) -> Archive | None:
        """Return the archive of the cluster, for requests that this class has no method for; None if there is none."""
        if self._archive is None:
            self._archive = await find(self.kube, self._access.endpoint, *self._named_archive)
        return self._archive

    async def history(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        label: str = "",
        since: datetime | None = None,
        limit: int = 1000,
    ) -> tuple[Archived, ...]:
        """Return what the archive has of Frameworks, also of those that do not exist any more, the newest first.

        Args:
            namespace: None for that of the client.
            all_namespaces: Of all namespaces that the user may see instead.
            label: Only those with this label, such as `team=vision` or `team`.
            since: Only those that were created after this aware datetime.
            limit: Return so many at most.

        Raises:
            AccessError: There is no archive, or it takes no token of this user.
            ForbiddenError: The user may not list Frameworks there.
        """
        if (archive := await self.archive()) is None:
            raise errors.AccessError(NONE)
        return await archive.list("" if all_namespaces else namespace or self.namespace, label, since, limit)

    # --- following ---------------------------------------------------------------------------------------------------

    async def watch(self, name: str, *, namespace: str | None = None) -> AsyncGenerator[FrameworkView, None]:
        """See `Client.watch`."""
        async with aclosing(self._views(await self.get(name, namespace=namespace))) as views:
            async for view in views:
                yield view
                if view.finished:
                    return

    async def _views(self, first: FrameworkView) -> AsyncGenerator[FrameworkView, None]:
        """Yield the states of a Framework until it is deleted, and raise `DeletedError` then."""
        from frameworkclient.cluster.following import following

        wake, last = asyncio.Event(), first
        yield first
        async with following(self.kube, first, wake) as current:
            while True:
                wake.clear()
                view = current()
                if not view.is_same_as(last):
                    last = view
                    yield view
                else:
                    await wake.wait()

    async def wait(
        self,
        name: str,
        *,
        for_: actions.Goal | Callable[[FrameworkView], bool] = "completed",
        namespace: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 -- as of `Client`
    ) -> FrameworkView | None:
        """Wait until a Framework is as far as it should be, or Completed.

        Args:
            name: Of the Framework.
            for_: `completed`, `succeeded`, `running`, `ready` (all Tasks are), `deleted`, or a function of the
                `FrameworkView`, which cannot use a `Client` itself.
            namespace: None for that of the client.
            timeout: Seconds to wait; 0 to look once, None for any time.

        Returns:
            The Framework; None if it was waited for to be deleted.

        Raises:
            WaitTimeoutError: It was not so far in time.
            DeletedError: It was deleted meanwhile.
        """
        if isinstance(for_, str) and for_ not in actions.GOALS:
            raise errors.ArgumentError(f"for {for_}: must be one of {', '.join(actions.GOALS)}")
        reached = actions.GOALS[for_] if isinstance(for_, str) else for_
        goal = for_ if isinstance(for_, str) else "what it was waited for"
        late = f"Framework {name} is not {goal} after {timeout or 0:g} s"
        try:
            async with asyncio.timeout(timeout or None):
                first = await self.get(name, namespace=namespace)
                async with aclosing(self._views(first)) as views:
                    async for view in views:
                        if reached(view) or (view.finished and for_ != "deleted"):
                            return view
                        if timeout == 0:
                            raise errors.WaitTimeoutError(late)
        except TimeoutError as error:
            raise errors.WaitTimeoutError(late) from error
        except (errors.DeletedError, errors.NotFoundError):
            if for_ != "deleted":
                raise
        return None

    async def result(
        self,
        name: str,
        *,
        namespace: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 -- as of `Client`
    ) -> Result:
        """Wait until a Framework is Completed and return how it has ended.

        Raises:
            WaitTimeoutError: It is not Completed after `timeout` seconds.
            DeletedError: It was deleted meanwhile.
        """
        view = await self.wait(name, namespace=namespace, timeout=timeout)
        assert view is not None
        assert view.result is not None
        return view.result

    async def logs(
        self, name: str, *, follow: bool = False, namespace: str | None = None, **wanted: Unpack[Wanted]
    ) -> AsyncGenerator[LogLine, None]:
        """See `Client.logs`."""
        batches = self.log_batches(name, LogSelection.of(wanted), follow=follow, namespace=namespace)
        async with aclosing(batches):
            async for batch in batches:
                for line in batch.lines:
                    yield line

    async def log_batches(
        self, name: str, selection: LogSelection | None = None, *, follow: bool = False, namespace: str | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        """Yield lines of logs in batches, as they arrive; see `Client.logs`."""
        from frameworkclient.logs.collector import follow_logs, read_logs

        view, selection = await self.get(name, namespace=namespace), selection or LogSelection()
        if selection.task:
            actions.check_task(selection.task, [role.name for role in view.roles])
        if follow:
            batches = follow_logs(self.kube, view, selection)
        else:
            pods = await pods_of(self.kube, view.namespace, view.name)
            batches = read_logs(self.kube, view.namespace, pods, selection)
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    # --- paths and pages ---------------------------------------------------------------------------------------------

    def _path(self, namespace: str | None, name: str | None = None) -> str:
        return resource_path(names.API_VERSION, names.PLURAL, namespace=namespace or self.namespace, name=name)

    async def _patch(
        self, verb: str, name: str, namespace: str | None, patch: Any, content_type: str = MERGE_PATCH
    ) -> FrameworkView:
        path, body = self._path(namespace, name), msgspec.json.encode(patch)
        with errors.translated(f"{verb} Framework {namespace or self.namespace}/{name}"):
            return NotebookView.decode(await self.kube.patch(path, body, content_type=content_type))

    async def gone(self, view: FrameworkView, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- as of `Client`
        """Wait until this very Framework does not exist any more.

        Args:
            view: What `delete` has returned.
            timeout: Seconds to wait; None for any time.

        Raises:
            WaitTimeoutError: It is not gone in time.
        """
        try:
            async with asyncio.timeout(timeout), aclosing(self._views(view)) as views:
                async for _ in views:
                    pass
        except TimeoutError as error:
            raise errors.WaitTimeoutError(
                f"Framework {view.name} is not deleted after {timeout:g} s; its Pods may take their grace period"
            ) from error
        except errors.DeletedError:
            pass


def _with_version(answer: bytes) -> bytes:
    """Return an object with the resourceVersion that one that was not stored lacks."""
    found = msgspec.json.decode(answer, type=dict[str, Any])
    return msgspec.json.encode(found | {"metadata": {"resourceVersion": "", **found.get("metadata", {})}})
