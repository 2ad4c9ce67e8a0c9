"""The kinds of other controllers whose Pods may be a gang, one row a kind, and how the roster of each gang is named.

A row says which labels and annotations of a Pod say what. The injector and the controller find the gang of a Pod by
this table, each for itself, and so name one ConfigMap. Source: docs/reference/barrier.md, section 2.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from frameworkcontroller.api import names

_SETTING: Final = f"barrier.{names.GROUP}/"
_JOB: Final = "batch.kubernetes.io/"
_JOBSET: Final = "jobset.sigs.k8s.io/"
_LWS: Final = "leaderworkerset.sigs.k8s.io/"
ROLES: Final = f"{_SETTING}roles"
DEFAULT_ROLE: Final = "worker"


class Kind(Struct, frozen=True, kw_only=True):
    """One kind of gangs; what its Pods do not say is ""."""

    kind: str
    api_version: str
    plural: str
    owner: str = ""
    """The kind of the controller of its Pods, where that is the object that is the gang."""
    name: str = ""
    """Says the name of that object otherwise."""
    parts: tuple[str, ...] = ()
    """Tell gangs of one name apart, the attempt last."""
    uid: str = ""
    """Says the object's UID."""
    attempt: str = ""
    role: str = ROLES
    job: str = ""
    """Says which Job of its role the Pod is of."""
    index: str
    size: str = ""
    """Says how many Pods there are, where the object does not."""


PODS: Final = Kind(
    kind="Pod",
    api_version="v1",
    plural="pods",
    name=f"{_SETTING}gang",
    role=f"{_SETTING}gang-role",
    index=f"{_SETTING}gang-index",
    size=f"{_SETTING}gang-size",
)
"""Pods that say all by annotations, whoever has created them; no object is the gang."""
JOBSET: Final = Kind(
    kind="JobSet",
    api_version="jobset.x-k8s.io/v1alpha2",
    plural="jobsets",
    name=f"{_JOBSET}jobset-name",
    parts=(f"{_JOBSET}jobset-uid", f"{_JOBSET}restart-attempt"),
    uid=f"{_JOBSET}jobset-uid",
    attempt=f"{_JOBSET}restart-attempt",
    role=f"{_JOBSET}replicatedjob-name",
    job=f"{_JOBSET}job-index",
    index=f"{_JOB}job-completion-index",
)
LWS: Final = Kind(
    kind="LeaderWorkerSet",
    api_version="leaderworkerset.x-k8s.io/v1",
    plural="leaderworkersets",
    name=f"{_LWS}name",
    parts=(f"{_LWS}group-key", f"{_LWS}template-revision-hash"),
    index=f"{_LWS}worker-index",
    size=f"{_LWS}size",
)
JOB: Final = Kind(
    kind="Job",
    api_version="batch/v1",
    plural="jobs",
    name=f"{_JOB}job-name",
    parts=(f"{_JOB}controller-uid",),
    uid=f"{_JOB}controller-uid",
    index=f"{_JOB}job-completion-index",
)
STATEFUL_SET: Final = Kind(
    kind="StatefulSet",
    api_version="apps/v1",
    plural="statefulsets",
    owner="StatefulSet",
    index="apps.kubernetes.io/pod-index",
)
# The first row that fits counts: Pods of a JobSet are those of Jobs, too, and those of an LWS of StatefulSets.
KINDS: Final = {row.kind: row for row in (PODS, JOBSET, LWS, JOB, STATEFUL_SET)}


def kind_of(said: Callable[[str], str | None], owner_kind: str) -> Kind | None:
    """Return the row of a Pod by its labels and annotations and the kind of its controller, None if none fits."""
    fits = (row for row in KINDS.values() if (row.name and said(row.name)) or (row.owner and row.owner == owner_kind))
    return next(fits, None)


def gang_name(kind: Kind, parts: Iterable[str]) -> str:
    """Return the name of a gang, for those of its roster (`names.config_map_name`) and of the access to that."""
    return ".".join((f"gang-{kind.kind.lower()}", *parts))
