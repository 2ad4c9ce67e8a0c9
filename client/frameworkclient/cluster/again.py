"""How another attempt begins, and how a Framework that is Completed is submitted again for it.

Its name is free only once it is deleted. Nothing is lost on the way: its code has no owner meanwhile, and the manifest
is kept in a file first, so that whatever ends this process, one is left. These files are in
`$XDG_STATE_HOME/frameworkctl`, by default in `~/.local/state`, for their user alone.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from frameworkclient import errors
from frameworkclient.cluster import actions
from frameworkclient.model.yaml_text import dump
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.pods import TASK_POD_DECODER
from frameworkcontroller.api import names
from frameworkcontroller.api.meta import PARTIAL_DECODER
from frameworkkube.http.client import MERGE_PATCH, KubeClient
from frameworkkube.paths import resource_path

CREATE_SECONDS: Final = 120.0
"""For which a create is repeated whose Framework was deleted for it."""


class Frameworks(Protocol):
    """What is needed of `AsyncClient`; each method is as its own."""

    @property
    def kube(self) -> KubeClient: ...  # noqa: D102 -- see there
    async def create(self, framework: dict[str, Any], *, dry_run: bool = False) -> FrameworkView: ...  # noqa: D102 -- see there
    async def get(self, name: str, *, namespace: str | None = None) -> FrameworkView: ...  # noqa: D102 -- see there
    async def gone(self, view: FrameworkView) -> None: ...  # noqa: D102 -- see there


async def delete_view(kube: KubeClient, view: FrameworkView, resource_version: str | None = None) -> None:
    """Delete this very Framework, if it is as it was seen."""
    path = resource_path(names.API_VERSION, names.PLURAL, namespace=view.namespace, name=view.name)
    with errors.translated(f"delete Framework {view.namespace}/{view.name}"):
        await kube.delete(path, uid=view.uid, resource_version=resource_version, propagation="Foreground")


async def perform(
    client: Frameworks,
    view: FrameworkView,
    action: actions.Retry,
    task: str = "",
    on_kept: Callable[[Path], None] | None = None,
) -> None:
    """Do what `actions.retry_of` has decided for a Framework as it was seen, and nothing if that has changed since."""
    what = f"retry {task} of {view.namespace}/{view.name}" if task else f"retry {view.namespace}/{view.name}"
    with errors.translated(what):
        match action:
            case actions.DeletePod(pod, uid):
                path = resource_path("v1", "pods", namespace=view.namespace, name=pod)
                found = TASK_POD_DECODER.decode(await client.kube.get(path))
                actions.check_runs(task, found)
                # The Pod of the attempt that was read, and as it was read: it may end at any moment.
                await client.kube.delete(path, uid=uid, resource_version=found.metadata.resource_version)
            case actions.DeleteConfigMap(config_map, uid):
                path = resource_path("v1", "configmaps", namespace=view.namespace, name=config_map)
                await client.kube.delete(path, uid=uid, propagation="Foreground")
            case actions.SubmitAgain():
                await submit_again(client, view, on_kept)


async def submit_again(client: Frameworks, view: FrameworkView, on_kept: Callable[[Path], None] | None) -> None:
    """Delete a Framework and create it again.

    Raises:
        ClientError: It cannot be; the message names the file with the manifest if the Framework may be gone.
    """
    manifest = actions.again(view.to_dict())
    with named(None), suppress(errors.AlreadyExistsError):
        # Everybody who may refuse it is asked before the name is found to be taken.
        await client.create(manifest, dry_run=True)
        raise errors.DeletedError(f"Framework {view.namespace}/{view.name} was deleted by somebody else")
    with named(None):
        code = await _code_of(client.kube, view)
        await _own_code(client.kube, view, code)
    file = keep(manifest, view.uid)
    if on_kept is not None:
        on_kept(file)
    with named(file):
        try:
            # What somebody else changes in this moment would not be in the manifest.
            await delete_view(client.kube, view, view.resource_version)
        except errors.ConflictError:
            file.unlink()
            await _own_code(client.kube, view, code, actions.owner(view))
            raise
        await client.gone(view)
        new = await _create_again(client, manifest)
    file.unlink()
    await _own_code(client.kube, new, code, actions.owner(new))


async def _code_of(kube: KubeClient, view: FrameworkView) -> tuple[str, ...]:
    """Return the ConfigMaps with code that go with a Framework; its templates may name others, which stay."""
    found = []
    for name in actions.code_of(view):
        path = resource_path("v1", "configmaps", namespace=view.namespace, name=name)
        with errors.translated(f"read the code of {view.namespace}/{view.name} in ConfigMap {name}"):
            owners = PARTIAL_DECODER.decode(await kube.get(path)).metadata.owner_references
        if [owner.uid for owner in owners] == [view.uid]:
            found.append(name)
    return tuple(found)


async def _own_code(kube: KubeClient, view: FrameworkView, code: Sequence[str], *owners: Mapping[str, Any]) -> None:
    """Give code an owner, with which it goes, or none, so that it stays for the next one."""
    for name in code:
        path = resource_path("v1", "configmaps", namespace=view.namespace, name=name)
        body = msgspec.json.encode({"metadata": {"ownerReferences": list(owners)}})
        with errors.translated(f"keep the code of {view.namespace}/{view.name} in ConfigMap {name}"):
            await kube.patch(path, body, content_type=MERGE_PATCH)


async def _create_again(client: Frameworks, manifest: dict[str, Any]) -> FrameworkView:
    """Create a Framework and return it: one that is there if it is the same, as an answer may have been lost."""
    import tenacity

    from frameworkkube.backoff import is_transient, retrying

    transient = tenacity.retry_if_exception(lambda error: is_transient(error.__cause__ or error))
    try:
        return await retrying(retry=transient, stop=tenacity.stop_after_delay(CREATE_SECONDS))(client.create, manifest)
    except errors.AlreadyExistsError:
        found = await client.get(manifest["metadata"]["name"], namespace=manifest["metadata"]["namespace"])
        if actions.again(found.to_dict()) != manifest:
            raise
        return found


def folder() -> Path:
    """Return where the files are."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "frameworkctl"


def keep(manifest: Mapping[str, Any], uid: str) -> Path:
    """Write the manifest of the Framework of this UID to the disk, and return the file.

    Raises:
        ArgumentError: The file cannot be written.
    """
    metadata = manifest["metadata"]
    try:
        # The name alone may be that of a Framework of another cluster.
        file = folder() / f"{metadata['namespace']}.{metadata['name']}.{uid}.yaml"
        part = file.with_suffix(".part")
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as stream:
            stream.write(dump(manifest))
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            directory = os.open(file.parent, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
    except (OSError, RuntimeError) as error:
        raise errors.ArgumentError(
            f"cannot keep the manifest in a file: {error}; nothing was deleted: set XDG_STATE_HOME to a folder for it"
        ) from error
    return file


def kept(namespace: str, name: str) -> list[Path]:
    """Return the files of a Framework whose retry was interrupted."""
    return sorted(folder().glob(f"{namespace}.{name}.*.yaml"))


@contextmanager
def named(file: Path | None) -> Iterator[None]:
    """Add to an error of the block where the manifest is, or that it is not needed."""
    try:
        yield
    except errors.ClientError as error:
        is_kept = file is not None and file.exists()
        told = f"if it is gone, create it again: frameworkctl submit -f {file}" if is_kept else "nothing was deleted"
        error.args = (f"{error}; {told}",)
        raise
