"""What the API server and the controller count, by the names of their metrics."""

import math
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

SENT = "rest_client_requests_total"
"""The requests of a controller."""
_MB_WRITTEN = "MB written"
_BODIES = "apiserver_request_body_size_bytes_sum"
_RESOURCES = frozenset({"frameworks", "pods", "configmaps", "events", "roles", "rolebindings"})
_WRITES = {
    "configmaps": "ConfigMaps",
    "roles": "Roles, RoleBindings",
    "rolebindings": "Roles, RoleBindings",
    "events": "Events",
}
KINDS = ("Pods created", "status writes", *dict.fromkeys(_WRITES.values()), "Pods deleted", "others")
"""The kinds of requests, as columns."""


def samples(text: str, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each sample of this name."""
    # An API server has many thousands of lines, of which few are looked at.
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(name))
    for family in text_string_to_metric_families(lines):
        yield from ((sample.labels, sample.value) for sample in family.samples if sample.name == name)


def total(text: str, name: str) -> float:
    """Return the sum over all samples of this name."""
    return sum(value for _, value in samples(text, name))


def quantile_bound(text: str, name: str, share: float) -> float | None:
    """Return the upper bound of the bucket of a histogram in which a quantile lies; None of an empty histogram."""
    bounds = sorted((float(labels["le"]), count) for labels, count in samples(text, f"{name}_bucket"))
    if not bounds or not bounds[-1][1]:
        return None
    return next((bound for bound, count in bounds if count >= share * bounds[-1][1]), math.inf)


def request_of(labels: Mapping[str, str]) -> str | None:
    """Return the kind of a request by the labels of its metric, None if it is not counted."""
    match labels.get("resource", ""), labels.get("subresource", ""), labels.get("verb", ""):
        case (resource, _, verb) if resource not in _RESOURCES or verb == "WATCH":
            return None
        case "pods", "", "POST":
            return "Pods created"
        case "pods", "", "DELETE" | "DELETECOLLECTION":
            return "Pods deleted"
        case "frameworks", "status", "PUT":
            return "status writes"
        case resource, _, verb if verb not in {"GET", "LIST"}:
            return _WRITES.get(resource, "others")
        case _:
            return "others"


def counted(text: str) -> dict[str, float]:
    """Return what the API server has counted of all clients' requests for the objects of Frameworks, except watches.

    The columns are the requests by kind and in all, and the megabytes of their bodies.
    """
    counts = dict.fromkeys(KINDS, 0)
    for labels, value in samples(text, "apiserver_request_total"):
        if kind := request_of(labels):
            counts[kind] += int(value)
    written = sum(value for labels, value in samples(text, _BODIES) if labels.get("resource") in _RESOURCES)
    return {**counts, "all requests": sum(counts.values()), _MB_WRITTEN: written / 1e6}


def traffic(text: str) -> dict[str, float]:
    """Return the megabytes that the API server has sent in answers and events, and received in bodies, as columns."""
    sent = sum(total(text, f"apiserver_{name}_sum") for name in ("response_sizes", "watch_events_sizes"))
    return {"MB received": sent / 1e6, _MB_WRITTEN: total(text, _BODIES) / 1e6}


def since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return by how much each count has grown."""
    return {name: count - before[name] for name, count in now.items()}
