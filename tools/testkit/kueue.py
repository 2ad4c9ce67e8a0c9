"""Kueue as a process, and the objects of its queues. The visibility server, an API of its own, is off."""

from pathlib import Path
from typing import Any

from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import apply_all
from testkit.operators import Operator, rendered

API = "/apis/kueue.x-k8s.io/v1beta2"
CHART = Path(__file__).parents[2] / "charts" / "frameworkcontroller"
OUR_SYSTEM = "frameworkcontroller-system"
SYSTEM = "kueue-system"
ACCOUNT = "kueue-controller-manager"
# Kueue reads the certificate of its metrics from a fixed path.
_IN_ITS_OWN_ETC = ("unshare", "--mount", "--", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"')


class Kueue(Operator):
    """Kueue on one cluster."""

    name = "kueue"
    namespace = SYSTEM
    account = ACCOUNT
    options = ("--feature-gates=VisibilityOnDemand=false",)

    def _around(self) -> list[str]:
        self._certified("etc/kueue/metrics/certs")
        return [*_IN_ITS_OWN_ETC, str(self.folder / "etc")]


def our_chart(cluster: Cluster, value: str = "kueue.enabled=true", *options: str) -> list[Json]:
    """Return what our own chart installs with this value and further options."""
    return rendered(cluster, "frameworkcontroller", CHART, OUR_SYSTEM, f"--set={value}", *options)


def grant(cluster: Cluster, value: str = "kueue.enabled=true", *options: str) -> None:
    """Apply the permissions that our chart gives so."""
    rules = [one for one in our_chart(cluster, value, *options) if one["kind"] in {"ClusterRole", "ClusterRoleBinding"}]
    apply_all(cluster, [one for one in rules if "injector" not in one["metadata"]["name"]])


def quota(raw: RawClient, namespace: str, *, local: str = "main", cpu: str = "4", **spec: Any) -> None:
    """Give a namespace a LocalQueue with a ClusterQueue of its own that has this quota in one flavor."""
    flavor(raw, "pool-a")
    cluster_queue(raw, namespace, {"pool-a": cpu}, **spec)
    local_queue(raw, namespace, local, namespace)


def flavor(raw: RawClient, name: str, **spec: Any) -> None:
    """Apply a ResourceFlavor."""
    apply(raw, "ResourceFlavor", name, spec)


def cluster_queue(raw: RawClient, name: str, cpus: dict[str, str], **spec: Any) -> None:
    """Apply a ClusterQueue with so many CPUs of each flavor."""
    flavors = [{"name": one, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for one, cpu in cpus.items()]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    apply(raw, "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def local_queue(raw: RawClient, namespace: str, name: str, cluster_queue: str) -> None:
    """Apply a LocalQueue of a ClusterQueue."""
    apply(raw, "LocalQueue", name, {"clusterQueue": cluster_queue}, namespace)


def apply(raw: RawClient, kind: str, name: str, spec: Json, namespace: str = "") -> None:
    """Apply an object of Kueue; one of a WorkloadPriorityClass has no spec."""
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    body |= spec if kind == "WorkloadPriorityClass" else {"spec": spec}
    lower = kind.lower()
    plural = f"{lower}es" if lower.endswith("ss") else f"{lower[:-1]}ies" if lower.endswith("gy") else f"{lower}s"
    where = f"namespaces/{namespace}/" if namespace else ""
    raw.apply(f"{API}/{where}{plural}/{name}", body)
