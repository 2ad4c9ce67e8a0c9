"""Objects whose Pods are gangs, on a real API server with a controller and an injector that know them."""

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit import kueue
from testkit.operators import JobSet, LeaderWorkerSet, Trainer
from testkit.waiting import eventually
from tests.support import waiting
from tests.support.beside.foreign_pods import BARRIER
from tests.support.beside.kubelet import Kubelet

_PAGE = (Path(__file__).parents[3] / "docs" / "others.md").read_text()
MANIFESTS = {
    found["kind"]: found
    for text in re.findall(r"^```yaml\n(.*?)^```", _PAGE, re.DOTALL | re.MULTILINE)
    if "kind" in (found := yaml.safe_load(text))
}
"""What the page of other controllers shows, by kind."""
_INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
becomes = functools.partial(waiting.becomes, timeout=60)
"""The controllers of others have their part in what is waited for here."""
_KINDS = ("jobset.x-k8s.io/v1alpha2", "leaderworkerset.x-k8s.io/v1")


def grant(cluster: Cluster) -> None:
    """Let the controller read owners: what the chart has with `foreignGangs.enabled` where all kinds are installed."""
    kueue.grant(cluster, "foreignGangs.enabled=true", *(f"--api-versions={kind}" for kind in _KINDS))


@contextlib.contextmanager
def operated(cluster: Cluster, folders: pytest.TempPathFactory) -> Iterator[None]:
    """Run the controllers of JobSets, LeaderWorkerSets and TrainJobs until the block ends."""
    with contextlib.ExitStack() as stack:
        for kind in (JobSet, LeaderWorkerSet, Trainer):
            made = kind(cluster, folders.mktemp(kind.name))
            made.install()
            stack.callback(made.stop)
            made.start()
        yield


def template(policy: str, labels: Json | None = None, **annotations: str) -> Json:
    """A Pod template with the barrier's label and the preset pytorch."""
    settings = {f"barrier.frameworkcontroller.microsoft.com/{key}": value for key, value in annotations.items()}
    preset = {"barrier.frameworkcontroller.microsoft.com/preset": "pytorch"}
    container = {"name": "app", "image": "x", "command": ["python"]}
    return {
        "metadata": {"labels": BARRIER | (labels or {}), "annotations": preset | settings},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def environment(pod: Json) -> dict[str, str]:
    """The variables of the injected barrier, as the kubelet would set them."""
    found: dict[str, str] = {}
    meta = pod["metadata"]
    for one in pod["spec"]["initContainers"][-1]["env"]:
        if "value" in one:
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], one["value"])
            continue
        path = one["valueFrom"]["fieldRef"]["fieldPath"]
        label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
        found[one["name"]] = meta["labels"].get(label[1], "") if label else meta[path.removeprefix("metadata.")]
    return found


class Gangs:
    """The gangs of one namespace."""

    def __init__(self, raw: RawClient, kubelet: Kubelet, namespace: str) -> None:
        self.raw, self.kubelet, self.namespace = raw, kubelet, namespace
        self.core = f"/api/v1/namespaces/{namespace}"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.sets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"

    def create(self, kind: str, **spec: object) -> str:
        """Create the object of the page, with these fields of its spec instead, and return its path."""
        found = MANIFESTS[kind]
        path = f"/apis/{found['apiVersion']}/namespaces/{self.namespace}/{kind.lower()}s"
        self.raw.create(path, found | {"spec": found["spec"] | spec})
        return f"{path}/{found['metadata']['name']}"

    def job(self, name: str, number: int, **spec: object) -> None:
        """Create an Indexed Job."""
        pod = template("Never", **spec.pop("annotations", {}))  # type: ignore[arg-type]
        own = {"completionMode": "Indexed", "completions": number, "parallelism": number, "template": pod}
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": own | spec}
        self.raw.create(self.jobs, document)

    def stateful_set(self, name: str, number: int, policy: str = "Parallel") -> None:
        """Create a StatefulSet."""
        labels = {"app": name}
        spec = {"selector": {"matchLabels": labels}, "serviceName": name, "replicas": number}
        spec |= {"podManagementPolicy": policy, "template": template("Always", labels)}
        document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}
        self.raw.create(self.sets, document)

    def pods(self, number: int, after: Iterable[Json] = (), **labels: str) -> list[Json]:
        """Wait until so many Pods with these labels stay, and return them by role, Job and rank; those of before go."""
        known = {pod["metadata"]["uid"] for pod in after}

        def are_there() -> list[Json]:
            self.end(after)
            found = [
                one
                for one in self.raw.get(f"{self.core}/pods")["items"]
                if "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] != "Failed"
                if labels.items() <= one["metadata"]["labels"].items() and one["metadata"]["uid"] not in known
            ]
            assert len(found) == number
            return sorted(found, key=_place)

        return eventually(are_there, 90)

    def complete(self, pods: list[Json]) -> Json:
        """Let Pods run with addresses, wait until a roster lists exactly these by index, and return it."""
        for pod in pods:
            self.kubelet.run(pod)
        wanted = [(pod["metadata"]["name"], pod["metadata"]["uid"][:8]) for pod in pods]

        def is_there() -> Json:
            listed = {tuple(_listed(roster)): roster for roster in self.rosters().values() if roster["complete"]}
            assert tuple(wanted) in listed, listed.keys()
            return listed[tuple(wanted)]

        return eventually(is_there, 60)

    def end(self, pods: Iterable[Json]) -> None:
        """Let Pods be gone, as a kubelet does."""
        for pod in pods:
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            # Gone already, or another one has its name.
            with contextlib.suppress(ApiStatusError):
                self.raw.delete(f"{self.core}/pods/{pod['metadata']['name']}", body)

    def rosters(self) -> dict[str, Json]:
        """Return the rosters by the names of their ConfigMaps."""
        return {one["metadata"]["name"]: json.loads(one["data"]["roster"]) for one in self._config_maps()}

    def owners(self) -> list[str]:
        """Return the UIDs of the objects that own the rosters."""
        return [owner["uid"] for one in self._config_maps() for owner in one["metadata"]["ownerReferences"]]

    def _config_maps(self) -> list[Json]:
        path = f"{self.core}/configmaps?labelSelector=frameworkcontroller.microsoft.com/gang"
        found: list[Json] = self.raw.get(path)["items"]
        return found

    def missing(self) -> list[str]:
        """Return for whom the rosters wait, and why."""
        return [f"{one['task']}: {one['why']}" for roster in self.rosters().values() for one in roster["waitingFor"]]

    def is_told(self, kind: str, why: str, reason: str = "GangImpossible") -> bool:
        """Report whether an Event of our controller tells this to an owner of this kind."""
        items = self.raw.get(f"{self.core}/events")["items"]
        ours = [one for one in items if one.get("reportingComponent") == "frameworkcontroller"]
        said = [(one["involvedObject"]["kind"], one["reason"], why in one["message"]) for one in ours]
        return (kind, reason, True) in said


def _place(pod: Json) -> tuple[str, int, str, int]:
    labels = pod["metadata"]["labels"]
    role = labels.get("jobset.sigs.k8s.io/replicatedjob-name", "")
    job, group = labels.get("jobset.sigs.k8s.io/job-index", "0"), "leaderworkerset.sigs.k8s.io/group-index"
    return role, int(job), labels.get(group, ""), int(next(labels[key] for key in _INDEXES if key in labels))


def _listed(roster: Json) -> Iterator[tuple[str, str]]:
    for role in roster["taskRoles"]:
        for pod, task in zip(role["pods"], role["tasks"], strict=True):
            yield pod, task[2]
