"""URL paths and query strings of the Kubernetes API."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def resource_path(api_version: str, resource: str, *, namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of a collection or an object, as `/api/v1/namespaces/default/pods/web-0`.

    `api_version` is `v1` or `group/version`, `resource` a plural. Without a namespace it is a cluster-scoped resource,
    or one of all namespaces; without a name it is the collection.
    """
    parts = ["", "apis" if "/" in api_version else "api", api_version]
    if namespace is not None:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource)
    if name is not None:
        parts.append(quote(name, safe=""))
    return "/".join(parts)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """Append a query string, encoded, to a path.

    Raises:
        ValueError: the path does not start with a slash.
    """
    if not path.startswith("/"):
        raise ValueError(f"path: expected it to start with '/', got {path!r}")
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path
