"""One cluster through the official client: the only module that knows how to reach it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError

from demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demo.facts import Wire

Manifest = dict[str, Any]
"""An object to send."""

FIELD_MANAGER = "frameworkcontroller-demo"
ABSENT = (NotFoundError, ResourceNotFoundError)
"""The object, or the whole kind, is not there."""

TROUBLE = (ApiException, urllib3.exceptions.HTTPError, OSError)
"""What a call may raise when the API server or the way to it is not well."""


@dataclass(frozen=True)
class Cluster:
    """Access to one cluster.

    Attributes:
        api: The client that all others are made of.
    """

    api: Any

    @property
    def core(self) -> Any:
        """Pods, logs, Events, ConfigMaps, Namespaces."""
        return kubernetes.client.CoreV1Api(self.api)

    @property
    def apps(self) -> Any:
        """Deployments."""
        return kubernetes.client.AppsV1Api(self.api)

    @property
    def custom(self) -> Any:
        """Frameworks."""
        return kubernetes.client.CustomObjectsApi(self.api)

    def check(self) -> None:
        """Return if the API server answers.

        Raises:
            DemoError: It does not.
        """
        with _discovered(self.api):
            pass

    def get(self, manifest: Wire, namespace: str | None = None) -> Wire | None:
        """Return the object that a manifest names as the server has it; None if it is not there.

        Raises:
            DemoError: The API server refused or does not answer.
        """
        with _discovered(self.api) as dynamic:
            try:
                resource = _resource(dynamic, manifest)
                found: Wire = resource.get(**_where(manifest, resource, namespace)).to_dict()
            except ABSENT:
                return None
            except TROUBLE as error:
                raise DemoError(f"{named(manifest)} could not be read: {why(error)}") from error
            return found

    def apply(self, objects: Iterable[Manifest], namespace: str | None = None) -> None:
        """Apply objects on the server's side, in their order; what was there becomes what is asked for.

        Args:
            objects: Manifests.
            namespace: Where namespaced ones without a namespace go.

        Raises:
            DemoError: The API server refused one; it names which.
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
                except (*ABSENT, *TROUBLE) as error:
                    raise DemoError(f"{named(manifest)} was not accepted: {why(error)}") from error

    def delete(self, objects: Iterable[Manifest], namespace: str | None = None) -> None:
        """Ask for the deletion of objects, what they own first; those that are not there are as good as deleted.

        Raises:
            DemoError: The API server refused; it names which.
        """
        with _discovered(self.api) as dynamic:
            for manifest in objects:
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
                try:
                    resource = _resource(dynamic, manifest)
                    resource.delete(**_where(manifest, resource, namespace), body=options)
                except ABSENT:
                    continue
                except TROUBLE as error:
                    raise DemoError(f"{named(manifest)} could not be deleted: {why(error)}") from error


def connect(kubeconfig: str | None, context: str | None) -> Cluster:
    """Return access to a cluster.

    Args:
        kubeconfig: The file; None means `KUBECONFIG` or the one in the home folder.
        context: The context in it; None means the current one.

    Raises:
        DemoError: There is no such file or context.
    """
    try:
        api = kubernetes.config.new_client_from_config(config_file=kubeconfig, context=context)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise DemoError(f"no access to {f'the context {context}' if context else kubeconfig}: {error}") from error
    return Cluster(api)


def named(manifest: Wire) -> str:
    """Return `Deployment frameworkcontroller` for people."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def why(error: BaseException) -> str:
    """Return the API server's own sentence where the error has one."""
    body = getattr(error, "body", None)
    if body:
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return f"{getattr(error, 'status', '')} {getattr(error, 'reason', '')}".strip()
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _discovered(api: Any) -> Iterator[Any]:
    """Give a client that knows the server's resources.

    It keeps what it knows in a file; a fresh one each time, as clusters come and go on one port.
    """
    with tempfile.TemporaryDirectory(prefix="frameworkcontroller-demo-") as folder:
        try:
            dynamic = DynamicClient(api, cache_file=str(Path(folder) / "resources.json"))
        except TROUBLE as error:
            raise DemoError(f"the API server does not answer: {why(error)}") from error
        yield dynamic


def _resource(dynamic: Any, manifest: Wire) -> Any:
    return dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])


def _where(manifest: Wire, resource: Any, namespace: str | None) -> dict[str, str]:
    place = {"name": manifest["metadata"]["name"]}
    if resource.namespaced:
        place["namespace"] = manifest["metadata"].get("namespace") or namespace or "default"
    return place
