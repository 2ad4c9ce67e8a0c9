"""Access to one cluster through the official client; `deploy` uses it, `target` connects."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

from frameworkdemo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JsonObject = Mapping[str, Any]
"""A decoded JSON object."""

Manifest = dict[str, Any]
"""An object to send, as decoded from YAML."""

FIELD_MANAGER = "frameworkcontroller-demo"
ABSENT = (NotFoundError, ResourceNotFoundError)
"""The errors of a call for an object, or a kind, that the API server does not have."""

API_ERRORS = (ApiException, urllib3.exceptions.HTTPError, OSError)
"""The errors of a call that the API server refuses or does not answer."""


@dataclass(frozen=True)
class Cluster:
    """Access to one cluster.

    Attributes:
        api: The client for all calls.
        kubeconfig: The kubeconfig file; None for `KUBECONFIG` or the file in the home folder.
        context: The context in it; None for the current one.
    """

    api: Any
    kubeconfig: str | None = None
    context: str | None = None

    @property
    def core(self) -> Any:
        """The calls for Pods, logs and Events."""
        return kubernetes.client.CoreV1Api(self.api)

    @property
    def custom(self) -> Any:
        """The calls for Frameworks."""
        return kubernetes.client.CustomObjectsApi(self.api)

    def check(self) -> None:
        """Return if the API server answers.

        Raises:
            DemoError: The API server does not answer.
        """
        with _discovered(self.api):
            pass

    def get(self, manifest: JsonObject, namespace: str | None = None) -> JsonObject | None:
        """Return the object that a manifest names as the API server has it; None if there is none.

        Raises:
            DemoError: The API server refused the call or does not answer.
        """
        with _discovered(self.api) as dynamic:
            try:
                resource = _resource(dynamic, manifest)
                found: JsonObject = resource.get(**_where(manifest, resource, namespace)).to_dict()
            except ABSENT:
                return None
            except API_ERRORS as error:
                raise DemoError(f"{name_of(manifest)} cannot be read: {reason_of(error)}") from error
            return found

    def apply(self, objects: Iterable[Manifest], namespace: str | None = None) -> None:
        """Apply objects on the server's side, by force, in their order.

        Args:
            objects: Their manifests.
            namespace: The namespace of namespaced objects whose manifests name none.

        Raises:
            DemoError: The API server refused an object; the text names it.
        """
        with _discovered(self.api) as dynamic:
            for manifest in objects:
                try:
                    resource = _resource(dynamic, manifest)
                    dynamic.server_side_apply(
                        resource,
                        body=manifest,
                        **_where(manifest, resource, namespace),
                        field_manager=FIELD_MANAGER,
                        force_conflicts=True,
                    )
                except (*ABSENT, *API_ERRORS) as error:
                    raise DemoError(f"{name_of(manifest)} was not accepted: {reason_of(error)}") from error

    def delete(self, objects: Iterable[Manifest], namespace: str | None = None) -> None:
        """Delete objects in the foreground, that is, after the objects that they own; absent ones are skipped.

        Raises:
            DemoError: The API server refused a deletion; the text names the object.
        """
        with _discovered(self.api) as dynamic:
            for manifest in objects:
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
                try:
                    resource = _resource(dynamic, manifest)
                    resource.delete(**_where(manifest, resource, namespace), body=options)
                except ABSENT:
                    continue
                except API_ERRORS as error:
                    raise DemoError(f"{name_of(manifest)} cannot be deleted: {reason_of(error)}") from error


def connect(kubeconfig: str | None, context: str | None) -> Cluster:
    """Return access to a cluster.

    Args:
        kubeconfig: The kubeconfig file; None means `KUBECONFIG` or the file in the home folder.
        context: The context in it; None means the current one.

    Raises:
        DemoError: There is no such file or context.
    """
    try:
        api = kubernetes.config.new_client_from_config(config_file=kubeconfig, context=context)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise DemoError(f"no access to {f'the context {context}' if context else kubeconfig}: {error}") from error
    return Cluster(api, kubeconfig, context)


def name_of(manifest: JsonObject) -> str:
    """Return the kind and the name of an object, such as `Deployment frameworkcontroller`."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def reason_of(error: BaseException) -> str:
    """Return the API server's message if the error has one, else the text of the error."""
    body = getattr(error, "body", None)
    if body:
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return f"{getattr(error, 'status', '')} {getattr(error, 'reason', '')}".strip()
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _discovered(api: Any) -> Iterator[Any]:
    """Yield a client that has discovered the kinds of the API server.

    The client caches the kinds in a file. Each call gets a new file, because clusters change behind one URL.
    """
    with tempfile.TemporaryDirectory(prefix="frameworkcontroller-demo-") as folder:
        try:
            dynamic = DynamicClient(api, cache_file=str(Path(folder) / "resources.json"))
        except API_ERRORS as error:
            raise DemoError(f"the API server does not answer: {reason_of(error)}") from error
        yield dynamic


def _resource(dynamic: Any, manifest: JsonObject) -> Any:
    return dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])


def _where(manifest: JsonObject, resource: Any, namespace: str | None) -> dict[str, str]:
    place = {"name": manifest["metadata"]["name"]}
    if resource.namespaced:
        place["namespace"] = manifest["metadata"].get("namespace") or namespace or "default"
    return place
