"""The kinds of other controllers whose Pods may be a gang, one row a kind, and how the roster of each gang is named.

The injector and the controller find the gang of a Pod by this table, each for itself, and so name one ConfigMap.
Source: docs/reference/barrier.md, section 2.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from frameworkcontroller.api import names

_SETTING: Final = f"barrier.{names.GROUP}/"
ROLES: Final = f"{_SETTING}roles"
GANG: Final = f"{_SETTING}gang"
GANG_ROLE: Final = f"{_SETTING}gang-role"
GANG_INDEX: Final = f"{_SETTING}gang-index"
GANG_SIZE: Final = f"{_SETTING}gang-size"
DEFAULT_ROLE: Final = "worker"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOBSET_ROLE: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


class Kind(Struct, frozen=True):
    """One kind of gangs: its Pods have `label`, or else are controlled by an object of the kind `owner`."""

    kind: str
    api_version: str
    plural: str
    label: str = ""
    """Its value is the name of the object that is the gang."""
    owner: str = ""
    parts: tuple[str, ...] = ()
    """Labels that tell gangs of one name apart, the attempt last; without them the UID of the controller does."""


JOBSET: Final = Kind(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    "jobsets",
    label="jobset.sigs.k8s.io/jobset-name",
    parts=("jobset.sigs.k8s.io/jobset-uid", "jobset.sigs.k8s.io/restart-attempt"),
)
LWS: Final = Kind(
    "LeaderWorkerSet",
    "leaderworkerset.x-k8s.io/v1",
    "leaderworkersets",
    label="leaderworkerset.sigs.k8s.io/name",
    parts=("leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/template-revision-hash"),
)
JOB: Final = Kind("Job", "batch/v1", "jobs", owner="Job")
STATEFUL_SET: Final = Kind("StatefulSet", "apps/v1", "statefulsets", owner="StatefulSet")
PODS: Final = Kind("Pod", "v1", "pods")
"""Pods that say all by annotations, whoever has created them; no object is the gang."""
# The first row that fits counts: Pods of a JobSet are those of Jobs, too.
_TABLE: Final = (JOBSET, LWS, JOB, STATEFUL_SET)
KINDS: Final = {row.kind: row for row in (*_TABLE, PODS)}


def kind_of(label: Callable[[str], str | None], gang: str | None, owner_kind: str) -> Kind | None:
    """Return the row of a Pod by its labels, its annotation `gang` and the kind of its controller, None for none."""
    if gang:
        return PODS
    fits = (row for row in _TABLE if (row.label and label(row.label)) or (row.owner and row.owner == owner_kind))
    return next(fits, None)


def gang_name(kind: Kind, parts: Iterable[str]) -> str:
    """Return the name of a gang, for those of its roster (`names.config_map_name`) and of the access to that."""
    return ".".join((f"gang-{kind.kind.lower()}", *parts))
